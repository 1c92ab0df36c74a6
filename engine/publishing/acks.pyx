"""Acks: the acknowledgements of a chunk of bytes. acks.pxd and acks.pyi say what it promises."""

from libc.stdint cimport int64_t
from libc.string cimport memchr, memcmp

import numpy as np

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE



cdef enum:
    BATCH_SHIFT = 12
    INDEX_MASK = (1 << BATCH_SHIFT) - 1
    NEWEST_MAX = 20
    LINE_MAX = 1 << 20      # an INFO names every server of a cluster, and no other line is long
    BODY_MAX = 1 << 26      # the server itself takes no larger message
    BROKEN = -1
    SHOWN_MAX = 80

INDEX_BITS = BATCH_SHIFT


cdef inline bint is_digit(char c) noexcept nogil:
    return c >= c"0" and c <= c"9"


cdef inline bint is_blank(char c) noexcept nogil:
    return c == c" " or c == c"\t"


# Each `take_` moves `text` behind what it names; False where that is not there.

cdef inline bint take(Text* text, const char* what, Py_ssize_t size) noexcept nogil:
    if text.end - text.at < size or memcmp(text.at, what, size) != 0:
        return False
    text.at += size
    return True


cdef inline bint take_number(Text* text, int64_t* number) noexcept nogil:
    cdef const char* start = text.at
    cdef const char* last = text.end if text.end - start < DIGITS_MAX else start + DIGITS_MAX
    number[0] = 0
    while text.at < last and is_digit(text.at[0]):
        number[0] = 10 * number[0] + (text.at[0] - c"0")
        text.at += 1
    return text.at > start


# A text in quotes; an escape in it ends in something that is not plain.
cdef inline bint take_quoted(Text* text) noexcept nogil:
    cdef const char* closing
    if not take(text, b'"', 1):
        return False
    closing = <const char*>memchr(text.at, c'"', text.end - text.at)
    if closing == NULL or closing == text.at:
        return False
    text.at = closing + 1
    return True


cdef inline bint take_comma(Text* text) noexcept nogil:
    if not take(text, b",", 1):
        return False
    take(text, b" ", 1)
    return True


cdef inline bint take_line(Text* text, Text opening, int64_t* number, int64_t* body_bytes) noexcept nogil:
    cdef int64_t sid
    return (
        take(text, opening.at, opening.end - opening.at) and take_number(text, number)
        and take(text, b" ", 1) and take_number(text, &sid)
        and take(text, b" ", 1) and take_number(text, body_bytes) and take(text, b"\r\n", 2)
    )


cdef inline bint take_duplicate(Text* text) noexcept nogil:
    if not take(text, b',"duplicate":', 13):
        return False
    take(text, b" ", 1)
    return take(text, b"true", 4)


# A stream in a JetStream domain names that as well.
cdef inline bint is_acknowledgement(Text body, bint* duplicate) noexcept nogil:
    cdef int64_t seq
    if not (take(&body, b'{"stream":', 10) and take_quoted(&body) and take_comma(&body)):
        return False
    if take(&body, b'"domain":', 9) and not (take_quoted(&body) and take_comma(&body)):
        return False
    if not (take(&body, b'"seq":', 6) and take_number(&body, &seq) and seq > 0):
        return False
    duplicate[0] = take_duplicate(&body)
    return take(&body, b"}", 1) and body.at == body.end


cdef inline bint take_ack(Text* text, Text opening, int64_t* number, bint* duplicate) noexcept nogil:
    cdef int64_t size
    cdef Text body
    if not take_line(text, opening, number, &size) or size > text.end - text.at:
        return False
    body.at, body.end = text.at, text.at + size
    text.at = body.end
    return take(text, b"\r\n", 2) and is_acknowledgement(body, duplicate)


cdef const char* read_acks(Text text, Text opening, AckList* acks) noexcept nogil:
    cdef const char* stopped_at = text.at
    cdef int64_t number
    cdef bint duplicate = False
    acks.count = 0
    while acks.count < ACKS_MAX and take_ack(&text, opening, &number, &duplicate):
        acks.numbers[acks.count] = number
        acks.duplicates[acks.count] = duplicate
        acks.count += 1
        stopped_at = text.at
    return stopped_at


cdef Py_ssize_t end_of_batch(const AckList* acks, Py_ssize_t first) noexcept nogil:
    cdef int64_t batch = acks.numbers[first] >> BATCH_SHIFT
    while first < acks.count and acks.numbers[first] >> BATCH_SHIFT == batch:
        first += 1
    return first


cdef Py_ssize_t cross_off_batch(
    const AckList* acks, Py_ssize_t first, OpenRuns batch, Crossed* crossed,
) noexcept nogil:
    cdef Py_ssize_t i, index, end = end_of_batch(acks, first)
    crossed.runs = crossed.duplicates = 0
    for i in range(first, end):
        index = acks.numbers[i] & INDEX_MASK
        if index < batch.runs and batch.open[index]:
            batch.open[index] = 0
            crossed.indices[crossed.runs] = <uint16_t>index
            crossed.runs += 1
            crossed.duplicates += acks.duplicates[i]
    return end


