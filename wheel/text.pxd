"""Bytes as they stand in an envelope: JSON escapes, UUIDs, numbers and instants.

Each writer returns the end of what it wrote and writes no terminating zero. The caller sees to the room.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t


cdef enum:
    UUID_TEXT = 36
    UUID_BYTES = 16
    NUMBER_MAX = 20         # a sign and 19 digits
    TIME_MAX = 32           # years of more than four digits included


cdef uint32_t escaped_length(const uint8_t* text, uint32_t length) noexcept nogil
cdef char* write_escaped(char* to, const uint8_t* text, uint32_t length) noexcept nogil

# Only the canonical form counts (lower case, 8-4-4-4-12), since it must come back byte for byte.
cdef bint is_uuid(const uint8_t* text, uint32_t length) noexcept nogil
cdef void pack_uuid(char* to, const uint8_t* text) noexcept nogil
cdef char* write_uuid(char* to, const uint8_t* packed) noexcept nogil

cdef char* write_number(char* to, int64_t number) noexcept nogil

# RFC 3339 in UTC with whole seconds: 2025-11-30T10:53:20Z.
cdef char* write_time(char* to, int64_t instant) noexcept nogil
