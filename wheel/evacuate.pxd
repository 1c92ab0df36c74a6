"""Moving keys and payloads off pages that hold too many dead ones, a slice at a time.

    with the shard's lock held:
        evacuation_offer(&evacuations, shard)       # begins, if it is worth it and few others are under way
    # No lock held: as much as so many edits have to pay for.
    evacuation_work(&evacuations, shards, source, rows)

At most eight shards move at once, since each needs room for its blobs twice until its old pages are empty; a
slice is 256 records, so that no lock is held for long. Edits drive it in step with the dead they leave, and
each second drained drives it a little further. Without memory a slice ends early and is tried again.
"""

from libc.stdint cimport uint32_t, uint64_t

from mainspring.wheel.blobs cimport blobs_stale
from mainspring.wheel.memory cimport PageSource
from mainspring.wheel.pthread cimport pthread_mutex_t
from mainspring.wheel.shard cimport Shard
from mainspring.wheel.slab cimport NONE


cdef enum:
    MOVING_MAX = 8
    SLICE = 256
    RECORDS_A_ROW = 8       # visited for each row applied, since an eighth of the rows starts it all
    ROWS_A_SECOND = 256     # what a drained second counts as


ctypedef struct Evacuations:
    pthread_mutex_t lock    # innermost: taken while a shard's lock is held, never the other way round
    uint32_t shards[8]
    uint32_t count
    uint32_t turn
    uint64_t owed           # records to be visited


cdef void evacuations_open(Evacuations* evacuations) noexcept nogil
cdef void evacuations_close(Evacuations* evacuations) noexcept nogil
cdef void evacuation_begin(Evacuations* evacuations, Shard* shard) noexcept nogil
cdef void evacuation_work(
    Evacuations* evacuations, Shard* shards, PageSource* source, uint64_t rows,
) noexcept nogil


cdef inline void evacuation_offer(Evacuations* evacuations, Shard* shard) noexcept nogil:
    if shard.evacuated == NONE and blobs_stale(&shard.blobs):
        evacuation_begin(evacuations, shard)
