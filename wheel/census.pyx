"""Which jobs a shard holds. census.pxd says what it promises."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from mainspring.wheel.records cimport LIVE, Record, record_at
from mainspring.wheel.shard cimport Shard, shard_lock, shard_unlock


cdef void write_ids(const Shard* shard, int64_t* ids) noexcept nogil:
    cdef const Record* record
    cdef uint32_t number
    cdef uint64_t count = 0
    for number in range(shard.records.used):
        record = record_at(&shard.records, number)
        if record.flags & LIVE:
            ids[count] = record.id
            count += 1


cdef uint64_t census(Shard* shard, int64_t* ids, uint64_t room) noexcept nogil:
    cdef uint64_t jobs
    shard_lock(shard)
    jobs = shard.jobs
    if jobs <= room:
        write_ids(shard, ids)
    shard_unlock(shard)
    return jobs
