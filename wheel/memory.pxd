"""Where every byte of the wheel comes from: a counted malloc, and pages of 16 kB cut from blocks of 2 MB.

    cdef PageSource source
    source_open(&source)
    if source_prepare(&source, 3) == NO_MEMORY: ...     # outside any shard lock: a first touch takes long
    page = page_take(&source)                           # inside: only a pointer moves
    source_close(&source)                               # gives all blocks back

Pages never move and are never resized; what grows, grows by one more page.
"""

from libc.stdint cimport uint32_t

from mainspring.wheel.pthread cimport pthread_mutex_t


cdef extern from "native.h" nogil:
    bint likely "ms_likely"(bint condition)
    bint unlikely "ms_unlikely"(bint condition)
    void prefetch "ms_prefetch"(const void* at)
    void prefetch_write "ms_prefetch_write"(const void* at)


# The only failure inside the wheel; everything else is refused at its border.
cdef enum:
    DONE = 0
    NO_MEMORY = -1


cdef extern from "native.h" nogil:
    enum: BLOCK_BYTES "MS_BLOCK_BYTES"      # 2 MB; a page in the build for sanitizers


cdef enum:
    PAGE_BYTES = 16384


# Blocks and free pages are linked through their own first bytes.
ctypedef struct PageSource:
    pthread_mutex_t lock
    void* free_pages
    uint32_t free_count
    char* uncut             # rest of the newest block
    char* uncut_end
    void** blocks
    uint32_t block_count
    uint32_t block_room


cdef void* memory_take(size_t size) noexcept nogil      # NULL when there is none; contents are not cleared
cdef void* memory_take_lines(size_t size) noexcept nogil    # the same, beginning with a cache line
cdef void* memory_take_blocks(size_t size) noexcept nogil   # the same, on huge pages where there are any
cdef void memory_give(void* memory) noexcept nogil

# A larger copy of an array, the rest cleared. The old one is given back only on success.
cdef void* memory_widen(void* array, size_t old_bytes, size_t new_bytes) noexcept nogil

cdef void source_open(PageSource* source) noexcept nogil
cdef void source_close(PageSource* source) noexcept nogil
cdef int source_prepare(PageSource* source, uint32_t pages) noexcept nogil
cdef void* page_take(PageSource* source) noexcept nogil  # NULL when there is no memory
cdef void page_give(PageSource* source, void* page) noexcept nogil
cdef size_t source_bytes(PageSource* source) noexcept nogil
