"""Bytes as they stand in an envelope: JSON escapes, UUIDs, numbers and instants.

    number_text(&text, -42)                             # worked out once, kept in registers
    to = put_number(to, &text)                          # written as often as it is wanted
    to = put_bytes(to, data, size)
    to = write_time(to, 1764500000)

Each writer returns the end of what it wrote and writes no terminating zero. Those called `put` store whole
words: they may spoil SLACK bytes behind the end, which the caller has to own. None reads a byte that was not
given to it.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef enum:
    UUID_TEXT = 36
    UUID_BYTES = 16
    NUMBER_MAX = 20         # a sign and 19 digits
    TIME_MAX = 32           # years of more than four digits included
    SLACK = 32
    PIECE_BYTES = 32        # a text that is laid out in advance is copied in such pieces
    COPIED_HERE = 256       # bytes from which on the library's own copy is the faster one


cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(unsigned long long value) noexcept nogil


# Up to nineteen digits in three words; a word holds its first character in its lowest byte.
ctypedef struct NumberText:
    uint64_t head           # the highest one to eight digits
    uint64_t eights[2]      # all further ones, the lowest eight first
    uint32_t head_bytes
    uint32_t eight_count
    uint32_t bytes          # of the whole text, sign included
    bint negative


cdef uint32_t escaped_length(const uint8_t* text, uint32_t length) noexcept nogil
cdef char* write_escaped(char* to, const uint8_t* text, uint32_t length) noexcept nogil

# Whether the text is a UUID, of which the sixteen bytes are in `to` then. Only the canonical form counts (lower
# case, 8-4-4-4-12), since it must come back byte for byte.
cdef bint pack_uuid(char* to, const uint8_t* text, uint32_t length) noexcept nogil

# RFC 3339 in UTC with whole seconds: 2025-11-30T10:53:20Z.
cdef char* write_time(char* to, int64_t instant) noexcept nogil


# ---------------------------------------------------------------------------------------- numbers


# Splits fours, twos and single digits in all lanes at once; the products are exact for numbers of
# that many digits.
cdef inline uint64_t eight_digits(uint64_t number) noexcept nogil:
    cdef uint64_t fours = number // 10_000 | (number % 10_000) << 32
    cdef uint64_t hundreds = (fours * 10_486 >> 20) & 0x0000007F_0000007FULL
    cdef uint64_t twos = hundreds | (fours - 100 * hundreds) << 16
    cdef uint64_t tens = (twos * 103 >> 10) & 0x000F000F_000F000FULL
    return tens | (twos - 10 * tens) << 8


cdef inline uint64_t as_text(uint64_t digits) noexcept nogil:
    return digits + 0x30303030_30303030ULL


# Below 10**8, without its leading zeros.
cdef inline void head_text(NumberText* text, uint64_t number) noexcept nogil:
    cdef uint64_t digits = eight_digits(number)
    # The last digit stands even where it is a zero.
    cdef int zeros = trailing_zeros(digits | <uint64_t>1 << 56) >> 3
    text.head = as_text(digits) >> (zeros << 3)
    text.head_bytes = 8 - zeros


cdef inline void number_text(NumberText* text, int64_t number) noexcept nogil:
    cdef uint64_t rest = <uint64_t>number
    text.negative = number < 0
    if text.negative:
        rest = 0 - rest
    text.eight_count = 0
    while rest >= 100_000_000:
        text.eights[text.eight_count] = as_text(eight_digits(rest % 100_000_000))
        text.eight_count += 1
        rest //= 100_000_000
    head_text(text, rest)
    text.bytes = text.negative + text.head_bytes + 8 * text.eight_count


cdef inline char* put_number(char* to, const NumberText* text) noexcept nogil:
    if text.negative:
        to[0] = c"-"
        to += 1
    memcpy(to, &text.head, 8)
    to += text.head_bytes
    if text.eight_count > 1:
        memcpy(to, &text.eights[1], 8)
        to += 8
    if text.eight_count > 0:
        memcpy(to, &text.eights[0], 8)
        to += 8
    return to


cdef inline char* write_number(char* to, int64_t number) noexcept nogil:
    cdef NumberText text
    number_text(&text, number)
    return put_number(to, &text)


# ------------------------------------------------------------------------------------------ UUIDs


# Eight characters for four bytes: each half byte in a byte of its own, then 39 more for a to f.
cdef inline uint64_t hex_text(const uint8_t* packed) noexcept nogil:
    cdef uint32_t four
    cdef uint64_t lanes, halves
    memcpy(&four, packed, 4)
    lanes = (four | <uint64_t>four << 16) & 0x0000FFFF_0000FFFFULL
    lanes = (lanes | lanes << 8) & 0x00FF00FF_00FF00FFULL
    halves = (lanes >> 4) & 0x000F000F_000F000FULL | (lanes & 0x000F000F_000F000FULL) << 8
    return as_text(halves + ((halves + 0x06060606_06060606ULL) >> 4 & 0x01010101_01010101ULL) * 39)


# Words of eight characters, of which two are cut in halves by a dash.
cdef inline char* put_uuid(char* to, const uint8_t* packed) noexcept nogil:
    cdef uint64_t word = hex_text(packed)
    memcpy(to, &word, 8)
    word = hex_text(packed + 4)
    memcpy(to + 9, &word, 4)
    memcpy(to + 14, <const char*>&word + 4, 4)
    word = hex_text(packed + 8)
    memcpy(to + 19, &word, 4)
    memcpy(to + 24, <const char*>&word + 4, 4)
    word = hex_text(packed + 12)
    memcpy(to + 28, &word, 8)
    to[8] = to[13] = to[18] = to[23] = c"-"
    return to + UUID_TEXT


# ----------------------------------------------------------------------------------------- copies


# `text` lies in a buffer of whole pieces.
cdef inline char* put_pieces(char* to, const char* text, uint32_t size) noexcept nogil:
    cdef uint32_t at = 0
    while at < size:
        memcpy(to + at, text + at, PIECE_BYTES)
        at += PIECE_BYTES
    return to + size


# One to fifteen bytes by two words that overlap.
cdef inline void put_few(char* to, const uint8_t* bytes, uint32_t size) noexcept nogil:
    if size >= 8:
        memcpy(to, bytes, 8)
        memcpy(to + size - 8, bytes + size - 8, 8)
    elif size >= 4:
        memcpy(to, bytes, 4)
        memcpy(to + size - 4, bytes + size - 4, 4)
    else:
        to[0], to[size >> 1], to[size - 1] = <char>bytes[0], <char>bytes[size >> 1], <char>bytes[size - 1]


# At least one byte. The last sixteen are copied from their own end, so that nothing behind it is read.
cdef inline char* put_bytes(char* to, const uint8_t* bytes, uint32_t size) noexcept nogil:
    cdef uint32_t at = 0
    if size < 16:
        put_few(to, bytes, size)
        return to + size
    if size >= COPIED_HERE:
        memcpy(to, bytes, size)
        return to + size
    while at + 16 < size:
        memcpy(to + at, bytes + at, 16)
        at += 16
    memcpy(to + size - 16, bytes + size - 16, 16)
    return to + size
