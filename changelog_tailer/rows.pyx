from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from mainspring.changelog_tailer.dictionary cimport Dictionary

import numpy as np

from mainspring.changelog_tailer import layout
from mainspring.changelog_tailer.errors import RowsCorrupt

cdef bytes SIGNATURE = b"PGCOPY\n\xff\r\n\x00"
cdef int HEADER_LEN = 19            # signature, flags, length of an extension that no server sends
# Every field is null. Rows for a buffer are allocated by it, so no row that fits can lack its place.
cdef int ROW_LEN_MIN = 2 + 4 * (COLUMNS - ID)
cdef int64_t INT64_MAX = 0x7fffffffffffffff
cdef int64_t INT64_MIN = -INT64_MAX - 1
cdef int64_t NEVER = INT64_MAX
cdef int64_t BEGINNING = INT64_MIN
cdef int64_t MICROSECONDS = 1000000
cdef int64_t EPOCH_2000_S = 946684800  # Postgres counts from 2000-01-01
cdef int KEY_LEN_MAX = 255
cdef int DATA_LEN_MAX = 65536
# What the table's constraints let through has at most 256 and 64 characters of four bytes.
cdef int CRON_LEN_MAX = 1024
cdef int TZ_LEN_MAX = 256

cdef enum:
    CATCH_UP_UNKNOWN = 255

# The decoder writes through one and Python reads through the other.
assert layout.ROW.itemsize == sizeof(Row), "layout.ROW and the C struct Row differ"


cdef inline uint32_t read_u32(const uint8_t* at) noexcept nogil:
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline int64_t read_i64(const uint8_t* at) noexcept nogil:
    return <int64_t>(<uint64_t>read_u32(at) << 32 | read_u32(at + 4))


cdef inline bint is_text(Field field, const char* text, int32_t length) noexcept nogil:
    return field.length == length and memcmp(field.at, text, length) == 0


# The bytes come from a server that may be of another version and from a log that its owner can write by hand, so
# nothing about a value is taken on trust but its length, which split_row has checked.
#
# Each reader below gives `absent` for null, and sets `bad` for a value that no writer of the table can make.

cdef inline int64_t whole(Field field, int64_t absent, bint* bad) noexcept nogil:
    if field.length == 8:
        return read_i64(field.at)
    bad[0] |= field.length != -1
    return absent


cdef inline int32_t at_least(int32_t low, Field field, int32_t absent, bint* bad) noexcept nogil:
    cdef int32_t value = absent
    if field.length == 4:
        value = <int32_t>read_u32(field.at)
        bad[0] |= value < low
    else:
        bad[0] |= field.length != -1
    return value


cdef inline uint8_t flag(Field field, bint* bad) noexcept nogil:
    if field.length == 1:
        return field.at[0] != 0
    bad[0] = True
    return 0


# Epoch seconds, rounded up. Infinity is the largest and the smallest number on both sides.
cdef inline int64_t instant(Field field, int64_t absent, bint* bad) noexcept nogil:
    cdef int64_t us
    if field.length != 8:
        bad[0] |= field.length != -1
        return absent
    us = read_i64(field.at)
    if us == INT64_MAX or us == INT64_MIN:
        return us
    return EPOCH_2000_S + us // MICROSECONDS + (us % MICROSECONDS > 0)


cdef inline int64_t microseconds(Field field, bint* bad) noexcept nogil:
    cdef int64_t us
    if field.length != 8:
        bad[0] |= field.length != -1
        return 0
    us = read_i64(field.at)
    if us > INT64_MAX - EPOCH_2000_S * MICROSECONDS or us == INT64_MIN:
        return us
    return us + EPOCH_2000_S * MICROSECONDS


# Names are told apart by length first, so most rows cost one comparison or two.
cdef uint8_t read_op(Field field) noexcept nogil:
    if is_text(field, "insert", 6):
        return OP_INSERT
    if is_text(field, "update", 6):
        return OP_UPDATE
    if is_text(field, "delete", 6):
        return OP_DELETE
    if is_text(field, "truncate", 8):
        return OP_TRUNCATE
    if is_text(field, "load", 4):
        return OP_LOAD
    return OP_UNKNOWN


cdef uint8_t read_catch_up(Field field) noexcept nogil:
    if is_text(field, "all", 3):
        return 0
    if is_text(field, "latest", 6):
        return 1
    if is_text(field, "none", 4):
        return 2
    return CATCH_UP_UNKNOWN


# Null where the definition of a live job has none.
cdef bint lacks_required(const Field* fields) noexcept nogil:
    return (
        fields[TZ].length < 0
        or fields[ROUTE].length < 0
        or fields[CATCH_UP].length < 0
        or fields[FIRST_RUN_SOON].length < 0
        or fields[ENABLED].length < 0
    )