# The line's end and its CRLF; NULL where the text has none.
cdef const char* line_end(Text text) noexcept nogil:
    cdef const char* newline = <const char*>memchr(text.at, c"\n", text.end - text.at)
    while newline != NULL and (newline == text.at or (newline - 1)[0] != c"\r"):
        newline = <const char*>memchr(newline + 1, c"\n", text.end - newline - 1)
    if newline == NULL:
        return NULL
    return newline + 1


cdef bint has_body(Text line) noexcept nogil:
    take(&line, b"H", 1)
    return take(&line, b"MSG", 3) and is_blank(line.at[0])


# Every verb of a server that has no body. A line ends in CRLF, so there is always one more byte to look at.
cdef bint is_known(Text line) noexcept nogil:
    if take(&line, b"INFO", 4) or take(&line, b"-ERR", 4):
        return is_blank(line.at[0])
    if take(&line, b"PING", 4) or take(&line, b"PONG", 4) or take(&line, b"+OK", 3):
        return is_blank(line.at[0]) or line.end - line.at == 2
    return False


# The last number of the line of a message; BROKEN where it has none or it is too large.
cdef int64_t body_bytes_of(Text line) noexcept nogil:
    cdef Text digits
    cdef int64_t size
    digits.end = digits.at = line.end - 2
    while digits.at > line.at and is_digit((digits.at - 1)[0]):
        digits.at -= 1
    if digits.end - digits.at > DIGITS_MAX or not take_number(&digits, &size) or size > BODY_MAX:
        return BROKEN
    return size


cdef Py_ssize_t frame_size(Text text) noexcept nogil:
    cdef const char* end = line_end(text)
    cdef Text line
    cdef int64_t size
    if end == NULL:
        return 0 if text.end - text.at < LINE_MAX else BROKEN
    line.at, line.end = text.at, end
    if not has_body(line):
        return end - text.at if is_known(line) else BROKEN
    size = body_bytes_of(line)
    if size == BROKEN:
        return BROKEN
    if text.end - end < size + 2:
        return 0
    return end + size + 2 - text.at if memcmp(end + size, b"\r\n", 2) == 0 else BROKEN


cdef Text opening_of(bytes opening) noexcept:
    cdef Text text
    text.at = PyBytes_AS_STRING(opening)
    text.end = text.at + PyBytes_GET_SIZE(opening)
    return text


cdef Text part_of(bytearray buffer, Py_ssize_t at, Py_ssize_t end) except *:
    cdef Text text
    if not 0 <= at <= end <= PyByteArray_GET_SIZE(buffer):
        raise IndexError(f"bytes {at} to {end} of {len(buffer)}")
    text.at = PyByteArray_AS_STRING(buffer) + at
    text.end = PyByteArray_AS_STRING(buffer) + end
    return text


# None of the calls below gives the GIL away: each takes microseconds, and to get it back may take longer.

cdef class Acks:
    def __cinit__(self, bytes inbox not None):
        self.opening = b"MSG " + inbox + b"."
        self.acks.count = 0

    def read(self, bytearray buffer not None, Py_ssize_t at, Py_ssize_t end):
        cdef Text text = part_of(buffer, at, end)
        return at + (read_acks(text, opening_of(self.opening), &self.acks) - text.at)

    def __len__(self):
        return self.acks.count

    def __repr__(self):
        return f"<Acks: {self.acks.count}>"

    @property
    def numbers(self):
        return np.array([self.acks.numbers[i] for i in range(self.acks.count)], np.int64)

    @property
    def duplicates(self):
        return np.array([self.acks.duplicates[i] != 0 for i in range(self.acks.count)], np.bool_)

    def batch(self, Py_ssize_t i):
        return self.acks.numbers[self.check(i)] >> BATCH_SHIFT

    def skip_batch(self, Py_ssize_t first):
        return end_of_batch(&self.acks, self.check(first))

    def cross_off(self, Py_ssize_t first, bytearray open_runs not None):
        cdef OpenRuns batch
        cdef Py_ssize_t end
        batch.open, batch.runs = PyByteArray_AS_STRING(open_runs), PyByteArray_GET_SIZE(open_runs)
        end = cross_off_batch(&self.acks, self.check(first), batch, &self.crossed)
        return end, self.crossed.runs, self.crossed.duplicates, self.newest()

    cdef Py_ssize_t check(self, Py_ssize_t i) except -1:
        if not 0 <= i < self.acks.count:
            raise IndexError(f"acknowledgement {i} of {self.acks.count}")
        return i

    cdef list newest(self):
        cdef Py_ssize_t oldest = max(0, self.crossed.runs - NEWEST_MAX)
        return [self.crossed.indices[i] for i in range(oldest, self.crossed.runs)]


def frame_bytes(bytearray buffer not None, Py_ssize_t at, Py_ssize_t end):
    cdef Py_ssize_t size = frame_size(part_of(buffer, at, end))
    if size == BROKEN:
        raise ValueError(f"no frame of the NATS protocol: {bytes(buffer[at : min(end, at + SHOWN_MAX)])!r}")
    return size
