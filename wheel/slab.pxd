"""Items of one size, named by a 32-bit number that stays theirs until it is given back.

    slab_open(&records, &source, sizeof(Record))        # a power of two from 8 to 128
    if slab_reserve(&records, 2) == NO_MEMORY: ...      # nothing has changed
    first = slab_take(&records)                         # cannot fail after the reserve
    record = <Record*>slab_at(&records, first)
    slab_give(&records, first)

A free item holds the number of the next free one in its first four bytes. Reserve first, then change:
with this a failed allocation never leaves anything half done.
"""

from libc.stdint cimport uint32_t

from mainspring.wheel.memory cimport PageSource


cdef enum:
    NONE = 0xFFFFFFFF


ctypedef struct Slab:
    PageSource* source
    char** pages
    uint32_t page_count
    uint32_t page_room
    uint32_t used           # numbers below this have been handed out at least once
    uint32_t free_head
    uint32_t free_count
    uint32_t item_bytes
    uint32_t shift          # items a page, as a power of two


cdef void slab_open(Slab* slab, PageSource* source, uint32_t item_bytes) noexcept nogil
cdef void slab_close(Slab* slab) noexcept nogil          # gives all pages back to the source
cdef int slab_fit(Slab* slab, uint32_t count) noexcept nogil     # pages for so many items in all
cdef int slab_add_pages(Slab* slab, uint32_t count) noexcept nogil


cdef inline void* slab_at(const Slab* slab, uint32_t item) noexcept nogil:
    return slab.pages[item >> slab.shift] + (item & ((1 << slab.shift) - 1)) * slab.item_bytes


cdef inline uint32_t slab_spare(const Slab* slab) noexcept nogil:
    return slab.free_count + (slab.page_count << slab.shift) - slab.used


cdef inline int slab_reserve(Slab* slab, uint32_t count) noexcept nogil:
    if slab_spare(slab) >= count:
        return 0
    return slab_add_pages(slab, ((count - slab_spare(slab)) >> slab.shift) + 1)


cdef inline uint32_t slab_take(Slab* slab) noexcept nogil:
    cdef uint32_t item = slab.free_head
    if item == NONE:
        item = slab.used
        slab.used += 1
        return item
    slab.free_head = (<uint32_t*>slab_at(slab, item))[0]
    slab.free_count -= 1
    return item


# Takes back all items, and keeps the pages.
cdef inline void slab_empty(Slab* slab) noexcept nogil:
    slab.used = slab.free_count = 0
    slab.free_head = NONE


cdef inline void slab_give(Slab* slab, uint32_t item) noexcept nogil:
    (<uint32_t*>slab_at(slab, item))[0] = slab.free_head
    slab.free_head = item
    slab.free_count += 1