cdef Outcome split_row(Input* source, Field* fields) noexcept nogil:
    cdef const uint8_t* at = source.at
    cdef int count, column
    cdef int32_t length
    # Lengths come from the wire: each is compared with what is left before the pointer moves.
    if source.end - at < 2:
        return CUT
    count = at[0] << 8 | at[1]
    at += 2
    if count == 0xffff:
        source.at = at
        return ENDED
    if count != COLUMNS and count != COLUMNS - ID:
        return CORRUPT
    for column in range(COLUMNS - count):
        fields[column].length = -1
    for column in range(COLUMNS - count, COLUMNS):
        if source.end - at < 4:
            return CUT
        length = <int32_t>read_u32(at)
        at += 4
        if length < -1:
            return CORRUPT
        if length > source.end - at:
            return CUT
        fields[column].at = at
        fields[column].length = length
        if length > 0:
            at += length
    source.at = at
    return DECODED


cdef class Decoder:
    """Turns the bytes of one COPY after the other into `Rows`.

    Keep one for the life of a reader: its dictionaries of routes and crons go on growing, so that numbers
    given once stay good. Not for two threads at once. Routes begin with 'default', so that 0, which rows
    without a definition carry, is a route.
    """

    def __cinit__(self):
        self.route_codes = Dictionary()
        self.cron_codes = Dictionary()
        self.routes = []
        self.crons = []
        if self.route_codes.code(b"default", 7) < 0 or self.cron_codes.code(b"\0", 1) < 0:
            raise MemoryError
        self.publish_codes()
        self.begin()

    def begin(self):
        """Expect the first byte of a COPY next."""
        self.rest = b""
        self.in_rows = False
        self.ended = False

    def decode(self, bytes data not None):
        """The rows that `data` completes; a row cut at its end is kept for the next call.

        Raises RowsCorrupt where it is no binary COPY of the expected columns.
        """
        cdef bytes text = self.rest + data if self.rest else data
        cdef Input source
        cdef Outcome outcome = DECODED
        cdef Py_ssize_t count = 0
        cdef Py_ssize_t room = len(text) // ROW_LEN_MIN + 1
        cdef Row* rows
        cdef uint8_t[::1] memory
        # The keys and payloads of the rows stay where they came in: Rows.texts is this very buffer.
        source.start = <const uint8_t*><char*>text
        source.end = source.start + len(text)
        source.at = source.start + self.header_len(text)
        array = np.empty(room, dtype=layout.ROW)
        memory = array.view(np.uint8)
        rows = <Row*>&memory[0]
        if self.in_rows:
            with nogil:
                while outcome == DECODED:
                    outcome = self.next_row(&source, &rows[count])
                    count += outcome == DECODED
        # Also before an error is raised: a caller that goes on must not meet the same bytes twice.
        self.rest = text[source.at - source.start:]
        self.publish_codes()
        self.judge(outcome)
        return layout.Rows(array[:count], text, self.routes, self.crons)

    def finish(self):
        """Raises RowsCorrupt unless the COPY has ended as it should."""
        if not self.ended or self.rest:
            raise RowsCorrupt("the rows of a COPY end too early; the connection was cut, read them again")

    cdef Outcome next_row(self, Input* source, Row* row) noexcept nogil:
        cdef Field fields[COLUMNS]
        cdef const uint8_t* before = source.at
        cdef Outcome outcome
        # Nothing may follow the end, and a row that found no memory is read again by whoever tries again.
        if self.ended:
            return CUT if source.at == source.end else CORRUPT
        outcome = split_row(source, fields)
        if outcome == ENDED:
            self.ended = True
        elif outcome == DECODED and not self.fill(source.start, fields, row):
            source.at = before
            outcome = NO_MEMORY
        return outcome

    # False when there is no memory for a new route or expression.
    cdef bint fill(self, const uint8_t* start, const Field* fields, Row* row) noexcept nogil:
        # Without a log's columns it is a row of the table.
        cdef bint logged = fields[OP].length >= 0 or fields[SEQ].length >= 0
        cdef uint8_t op = read_op(fields[OP]) if logged else OP_LOAD
        # A delete or a truncate carries no definition, and an unknown op none that could be trusted.
        cdef bint defined = op == OP_LOAD or op == OP_INSERT or op == OP_UPDATE
        cdef bint bad = fields[ID].length < 0 and op != OP_TRUNCATE
        row.seq = whole(fields[SEQ], 0, &bad)
        row.changed_at = microseconds(fields[CHANGED_AT], &bad)
        row.job_id = whole(fields[ID], 0, &bad)
        row.route = row.cron = 0
        fill_schedule(fields, row, &bad)
        fill_flags(fields, row, defined, &bad)
        place_key(start, fields[KEY], row, &bad)
        place_data(start, fields[PAYLOAD], row, &bad)
        # A row that cannot be right must not leave its texts in the dictionaries, which never shrink.
        row.op = OP_UNKNOWN if bad else op
        return bad or not defined or self.number_texts(fields, row)

    # An expression means nothing without its zone, so the two share one code.
    cdef bint number_texts(self, const Field* fields, Row* row) noexcept nogil:
        cdef uint8_t pair[1024 + 1 + 256]
        cdef long long code = self.route_codes.code(fields[ROUTE].at, fields[ROUTE].length)
        if code < 0:
            return False
        row.route = <uint32_t>code
        if fields[CRON].length < 0:
            return True
        memcpy(pair, fields[CRON].at, fields[CRON].length)
        pair[fields[CRON].length] = 0  # no text of Postgres holds a zero byte
        memcpy(pair + fields[CRON].length + 1, fields[TZ].at, fields[TZ].length)
        code = self.cron_codes.code(pair, fields[CRON].length + 1 + fields[TZ].length)
        row.cron = <uint32_t>code
        return code >= 0

    # Lists are extended, never replaced: whoever holds them sees new codes without asking.
    cdef publish_codes(self):
        cdef uint32_t code
        for code in range(len(self.routes), self.route_codes.count):
            self.routes.append(self.route_codes.text(code).decode("utf-8", "replace"))
        for code in range(len(self.crons), self.cron_codes.count):
            expression, _, zone = self.cron_codes.text(code).decode("utf-8", "replace").partition("\0")
            self.crons.append((expression, zone))

    cdef judge(self, Outcome outcome):
        if outcome == NO_MEMORY:
            raise MemoryError("no memory for another route or cron expression")
        if outcome == CORRUPT:
            raise RowsCorrupt(
                "a row does not have the columns expected; the schema may be of another version, "
                "run `mainspring db init`"
            )

    # The length of what stands before the first row of `text`; 0 within a COPY or if it is cut.
    cdef Py_ssize_t header_len(self, bytes text) except -1:
        if self.in_rows:
            return 0
        if not text.startswith(SIGNATURE[:len(text)]):
            raise RowsCorrupt("this is not the output of a binary COPY")
        if len(text) < HEADER_LEN:
            return 0
        if text[len(SIGNATURE):HEADER_LEN] != bytes(8):
            raise RowsCorrupt("a binary COPY with a header this version does not know")
        self.in_rows = True
        return HEADER_LEN


