"""Allocation, counted so that a test can fail the n-th one. memory.pxd says what it promises."""

from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from mainspring.wheel.pthread cimport (
    pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock,
)


cdef extern from "<stdlib.h>" nogil:
    void* aligned_alloc(size_t alignment, size_t size)


cdef extern from "native.h" nogil:
    void* ms_block(size_t size, size_t alignment)
    void ms_forbid(void* at, size_t size)
    void ms_allow(void* at, size_t size)


cdef enum:
    LINE_BYTES = 64


# Allocations left until one fails; negative: never. Written by tests alone.
cdef int64_t countdown = -1


def fail_allocation_in(count: int) -> None:
    """For tests: from the ``count``-th allocation on (1 = the next) all fail; 0 ends it."""
    global countdown
    countdown = count - 1


cdef bint refused() noexcept nogil:
    global countdown
    if likely(countdown < 0):
        return False
    if countdown == 0:
        return True
    countdown -= 1
    return False


cdef void* memory_take(size_t size) noexcept nogil:
    return NULL if refused() else malloc(size)


cdef void* memory_take_lines(size_t size) noexcept nogil:
    cdef size_t whole = (size + LINE_BYTES - 1) // LINE_BYTES * LINE_BYTES
    return NULL if refused() else aligned_alloc(LINE_BYTES, whole)


cdef void* memory_take_blocks(size_t size) noexcept nogil:
    cdef size_t whole = (size + BLOCK_BYTES - 1) // BLOCK_BYTES * BLOCK_BYTES
    return NULL if refused() else ms_block(whole, BLOCK_BYTES)


cdef void memory_give(void* memory) noexcept nogil:
    free(memory)


cdef void* memory_widen(void* array, size_t old_bytes, size_t new_bytes) noexcept nogil:
    cdef char* wider = <char*>memory_take(new_bytes)
    if wider == NULL:
        return NULL
    if old_bytes:
        memcpy(wider, array, old_bytes)
    memset(wider + old_bytes, 0, new_bytes - old_bytes)
    free(array)
    return wider


cdef void source_open(PageSource* source) noexcept nogil:
    memset(source, 0, sizeof(PageSource))
    pthread_mutex_init(&source.lock, NULL)


cdef void source_close(PageSource* source) noexcept nogil:
    cdef uint32_t i
    for i in range(source.block_count):
        free(source.blocks[i])
    free(source.blocks)
    pthread_mutex_destroy(&source.lock)


cdef int note_block(PageSource* source, char* block) noexcept nogil:
    cdef uint32_t room = source.block_room * 2 + 16
    cdef void** wider
    if source.block_count == source.block_room:
        wider = <void**>memory_widen(source.blocks, source.block_room * sizeof(void*), room * sizeof(void*))
        if wider == NULL:
            return NO_MEMORY
        source.blocks, source.block_room = wider, room
    source.blocks[source.block_count] = block
    source.block_count += 1
    return DONE


# Each 4 kB is touched here: zeroing a new block takes the kernel longer than many edits take, and
# source_prepare holds no lock meanwhile.
cdef char* new_block() noexcept nogil:
    cdef char* block = NULL if refused() else <char*>ms_block(BLOCK_BYTES, BLOCK_BYTES)
    cdef int at
    if block != NULL:
        for at in range(0, BLOCK_BYTES, 4096):
            block[at] = 0
    return block


# What is left of the block before goes to the free pages.
cdef int adopt_block(PageSource* source, char* block) noexcept nogil:
    if block == NULL:
        return NO_MEMORY
    if note_block(source, block) == NO_MEMORY:
        free(block)
        return NO_MEMORY
    while source.uncut != source.uncut_end:
        link_page(source, source.uncut)
        source.uncut += PAGE_BYTES
    source.uncut, source.uncut_end = block, block + BLOCK_BYTES
    return DONE


cdef void link_page(PageSource* source, void* page) noexcept nogil:
    (<void**>page)[0] = source.free_pages
    source.free_pages = page
    source.free_count += 1
    ms_forbid(page, PAGE_BYTES)


cdef inline bint has_pages(const PageSource* source, uint32_t pages) noexcept nogil:
    return source.free_count + (source.uncut_end - source.uncut) // PAGE_BYTES >= pages


# Two threads that are short at once bring a block each, and neither waits for the other's.
cdef int source_prepare(PageSource* source, uint32_t pages) noexcept nogil:
    cdef int code = DONE
    cdef char* block
    pthread_mutex_lock(&source.lock)
    while code == DONE and not has_pages(source, pages):
        pthread_mutex_unlock(&source.lock)
        block = new_block()
        pthread_mutex_lock(&source.lock)
        code = adopt_block(source, block)
    pthread_mutex_unlock(&source.lock)
    return code


cdef void* cut_page(PageSource* source) noexcept nogil:
    cdef void* page = source.free_pages
    if page != NULL:
        ms_allow(page, PAGE_BYTES)
        source.free_pages = (<void**>page)[0]
        source.free_count -= 1
        return page
    if source.uncut == source.uncut_end and adopt_block(source, new_block()) == NO_MEMORY:
        return NULL
    page = source.uncut
    source.uncut += PAGE_BYTES
    return page


cdef void* page_take(PageSource* source) noexcept nogil:
    cdef void* page
    if refused():
        return NULL
    pthread_mutex_lock(&source.lock)
    page = cut_page(source)
    pthread_mutex_unlock(&source.lock)
    return page


cdef void page_give(PageSource* source, void* page) noexcept nogil:
    pthread_mutex_lock(&source.lock)
    link_page(source, page)
    pthread_mutex_unlock(&source.lock)


cdef size_t source_bytes(PageSource* source) noexcept nogil:
    return <size_t>source.block_count * BLOCK_BYTES
