"""A shard's beginning and end, and what its records mean. shard.pxd says what it promises."""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from mainspring.wheel.arrears cimport arrears_close
from mainspring.wheel.blobs cimport blobs_close, blobs_open
from mainspring.wheel.far cimport far_close, far_reserve
from mainspring.wheel.hash cimport xxh64_i64
from mainspring.wheel.index cimport index_close, index_open
from mainspring.wheel.lists cimport Chunk
from mainspring.wheel.memory cimport NO_MEMORY, PageSource
from mainspring.wheel.pthread cimport pthread_mutex_destroy, pthread_mutex_init
from mainspring.wheel.records cimport ENABLED, IS_RARE, LIVE, ONCE_BIAS, Rare, Record, kind_of, record_at
from mainspring.wheel.registry cimport Registry, registry_get
from mainspring.wheel.schedule cimport (
    KIND_CRON, KIND_INTERVAL, Schedule_t, cron_spread_next, grid_next, schedule_clear, schedule_next,
)
from mainspring.wheel.cron_eval cimport CronGroup, group_outcome
from mainspring.wheel.slab cimport NONE, Slab, slab_at, slab_close, slab_open, slab_reserve


cdef void shard_open(
    Shard* shard, uint32_t number, int64_t now, PageSource* source, const Registry* crons,
) noexcept nogil:
    memset(shard, 0, sizeof(Shard))
    pthread_mutex_init(&shard.lock, NULL)
    shard.number, shard.crons = number, crons
    shard.base = shard.begun = shard.drained = now
    shard.evacuated = NONE
    slab_open(&shard.records, source, sizeof(Record))
    slab_open(&shard.chunks, source, sizeof(Chunk))
    slab_open(&shard.rares, source, sizeof(Rare))
    blobs_open(&shard.blobs, source)
    index_open(shard.index)


cdef void shard_clear(Shard* shard) noexcept nogil:
    slab_close(&shard.records)
    slab_close(&shard.chunks)
    slab_close(&shard.rares)
    blobs_close(&shard.blobs)
    index_close(shard.index)
    far_close(&shard.far)
    arrears_close(&shard.arrears)
    memset(shard.slots, 0, sizeof(shard.slots))
    memset(shard.enabled_by_kind, 0, sizeof(shard.enabled_by_kind))
    memset(shard.met, 0, sizeof(shard.met))
    memset(&shard.arrears, 0, sizeof(shard.arrears))
    shard.draining = 0
    shard.in_arrears = False
    shard.evacuated = NONE
    shard.drained = shard.begun
    shard.jobs = shard.armed = shard.paused = 0
    shard.digest.sum = 0


cdef void shard_close(Shard* shard) noexcept nogil:
    shard_clear(shard)
    pthread_mutex_destroy(&shard.lock)


cdef int shard_reserve(Shard* shard, uint32_t pushes, uint32_t far_pushes) noexcept nogil:
    if slab_reserve(&shard.chunks, pushes) == NO_MEMORY:
        return NO_MEMORY
    return far_reserve(&shard.far, far_pushes) if far_pushes else 0


# An item names only one other, so a list that ends after so many has none twice.
cdef bint free_list_is_right(const Slab* records, uint32_t free) noexcept nogil:
    cdef uint32_t number = records.free_head
    cdef uint32_t i
    if records.free_count != free:
        return False
    for i in range(free):
        if number >= records.used or record_at(records, number).flags & LIVE:
            return False
        number = (<const uint32_t*>record_at(records, number))[0]
    return number == NONE


cdef const Rare* rare_of(const Shard* shard, const Record* record) noexcept nogil:
    return <const Rare*>slab_at(&shard.rares, record.schedule) if record.flags & IS_RARE else NULL


cdef int64_t once_at(const Shard* shard, const Record* record) noexcept nogil:
    cdef const Rare* rare = rare_of(shard, record)
    return rare.run_at if rare != NULL else shard.base - ONCE_BIAS + record.schedule


cdef void set_schedule(
    const Shard* shard, const Record* record, uint32_t number, int64_t phase, Schedule_t* schedule,
) noexcept nogil:
    if schedule.kind == KIND_INTERVAL:
        schedule.every = number
        schedule.phase = (<int64_t>(schedule.hash % number)) if phase < 0 else phase % number
    elif schedule.kind == KIND_CRON:
        schedule.cron = <CronGroup*>registry_get(shard.crons, number)
        schedule.outcome = group_outcome(schedule.cron, record.id)
    else:
        schedule.run_at = once_at(shard, record)


cdef void schedule_of(const Shard* shard, const Record* record, Schedule_t* schedule) noexcept nogil:
    cdef const Rare* rare = rare_of(shard, record)
    schedule_clear(schedule)
    schedule.kind = kind_of(record)
    schedule.hash = xxh64_i64(record.id)
    if rare == NULL:
        set_schedule(shard, record, record.schedule, -1, schedule)
        return
    set_schedule(shard, record, rare.schedule, rare.phase, schedule)
    schedule.jitter = rare.jitter
    schedule.starts_at, schedule.ends_at = rare.starts_at, rare.ends_at
    schedule.boost_every, schedule.boost_until = rare.boost_every, rare.boost_until


cdef inline int64_t plain_cron_next(const Shard* shard, const Record* record, int64_t after) noexcept nogil:
    cdef CronGroup* group = <CronGroup*>registry_get(shard.crons, record.schedule)
    return cron_spread_next(group, group_outcome(group, record.id), xxh64_i64(record.id), -1, after)


cdef int64_t owed_after(const Shard* shard, const Record* record, int64_t after) noexcept nogil:
    cdef const Rare* rare = rare_of(shard, record)
    cdef Schedule_t schedule
    cdef int64_t due
    if not record.flags & ENABLED:
        return NEVER
    # Most jobs are plain: no struct to fill for them.
    if rare == NULL and kind_of(record) == KIND_INTERVAL:
        return grid_next(record.schedule, <int64_t>(xxh64_i64(record.id) % record.schedule), after)
    if rare == NULL and kind_of(record) == KIND_CRON:
        return plain_cron_next(shard, record, after)
    schedule_of(shard, record, &schedule)
    due = schedule_next(&schedule, after)
    if rare != NULL and rare.extra_at > after and rare.extra_at < due:
        due = rare.extra_at
    return due


cdef int64_t owed(const Shard* shard, const Record* record) noexcept nogil:
    if record.next and shard.drained < shard.begun and due_of(shard, record) == shard.begun:
        return owed_after(shard, record, shard.begun - 1)
    return owed_after(shard, record, shard.begun)
