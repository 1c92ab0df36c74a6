"""The key and payload of each job, bytes of any length, in 4-byte units.

    if blobs_reserve(&blobs, size) == NO_MEMORY: ...
    blob = blobs_take(&blobs, size)                     # cannot fail after the reserve of the same size
    at = blob_at(&blobs, blob)                          # does not move while the blob lives
    blobs_give(&blobs, blob, size)

Up to 2 kB a blob is cut from the end of the newest page, or is a freed one of exactly its size; a larger one
is an allocation of its own. `page_live` counts what is in use on each page.
"""

from libc.stdint cimport uint16_t, uint32_t, uint64_t

from mainspring.wheel.memory cimport PageSource
from mainspring.wheel.slab cimport NONE, Slab, slab_at


cdef extern from "native.h" nogil:
    enum: SMALL_UNITS "MS_SMALL_UNITS"      # 512, the largest blob on a page; 0 in the build for sanitizers


cdef enum:
    PAGE_UNITS = 4096       # units of 4 bytes a page
    LARGE = 0x80000000      # the rest of the number is an item of `large`


ctypedef struct Large:
    void* bytes
    uint64_t size


ctypedef struct Blobs:
    PageSource* source
    char** pages
    uint16_t* page_live     # units in use
    uint32_t page_count
    uint32_t page_room
    uint32_t tail           # first unit never used; its page is the last but the spare ones
    uint32_t free[513]      # by exact size in units; NONE ends a list
    Slab large
    void* prepared          # taken by blobs_reserve for the next large blob
    uint64_t live_bytes
    uint64_t dead_bytes


cdef inline char* blob_at(const Blobs* blobs, uint32_t blob) noexcept nogil:
    if blob & LARGE:
        return <char*>(<Large*>slab_at(&blobs.large, blob ^ <uint32_t>LARGE)).bytes
    return blobs.pages[blob >> 12] + ((blob & (PAGE_UNITS - 1)) << 2)


cdef void blobs_open(Blobs* blobs, PageSource* source) noexcept nogil
cdef void blobs_close(Blobs* blobs) noexcept nogil
cdef int blobs_reserve(Blobs* blobs, uint32_t size) noexcept nogil
cdef uint32_t blobs_take(Blobs* blobs, uint32_t size) noexcept nogil
cdef void blobs_give(Blobs* blobs, uint32_t blob, uint32_t size) noexcept nogil
