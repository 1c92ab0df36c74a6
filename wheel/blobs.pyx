"""The blob store. blobs.pxd says what it promises."""

from libc.stdint cimport uint32_t
from libc.string cimport memset

from mainspring.wheel.memory cimport (
    DONE, NO_MEMORY, PageSource, memory_give, memory_take, memory_widen, page_give, page_take,
    prefetch_write,
)
from mainspring.wheel.slab cimport NONE, slab_close, slab_give, slab_open, slab_reserve, slab_take


cdef inline uint32_t* word_at(Blobs* blobs, uint32_t blob) noexcept nogil:
    return <uint32_t*>blob_at(blobs, blob)


cdef void blobs_open(Blobs* blobs, PageSource* source) noexcept nogil:
    memset(blobs, 0, sizeof(Blobs))
    memset(blobs.free, 0xFF, sizeof(blobs.free))
    blobs.free_page = blobs.spare = NONE
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
        if blobs.pages[i] != NULL:
            page_give(blobs.source, blobs.pages[i])
    memory_give(blobs.pages)
    memory_give(blobs.page_live)
    blobs_open(blobs, blobs.source)


cdef int widen_tables(Blobs* blobs) noexcept nogil:
    cdef uint32_t had = blobs.page_room
    cdef uint32_t room = had + had // 4 + 4
    cdef void* pages
    cdef void* lives = memory_widen(blobs.page_live, had * sizeof(uint32_t), room * sizeof(uint32_t))
    if lives == NULL:
        return NO_MEMORY
    # Already valid: it is only longer than page_room says, should the second one fail.
    blobs.page_live = <uint32_t*>lives
    pages = memory_widen(blobs.pages, had * sizeof(char*), room * sizeof(char*))
    if pages == NULL:
        return NO_MEMORY
    blobs.pages, blobs.page_room = <char**>pages, room
    return DONE


cdef uint32_t new_number(Blobs* blobs) noexcept nogil:
    cdef uint32_t number = blobs.free_page
    if number != NONE:
        blobs.free_page = blobs.page_live[number]
        return number
    blobs.page_count += 1
    return blobs.page_count - 1


cdef int add_spare(Blobs* blobs) noexcept nogil:
    cdef char* page
    if blobs.free_page == NONE and blobs.page_count == blobs.page_room and widen_tables(blobs) == NO_MEMORY:
        return NO_MEMORY
    page = <char*>page_take(blobs.source)
    if page == NULL:
        return NO_MEMORY
    blobs.spare = new_number(blobs)
    blobs.pages[blobs.spare] = page
    blobs.page_live[blobs.spare] = 0
    return DONE


cdef void release_page(Blobs* blobs, uint32_t number) noexcept nogil:
    page_give(blobs.source, blobs.pages[number])
    blobs.pages[number] = NULL
    blobs.page_live[number] = blobs.free_page
    blobs.free_page = number


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
    if blobs.free[units] != NONE or tail_room(blobs) >= units or blobs.spare != NONE:
        return DONE
    return add_spare(blobs)


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
        blobs.tail, blobs.spare = blobs.spare << 12, NONE
    blob = blobs.tail
    blobs.tail += units
    return blob


# Without a free one it is cut behind the last, whose memory is at hand.
cdef void blobs_foresee(const Blobs* blobs, uint32_t size) noexcept nogil:
    cdef uint32_t units = units_of(size)
    if units > SMALL_UNITS or blobs.free[units] == NONE:
        return
    prefetch_write(blob_at(blobs, blobs.free[units]))
    prefetch_write(blob_at(blobs, blobs.free[units]) + size - 1)


cdef uint32_t blobs_adopt(Blobs* blobs, void* bytes, uint32_t size) noexcept nogil:
    cdef uint32_t item = slab_take(&blobs.large)
    cdef Large* large = <Large*>slab_at(&blobs.large, item)
    large.bytes, large.size = bytes, size
    blobs.large_bytes += size
    return item | <uint32_t>LARGE


cdef uint32_t take_large(Blobs* blobs, uint32_t size) noexcept nogil:
    cdef void* bytes = blobs.prepared
    blobs.prepared = NULL
    return blobs_adopt(blobs, bytes, size)


cdef uint32_t blobs_take(Blobs* blobs, uint32_t size) noexcept nogil:
    cdef uint32_t units = units_of(size)
    cdef uint32_t blob
    if units > SMALL_UNITS:
        return take_large(blobs, size)
    blob = take_small(blobs, units)
    blobs.live_bytes += units << 2
    blobs.page_live[blob >> 12] += units
    return blob


cdef void give_large(Blobs* blobs, uint32_t item) noexcept nogil:
    cdef Large* large = <Large*>slab_at(&blobs.large, item)
    blobs.large_bytes -= large.size
    memory_give(large.bytes)
    large.size = 0
    slab_give(&blobs.large, item)


cdef void blobs_give(Blobs* blobs, uint32_t blob, uint32_t size) noexcept nogil:
    cdef uint32_t units = units_of(size)
    cdef uint32_t page = blob >> 12
    if blob & LARGE:
        give_large(blobs, blob ^ <uint32_t>LARGE)
        return
    blobs.live_bytes -= units << 2
    blobs.page_live[page] -= units
    if not blobs.page_live[page] & AGED:
        free_units(blobs, blob, units)
    elif blobs.page_live[page] == AGED:
        release_page(blobs, page)


# Forgets all free blobs in one go: to take them out of their lists one by one would hold the lock for long.
cdef void blobs_age(Blobs* blobs) noexcept nogil:
    cdef uint32_t page
    memset(blobs.free, 0xFF, sizeof(blobs.free))
    blobs.dead_bytes = 0
    blobs.tail = 0
    for page in range(blobs.page_count):
        if blobs.pages[page] == NULL or page == blobs.spare:
            continue
        if blobs.page_live[page] == 0:
            release_page(blobs, page)
        else:
            blobs.page_live[page] |= AGED
