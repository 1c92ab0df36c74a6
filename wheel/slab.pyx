"""Growth of a slab by whole pages. slab.pxd says what it promises."""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

from mainspring.wheel.memory cimport (
    DONE, NO_MEMORY, PAGE_BYTES, PageSource, memory_give, memory_widen, page_give, page_take,
)


cdef void slab_open(Slab* slab, PageSource* source, uint32_t item_bytes) noexcept nogil:
    memset(slab, 0, sizeof(Slab))
    slab.source = source
    slab.item_bytes = item_bytes
    slab.free_head = NONE
    while item_bytes << (slab.shift + 1) <= PAGE_BYTES:
        slab.shift += 1


cdef void slab_close(Slab* slab) noexcept nogil:
    cdef uint32_t i
    for i in range(slab.page_count):
        page_give(slab.source, slab.pages[i])
    memory_give(slab.pages)
    slab_open(slab, slab.source, slab.item_bytes)


# The table of pages may be copied to grow: it is a two-thousandth of what it points to.
cdef int widen_table(Slab* slab, uint32_t pages) noexcept nogil:
    cdef uint32_t room = slab.page_room + slab.page_room // 4 + 4
    cdef char** wider
    if pages <= slab.page_room:
        return DONE
    room = max(room, pages)
    wider = <char**>memory_widen(slab.pages, slab.page_room * sizeof(char*), room * sizeof(char*))
    if wider == NULL:
        return NO_MEMORY
    slab.pages, slab.page_room = wider, room
    return DONE


cdef int slab_fit(Slab* slab, uint32_t count) noexcept nogil:
    cdef uint32_t pages = <uint32_t>((<uint64_t>count + (1 << slab.shift) - 1) >> slab.shift)
    return DONE if pages <= slab.page_count else slab_add_pages(slab, pages - slab.page_count)


cdef int slab_add_pages(Slab* slab, uint32_t count) noexcept nogil:
    cdef uint32_t i
    cdef char* page
    if widen_table(slab, slab.page_count + count) == NO_MEMORY:
        return NO_MEMORY
    for i in range(count):
        page = <char*>page_take(slab.source)
        if page == NULL:
            return NO_MEMORY
        # Cleared, so that an item never used reads as not live.
        memset(page, 0, PAGE_BYTES)
        slab.pages[slab.page_count] = page
        slab.page_count += 1
    return DONE
