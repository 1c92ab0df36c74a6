"""The blob store. blobs.pxd says what it promises."""

from libc.stdint cimport uint16_t, uint32_t
from libc.string cimport memset

from mainspring.wheel.memory cimport (
    DONE, NO_MEMORY, PageSource, memory_give, memory_take, memory_widen, page_give, page_take,
)
from mainspring.wheel.slab cimport NONE, slab_close, slab_give, slab_open, slab_reserve, slab_take


cdef inline uint32_t* word_at(Blobs* blobs, uint32_t blob) noexcept nogil:
    return <uint32_t*>blob_at(blobs, blob)


cdef void blobs_open(Blobs* blobs, PageSource* source) noexcept nogil:
    memset(blobs, 0, sizeof(Blobs))
    memset(blobs.free, 0xFF, sizeof(blobs.free))
    blobs.source = source
    slab_open(&blobs.large, source, sizeof(Large))


# A freed item of `large` keeps no pointer: blobs_give clears it, and its link lies in those same bytes.
cdef void close_large(Blobs* blobs) noexcept nogil:
    cdef uint32_t i
    cdef Large* large
    for i in range(blobs.large.used):
        large = <Large*>slab_at(&blobs.large, i)
        if large.size:
            memory_give(large.bytes)
    slab_close(&blobs.large)
    memory_give(blobs.prepared)


cdef void blobs_close(Blobs* blobs) noexcept nogil:
    cdef uint32_t i
    close_large(blobs)
    for i in range(blobs.page_count):
        page_give(blobs.source, blobs.pages[i])
    memory_give(blobs.pages)
    memory_give(blobs.page_live)
    blobs_open(blobs, blobs.source)


cdef int widen_tables(Blobs* blobs) noexcept nogil:
    cdef uint32_t had = blobs.page_room
    cdef uint32_t room = had + had // 4 + 4
    cdef void* pages
    cdef void* lives = memory_widen(blobs.page_live, had * sizeof(uint16_t), room * sizeof(uint16_t))
    if lives == NULL:
        return NO_MEMORY
    # Already valid: it is only longer than page_room says, should the second one fail.
    blobs.page_live = <uint16_t*>lives
    pages = memory_widen(blobs.pages, had * sizeof(char*), room * sizeof(char*))
    if pages == NULL:
        return NO_MEMORY
    blobs.pages, blobs.page_room = <char**>pages, room
    return DONE


cdef int add_page(Blobs* blobs) noexcept nogil:
    cdef char* page
    if blobs.page_count == blobs.page_room and widen_tables(blobs) == NO_MEMORY:
        return NO_MEMORY
    page = <char*>page_take(blobs.source)
    if page == NULL:
        return NO_MEMORY
    blobs.pages[blobs.page_count] = page
    blobs.page_live[blobs.page_count] = 0
    blobs.page_count += 1
    return DONE


cdef inline uint32_t tail_room(const Blobs* blobs) noexcept nogil:
    return (PAGE_UNITS - (blobs.tail & (PAGE_UNITS - 1))) & (PAGE_UNITS - 1)


# Whole pages already here that the tail has not entered.
cdef inline bint has_spare_page(const Blobs* blobs) noexcept nogil:
    return (blobs.tail + PAGE_UNITS - 1) >> 12 < blobs.page_count


cdef int reserve_large(Blobs* blobs, uint32_t size) noexcept nogil:
    if slab_reserve(&blobs.large, 1) == NO_MEMORY:
        return NO_MEMORY
    memory_give(blobs.prepared)
    blobs.prepared = memory_take(size)
    return NO_MEMORY if blobs.prepared == NULL else DONE


cdef int blobs_reserve(Blobs* blobs, uint32_t size) noexcept nogil:
    cdef uint32_t units = units_of(size)
    if units > SMALL_UNITS:
        return reserve_large(blobs, size)
    if blobs.free[units] != NONE or tail_room(blobs) >= units or has_spare_page(blobs):
        return DONE
    return add_page(blobs)


cdef void free_units(Blobs* blobs, uint32_t blob, uint32_t units) noexcept nogil:
    word_at(blobs, blob)[0] = blobs.free[units]
    blobs.free[units] = blob
    blobs.dead_bytes += units << 2


# The rest of a page becomes free blobs, none larger than a free list can hold.
cdef void leave_page(Blobs* blobs) noexcept nogil:
    cdef uint32_t rest = tail_room(blobs)
    cdef uint32_t units
    while rest:
        units = min(rest, <uint32_t>SMALL_UNITS)
        free_units(blobs, blobs.tail, units)
        blobs.tail += units
        rest -= units


cdef uint32_t take_small(Blobs* blobs, uint32_t units) noexcept nogil:
    cdef uint32_t blob = blobs.free[units]
    if blob != NONE:
        blobs.free[units] = word_at(blobs, blob)[0]
        blobs.dead_bytes -= units << 2
        return blob
    if tail_room(blobs) < units:
        leave_page(blobs)
    blob = blobs.tail
    blobs.tail += units
    return blob


cdef uint32_t take_large(Blobs* blobs, uint32_t size) noexcept nogil:
    cdef uint32_t item = slab_take(&blobs.large)
    cdef Large* large = <Large*>slab_at(&blobs.large, item)
    large.bytes, large.size = blobs.prepared, size
    blobs.prepared = NULL
    return item | <uint32_t>LARGE


cdef uint32_t blobs_take(Blobs* blobs, uint32_t size) noexcept nogil:
    cdef uint32_t units = units_of(size)
    cdef uint32_t blob
    blobs.live_bytes += units << 2
    if units > SMALL_UNITS:
        return take_large(blobs, size)
    blob = take_small(blobs, units)
    blobs.page_live[blob >> 12] += units
    return blob


cdef void give_large(Blobs* blobs, uint32_t item) noexcept nogil:
    cdef Large* large = <Large*>slab_at(&blobs.large, item)
    memory_give(large.bytes)
    large.size = 0
    slab_give(&blobs.large, item)


cdef void blobs_give(Blobs* blobs, uint32_t blob, uint32_t size) noexcept nogil:
    cdef uint32_t units = units_of(size)
    blobs.live_bytes -= units << 2
    if blob & LARGE:
        give_large(blobs, blob ^ <uint32_t>LARGE)
        return
    blobs.page_live[blob >> 12] -= units
    free_units(blobs, blob, units)
