"""Text for envelopes. text.pxd says what it promises."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

cdef const char* HEX = b"0123456789abcdef"
cdef const char* PAIRS = (
    b"00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
    b"49505152535455565758596061626364656667686970717273747576777879808182838485868788899091929394959697"
    b"9899"
)


# The letter of a two-byte escape, or 0.
cdef inline char short_escape(uint8_t byte) noexcept nogil:
    if byte == c'"' or byte == c"\\":
        return <char>byte
    if byte == c"\n":
        return c"n"
    if byte == c"\r":
        return c"r"
    if byte == c"\t":
        return c"t"
    return 0


cdef uint32_t escaped_length(const uint8_t* text, uint32_t length) noexcept nogil:
    cdef uint32_t total = length
    cdef uint32_t i
    for i in range(length):
        if short_escape(text[i]):
            total += 1
        elif text[i] < 0x20:
            total += 5
    return total


cdef char* write_escaped(char* to, const uint8_t* text, uint32_t length) noexcept nogil:
    cdef uint32_t i
    for i in range(length):
        if short_escape(text[i]):
            to[0], to[1] = c"\\", short_escape(text[i])
            to += 2
        elif text[i] < 0x20:
            memcpy(to, b"\\u00", 4)
            to[4], to[5] = HEX[text[i] >> 4], HEX[text[i] & 15]
            to += 6
        else:
            to[0] = <char>text[i]
            to += 1
    return to


# Four bytes of eight characters; what is no hexadecimal digit gives some four bytes all the same.
cdef inline uint32_t packed_hex(uint64_t characters) noexcept nogil:
    cdef uint64_t halves = characters & 0x0F0F0F0F_0F0F0F0FULL
    halves = halves + (characters >> 6 & 0x01010101_01010101ULL) * 9 & 0x0F0F0F0F_0F0F0F0FULL
    halves = (halves << 4 | halves >> 8) & 0x00FF00FF_00FF00FFULL
    halves = (halves | halves >> 8) & 0x0000FFFF_0000FFFFULL
    return <uint32_t>(halves | halves >> 16)


# Words of eight characters, of which two are cut in halves by a dash.
cdef inline void pack_words(char* to, const uint8_t* text) noexcept nogil:
    cdef uint64_t words[4]
    cdef uint32_t packed
    cdef int i
    memcpy(&words[0], text, 8)
    memcpy(&words[1], text + 9, 4)
    memcpy(<char*>&words[1] + 4, text + 14, 4)
    memcpy(&words[2], text + 19, 4)
    memcpy(<char*>&words[2] + 4, text + 24, 4)
    memcpy(&words[3], text + 28, 8)
    for i in range(4):
        packed = packed_hex(words[i])
        memcpy(to + 4 * i, &packed, 4)


# What is put back from sixteen bytes is canonical always: the text was, if that is the same.
cdef bint pack_uuid(char* to, const uint8_t* text, uint32_t length) noexcept nogil:
    cdef char canonical[UUID_TEXT]
    if length != UUID_TEXT:
        return False
    pack_words(to, text)
    put_uuid(canonical, <const uint8_t*>to)
    return memcmp(canonical, text, UUID_TEXT) == 0


cdef inline char* write_pair(char* to, char before, int64_t number) noexcept nogil:
    to[0] = before
    memcpy(to + 1, PAIRS + number * 2, 2)
    return to + 3


cdef inline char* write_year(char* to, int64_t year) noexcept nogil:
    cdef int64_t least = 1000
    if year < 0:
        to[0] = c"-"
        to += 1
        year = -year
    while least > year and least > 1:
        to[0] = c"0"
        to += 1
        least //= 10
    return write_number(to, year)


# Days to a date by counting years from 1 March, so that the leap day is a year's last
# (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms").
cdef char* write_time(char* to, int64_t instant) noexcept nogil:
    cdef int64_t second = instant % 86400
    cdef int64_t days, era, of_era, year, of_year, month
    if second < 0:
        second += 86400
    days = (instant - second) // 86400 + 719468
    era = (days if days >= 0 else days - 146096) // 146097
    of_era = days - era * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    to = write_year(to, year + era * 400 + (1 if month >= 10 else 0))
    to = write_pair(to, c"-", month - 9 if month >= 10 else month + 3)
    to = write_pair(to, c"-", of_year - (153 * month + 2) // 5 + 1)
    to = write_pair(to, c"T", second // 3600)
    to = write_pair(to, c":", second // 60 % 60)
    to = write_pair(to, c":", second % 60)
    to[0] = c"Z"
    return to + 1
