"""The key and payload of each job, bytes of any length, in 4-byte units.

    if blobs_reserve(&blobs, size) == NO_MEMORY: ...
    blob = blobs_take(&blobs, size)                     # cannot fail after the reserve of the same size
    at = blob_at(&blobs, blob)                          # does not move while the blob lives
    blobs_give(&blobs, blob, size)

Up to 2 kB a blob is cut from the end of the newest page, or is a freed one of exactly its size; a larger one
is an allocation of its own. `page_live` counts what is in use on each page.

Freed blobs of sizes that nobody asks for would pile up. Once an eighth is dead,

    blobs_age(&blobs)                                   # all pages: nothing is cut from them any more
    if blobs_is_aged(&blobs, blob): ...                 # take another, copy, give this one back

and an aged page goes back to the source with its last blob. evacuate.pxd does this, a slice at a time.
"""

from libc.stdint cimport uint32_t, uint64_t

from mainspring.wheel.memory cimport PAGE_BYTES, PageSource
from mainspring.wheel.slab cimport NONE, Slab, slab_at


cdef extern from "native.h" nogil:
    enum: SMALL_UNITS "MS_SMALL_UNITS"      # 512, the largest blob on a page; 0 in the build for sanitizers


cdef enum:
    PAGE_UNITS = 4096       # units of 4 bytes a page
    LARGE = 0x80000000      # the rest of the number is an item of `large`
    AGED = 0x80000000       # in page_live


ctypedef struct Large:
    void* bytes
    uint64_t size


ctypedef struct Blobs:
    PageSource* source
    char** pages
    uint32_t* page_live     # units in use, and AGED; of a number without a page: the next such number
    uint32_t page_count     # numbers given out
    uint32_t page_room
    uint32_t free_page      # a number without a page, or NONE
    uint32_t spare          # a page not cut yet, or NONE
    uint32_t tail           # first unit never used of the page that is being cut; none at a page's edge
    Slab large
    void* prepared          # taken by blobs_reserve for the next large blob
    uint64_t live_bytes     # on pages, those of aged pages included
    uint64_t dead_bytes     # in the free lists
    uint64_t large_bytes    # on no page
    uint32_t free[513]      # by exact size in units; NONE ends a list


cdef inline char* blob_at(const Blobs* blobs, uint32_t blob) noexcept nogil:
    if blob & LARGE:
        return <char*>(<Large*>slab_at(&blobs.large, blob ^ <uint32_t>LARGE)).bytes
    return blobs.pages[blob >> 12] + ((blob & (PAGE_UNITS - 1)) << 2)


cdef inline uint32_t units_of(uint32_t size) noexcept nogil:
    return (size + 3) >> 2


cdef inline uint32_t tail_room(const Blobs* blobs) noexcept nogil:
    return (PAGE_UNITS - (blobs.tail & (PAGE_UNITS - 1))) & (PAGE_UNITS - 1)


# The next blob of the page that is being cut, which must have the room.
cdef inline uint32_t blobs_cut(Blobs* blobs, uint32_t units) noexcept nogil:
    cdef uint32_t blob = blobs.tail
    blobs.tail += units
    blobs.live_bytes += units << 2
    blobs.page_live[blob >> 12] += units
    return blob


# Whether a blob of one size can hold the other just as well.
cdef inline bint blobs_fit(uint32_t old_size, uint32_t size) noexcept nogil:
    return units_of(old_size) == units_of(size) <= SMALL_UNITS


cdef inline bint blobs_is_aged(const Blobs* blobs, uint32_t blob) noexcept nogil:
    return not blob & LARGE and blobs.page_live[blob >> 12] & AGED


# Worth an evacuation: the dead are an eighth, and more than a page.
cdef inline bint blobs_stale(const Blobs* blobs) noexcept nogil:
    return blobs.dead_bytes > PAGE_BYTES and blobs.dead_bytes * 8 > blobs.live_bytes + blobs.dead_bytes


# Asks for the blob that the next take of this size will give.
cdef void blobs_foresee(const Blobs* blobs, uint32_t size) noexcept nogil
cdef void blobs_age(Blobs* blobs) noexcept nogil
cdef void blobs_open(Blobs* blobs, PageSource* source) noexcept nogil
cdef void blobs_close(Blobs* blobs) noexcept nogil
cdef int blobs_reserve(Blobs* blobs, uint32_t size) noexcept nogil
cdef uint32_t blobs_take(Blobs* blobs, uint32_t size) noexcept nogil

# A large blob that was allocated elsewhere; needs one spare item of `large`.
cdef uint32_t blobs_adopt(Blobs* blobs, void* bytes, uint32_t size) noexcept nogil
cdef void blobs_give(Blobs* blobs, uint32_t blob, uint32_t size) noexcept nogil
