# Rows of a binary COPY, decoded into the layout ROW of layout.py.
#
# The format: a signature and a header, then for each row a 16-bit count of fields and each field as a
# 32-bit length (-1 = null) and its bytes, then the count -1. Everything is big-endian.
# Source: "Binary Format" under COPY in the PostgreSQL manual.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from mainspring.changelog_tailer.dictionary cimport Dictionary

cdef struct Row:            # field for field the dtype ROW
    int64_t seq, job_id, changed_at, run_at, starts_at, ends_at, boost_until
    int32_t every_s, phase_s, jitter_s, boost_every_s
    uint32_t route, cron, key_at, key_len, data_at, data_len
    uint8_t op, enabled, first_run_soon, catch_up

cdef enum Op:               # of a row, as in layout.py
    OP_LOAD = 0
    OP_INSERT = 1
    OP_UPDATE = 2
    OP_DELETE = 3
    OP_TRUNCATE = 4
    OP_UNKNOWN = 255

cdef struct Field:
    const uint8_t* at
    int32_t length          # -1 = null

cdef struct Input:
    const uint8_t* start    # of the buffer that becomes Rows.texts
    const uint8_t* at       # first byte not yet used
    const uint8_t* end

# A row of the table has the last 17 of these columns, a row of the log all 20.
cdef enum:
    SEQ, OP, CHANGED_AT
    ID, KEY, EVERY_S, CRON, RUN_AT, TZ, PHASE_S, JITTER_S, STARTS_AT, ENDS_AT, BOOST_EVERY_S, BOOST_UNTIL
    CATCH_UP, FIRST_RUN_SOON, ENABLED, ROUTE, PAYLOAD
    COLUMNS

cdef enum Outcome:
    DECODED     # one row, the input stands behind it
    CUT         # the input ends within a row; nothing is used
    ENDED       # the count -1
    CORRUPT     # not the expected columns
    NO_MEMORY   # for a new route or expression; nothing is used

cdef Outcome split_row(Input* source, Field* fields) noexcept nogil

cdef class Decoder:
    cdef Dictionary route_codes, cron_codes
    cdef readonly list routes   # of str, by code
    cdef readonly list crons    # of (expression, zone), by code
    cdef bytes rest             # of a row that was cut
    cdef bint in_rows, ended

    cdef Outcome next_row(self, Input* source, Row* row) noexcept nogil
    cdef bint fill(self, const uint8_t* start, const Field* fields, Row* row) noexcept nogil
    cdef bint number_texts(self, const Field* fields, Row* row) noexcept nogil
    cdef publish_codes(self)
    cdef judge(self, Outcome outcome)
    cdef Py_ssize_t header_len(self, bytes text) except -1
