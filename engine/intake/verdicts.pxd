"""Rows of the table and of its change log as definitions of the wheel, each with a verdict.

    odd = translate(rows, definitions, verdicts, count, &routes, &crons)
    if odd: ...                             # rows that are not GOOD: the judge looks at those one by one

A row is read once and written once. Nothing about it is taken on trust: the log may be written by hand.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from mainspring.changelog_tailer.rows cimport Row
from mainspring.wheel.edit cimport Definition_t


cdef enum Verdict:
    GOOD = 0
    BAD = 1             # cannot be judged good: its definition says delete
    UNKNOWN_OP = 2      # no row of ours: no definition may come of it
    EMPTIES = 3         # a truncate


# The wheel's number for each code of a decoder; REFUSED for what the wheel refused.
ctypedef struct Numbers:
    const int64_t* by_code
    uint32_t count


cdef enum:
    REFUSED = -1


cdef uint64_t translate(
    const Row* rows, Definition_t* definitions, uint8_t* verdicts, uint64_t count,
    const Numbers* routes, const Numbers* crons,
) noexcept nogil