cdef void fill_schedule(const Field* fields, Row* row, bint* bad) noexcept nogil:
    row.run_at = instant(fields[RUN_AT], NEVER, bad)
    row.starts_at = instant(fields[STARTS_AT], BEGINNING, bad)
    row.ends_at = instant(fields[ENDS_AT], NEVER, bad)
    row.boost_until = instant(fields[BOOST_UNTIL], BEGINNING, bad)
    row.every_s = at_least(1, fields[EVERY_S], 0, bad)
    row.phase_s = at_least(0, fields[PHASE_S], -1, bad)
    row.jitter_s = at_least(0, fields[JITTER_S], -1, bad)
    row.boost_every_s = at_least(1, fields[BOOST_EVERY_S], 0, bad)
    # number_texts copies both into a buffer of this size.
    bad[0] |= fields[CRON].length > CRON_LEN_MAX or fields[TZ].length > TZ_LEN_MAX


cdef void fill_flags(const Field* fields, Row* row, bint defined, bint* bad) noexcept nogil:
    row.catch_up = row.enabled = row.first_run_soon = 0
    if defined:
        bad[0] |= lacks_required(fields)
        row.enabled = flag(fields[ENABLED], bad)
        row.first_run_soon = flag(fields[FIRST_RUN_SOON], bad)
        row.catch_up = read_catch_up(fields[CATCH_UP])


cdef void place_key(const uint8_t* start, Field field, Row* row, bint* bad) noexcept nogil:
    row.key_at = row.key_len = 0
    if field.length > KEY_LEN_MAX:
        bad[0] = True
    elif field.length > 0:
        row.key_at = <uint32_t>(field.at - start)
        row.key_len = field.length


# A jsonb is sent as text behind a version byte.
cdef void place_data(const uint8_t* start, Field field, Row* row, bint* bad) noexcept nogil:
    row.data_at = row.data_len = 0
    if field.length < 0:
        return
    if field.length < 2 or field.length > DATA_LEN_MAX + 1 or field.at[0] != 1:
        bad[0] = True
        return
    row.data_at = <uint32_t>(field.at + 1 - start)
    row.data_len = field.length - 1
