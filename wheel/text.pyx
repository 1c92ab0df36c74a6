"""Text for envelopes. text.pxd says what it promises."""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

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


cdef inline int hex_value(uint8_t byte) noexcept nogil:
    if c"0" <= byte <= c"9":
        return byte - c"0"
    if c"a" <= byte <= c"f":
        return byte - c"a" + 10
    return -1


cdef inline bint dash_at(int place) noexcept nogil:
    return place == 8 or place == 13 or place == 18 or place == 23


cdef bint is_uuid(const uint8_t* text, uint32_t length) noexcept nogil:
    cdef int i
    if length != UUID_TEXT:
        return False
    for i in range(UUID_TEXT):
        if text[i] != c"-" if dash_at(i) else hex_value(text[i]) < 0:
            return False
    return True


cdef void pack_uuid(char* to, const uint8_t* text) noexcept nogil:
    cdef int i = 0
    while i < UUID_TEXT:
        if dash_at(i):
            i += 1
        to[0] = <char>(hex_value(text[i]) << 4 | hex_value(text[i + 1]))
        to += 1
        i += 2


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
