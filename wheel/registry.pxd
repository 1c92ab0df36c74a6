"""Things that many jobs share, by number: routes and cron groups.

Written with the GIL held, read by any thread without a lock: a pointer stands before its number is given out,
and the blocks of pointers never move.
"""

from libc.stdint cimport int64_t, uint32_t


cdef enum:
    REGISTRY_BLOCK = 1024
    REGISTRY_BLOCKS = 4096


ctypedef struct Registry:
    void** blocks[4096]
    uint32_t count


cdef inline void* registry_get(const Registry* registry, uint32_t number) noexcept nogil:
    return registry.blocks[number // REGISTRY_BLOCK][number % REGISTRY_BLOCK]


# The number, or -1 when there is no memory, or no number left (over four million).
cdef int64_t registry_add(Registry* registry, void* thing) noexcept nogil
cdef void registry_close(Registry* registry) noexcept nogil     # the things themselves stay
