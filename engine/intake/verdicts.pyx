"""Rows into definitions. verdicts.pxd says what it promises."""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t

from mainspring.changelog_tailer.rows cimport (
    OP_DELETE as ROW_DELETE,
    OP_INSERT as ROW_INSERT,
    OP_LOAD as ROW_LOAD,
    OP_TRUNCATE as ROW_TRUNCATE,
    OP_UPDATE as ROW_UPDATE,
    Row,
)
from mainspring.wheel.edit cimport (
    DATA_MAX, KEY_MAX, OP_DELETE, OP_INSERT, OP_LOAD, OP_UPDATE, Definition_t,
)
from mainspring.wheel.schedule cimport KIND_CRON, KIND_INTERVAL, KIND_ONCE

import numpy as np

from mainspring.changelog_tailer.layout import ROW
from mainspring.wheel.layout import DEFINITION

globals().update(GOOD=GOOD, BAD=BAD, UNKNOWN_OP=UNKNOWN_OP, EMPTIES=EMPTIES)

cdef int64_t NEVER = INT64_MAX
cdef int CATCH_UP_MAX = 2
cdef int NO_KIND = 0

cdef enum:
    MICROSECONDS = 1000000

assert ROW.itemsize == sizeof(Row), "layout.ROW and the C struct Row differ"
assert DEFINITION.itemsize == sizeof(Definition_t), "layout.DEFINITION and the C struct Definition_t differ"


def judged(rows, routes, crons):
    """Definitions, verdicts, and how many rows are not good. The .pyi has it in full."""
    cdef const uint8_t[::1] source = np.ascontiguousarray(rows, dtype=ROW).view(np.uint8)
    cdef uint64_t count = len(rows)
    cdef uint64_t odd = 0
    cdef Numbers route_numbers = numbers_of(routes)
    cdef Numbers cron_numbers = numbers_of(crons)
    definitions = np.zeros(count, dtype=DEFINITION)
    cdef uint8_t[::1] target = definitions.view(np.uint8)
    cdef uint8_t[::1] verdicts = np.empty(count, dtype=np.uint8)
    if count:
        with nogil:
            odd = translate(
                <const Row*>&source[0], <Definition_t*>&target[0], &verdicts[0], count,
                &route_numbers, &cron_numbers,
            )
    return definitions, np.asarray(verdicts), odd


# Holds for as long as the array does.
cdef Numbers numbers_of(const int64_t[::1] by_code):
    cdef Numbers numbers
    numbers.count = <uint32_t>len(by_code)
    numbers.by_code = &by_code[0] if numbers.count else NULL
    return numbers


cdef inline int64_t number_of(const Numbers* numbers, uint32_t code) noexcept nogil:
    return numbers.by_code[code] if code < numbers.count else <int64_t>REFUSED


cdef uint64_t translate(
    const Row* rows, Definition_t* definitions, uint8_t* verdicts, uint64_t count,
    const Numbers* routes, const Numbers* crons,
) noexcept nogil:
    cdef uint64_t i
    cdef uint64_t odd = 0
    for i in range(count):
        copy_fields(&rows[i], &definitions[i])
        verdicts[i] = translate_op(&rows[i], &definitions[i])
        if not set_schedule(&rows[i], &definitions[i], routes, crons) or exceeds(&rows[i]):
            if verdicts[i] == GOOD and definitions[i].op != OP_DELETE:
                verdicts[i], definitions[i].op = BAD, OP_DELETE
        odd += verdicts[i] != GOOD
    return odd


cdef inline void copy_fields(const Row* row, Definition_t* to) noexcept nogil:
    to.id, to.seq = row.job_id, row.seq
    to.run_at, to.starts_at, to.ends_at, to.boost_until = row.run_at, row.starts_at, row.ends_at, row.boost_until
    to.every_s, to.phase_s, to.jitter_s = row.every_s, row.phase_s, row.jitter_s
    to.boost_every_s = row.boost_every_s
    to.changed_at = row.changed_at // MICROSECONDS
    to.key_at, to.key_len, to.data_at, to.data_len = row.key_at, row.key_len, row.data_at, row.data_len
    to.enabled, to.first_run_soon, to.catch_up = row.enabled, row.first_run_soon, row.catch_up


cdef inline uint8_t translate_op(const Row* row, Definition_t* to) noexcept nogil:
    to.op = OP_DELETE
    if row.op == ROW_LOAD:
        to.op = OP_LOAD
    elif row.op == ROW_INSERT:
        to.op = OP_INSERT
    elif row.op == ROW_UPDATE:
        to.op = OP_UPDATE
    elif row.op == ROW_TRUNCATE:
        return EMPTIES
    elif row.op != ROW_DELETE:
        return UNKNOWN_OP
    return GOOD


# The schedule that a row sets; none where it sets none.
cdef inline uint8_t kind_of(const Row* row) noexcept nogil:
    if row.every_s > 0:
        return KIND_INTERVAL
    if row.cron != 0:
        return KIND_CRON
    return KIND_ONCE if row.run_at != NEVER else NO_KIND


# False where it has none, or a route or an expression that the wheel refused.
cdef inline bint set_schedule(
    const Row* row, Definition_t* to, const Numbers* routes, const Numbers* crons,
) noexcept nogil:
    cdef int64_t route = number_of(routes, row.route)
    cdef int64_t cron = number_of(crons, row.cron)
    to.kind = kind_of(row)
    to.route = <uint32_t>max(route, <int64_t>0)
    to.cron = <uint32_t>max(cron, <int64_t>0)
    return to.kind != NO_KIND and route != REFUSED and (to.kind != KIND_CRON or cron != REFUSED)


# What the table's constraints refuse may still stand in a log that somebody wrote into by hand.
cdef inline bint exceeds(const Row* row) noexcept nogil:
    return (
        row.catch_up > CATCH_UP_MAX
        or row.key_len > KEY_MAX
        or row.data_len > DATA_MAX
        or row.boost_every_s < 0
    )
