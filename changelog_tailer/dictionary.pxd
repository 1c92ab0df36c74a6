# A growing set of byte strings, each with a number: the first is 0, the next 1.
#
# Usable without the GIL by one thread at a time. Nothing is ever taken out, so a number stays good for
# the life of the set, and whoever has translated the first n numbers only looks at those from n on.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef struct Entry:
    uint64_t hash       # FNV-1a of the bytes
    uint32_t at         # first byte in the arena
    uint32_t length

cdef class Dictionary:
    cdef Entry* entries     # by number
    cdef uint32_t* table    # number + 1 by hash, 0 = free; linear probing, at most half full
    cdef uint8_t* arena     # the bytes of all entries back to back
    cdef uint32_t count, entries_max, table_size
    cdef uint64_t arena_used, arena_size

    # The number of these bytes, added if they are new; -1 when there is no memory, and nothing has changed.
    cdef long long code(self, const uint8_t* text, uint32_t length) noexcept nogil

    # Where these bytes stand in the table, or the free place where they belong.
    cdef uint32_t place_of(self, const uint8_t* text, uint32_t length, uint64_t h) noexcept nogil

    # Room for one more entry of this length: False when there is no memory.
    cdef bint reserve(self, uint32_t length) noexcept nogil
    cdef bint grow_table(self) noexcept nogil
    cdef bytes text(self, uint32_t code)
