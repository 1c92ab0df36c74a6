"""Far-future jobs, listed by the hour of their instant: a small hash map from hour to list head.

    if far_reserve(&far, 1) == NO_MEMORY: ...
    head = far_head(&far, hour)                         # of the list, made empty if there was none
    head = far_find(&far, hour)                         # NULL if there is none
    far_drop(&far, hour)                                # once its list is empty

Hours are counted from the wheel's base and shifted by some seconds from shard to shard, so that the shards do
not all move an hour's jobs to their seconds at once. Nothing here is ever scanned but by the audit.
"""

from libc.stdint cimport uint32_t


ctypedef struct FarHour:
    uint32_t hour           # from 1; 0: empty place
    uint32_t head


ctypedef struct Far:
    FarHour* hours
    uint32_t size           # a power of two, or 0
    uint32_t used


cdef void far_close(Far* far) noexcept nogil
cdef int far_reserve(Far* far, uint32_t more) noexcept nogil
cdef uint32_t* far_find(Far* far, uint32_t hour) noexcept nogil
cdef uint32_t* far_head(Far* far, uint32_t hour) noexcept nogil
cdef void far_empty(Far* far) noexcept nogil
cdef void far_drop(Far* far, uint32_t hour) noexcept nogil
