"""The C side of the wheel: all shards together. core.pxd says what it promises."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from mainspring.wheel.audit cimport audit
from mainspring.wheel.drain cimport MORE, WHOLE, DrainOrder, drain_piece
from mainspring.wheel.evacuate cimport (
    ROWS_A_SECOND, evacuation_offer, evacuation_work, evacuations_close, evacuations_open,
)
from mainspring.wheel.faults cimport NOT_ARMED, inflict
from mainspring.wheel.frames cimport Output
from mainspring.wheel.hash cimport xxh64_i64
from mainspring.wheel.index cimport index_bytes, index_find, index_presize
from mainspring.wheel.memory cimport (
    DONE, NO_MEMORY, memory_give, memory_take_blocks, prefetch, prefetch_write, pthread_mutex_destroy,
    pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock, source_bytes, source_close, source_open,
    source_prepare,
)
from mainspring.wheel.records cimport LAST_NEXT, Record, record_at
from mainspring.wheel.registry cimport registry_close, registry_get
from mainspring.wheel.shard cimport (
    HORIZON, NEVER, SHARDS, Shard, due_of, owed, shard_clear, shard_close, shard_open,
)
from mainspring.wheel.slab cimport NONE, slab_reserve


cdef int core_open(Core* core, int64_t now) noexcept nogil:
    cdef int s
    memset(core, 0, sizeof(Core))
    source_open(&core.source)
    evacuations_open(&core.evacuations)
    pthread_mutex_init(&core.drain_lock, NULL)
    core.now = now
    core.shards = <Shard*>memory_take_blocks(SHARDS * sizeof(Shard))
    if core.shards == NULL:
        return NO_MEMORY
    for s in range(SHARDS):
        shard_open(&core.shards[s], s, now, &core.source, &core.crons)
    return DONE


cdef void core_close(Core* core) noexcept nogil:
    cdef uint32_t i
    cdef int s
    if core.shards != NULL:
        for s in range(SHARDS):
            shard_close(&core.shards[s])
    for i in range(core.routes.count):
        memory_give(registry_get(&core.routes, i))
    memory_give(core.shards)
    registry_close(&core.routes)
    registry_close(&core.crons)
    evacuations_close(&core.evacuations)
    source_close(&core.source)
    pthread_mutex_destroy(&core.drain_lock)


cdef inline uint32_t find(const Shard* shard, int64_t job_id) noexcept nogil:
    return index_find(shard.index, &shard.records, job_id, xxh64_i64(job_id))


# The head of the next shard and of its list come in while this one is drained. Only addresses are computed
# here: what lies behind them may be read under its lock alone.
cdef inline void prefetch_shard(const Shard* shard, int slot) noexcept nogil:
    cdef const char* head = <const char*>shard
    cdef int line
    for line in range(6):
        prefetch(head + (line << 6))
    prefetch_write(&shard.draining)
    prefetch_write(&shard.slots[slot])


cdef int drain_shard(Core* core, Shard* shard, const DrainOrder* order, Output* output) noexcept nogil:
    cdef int code = MORE
    while code == MORE:
        pthread_mutex_lock(&shard.lock)
        code = drain_piece(shard, order, output)
        if code == WHOLE:
            evacuation_offer(&core.evacuations, shard)
        pthread_mutex_unlock(&shard.lock)
    return code


cdef int drain_shards(Core* core, const DrainOrder* order, Output* output) noexcept nogil:
    cdef int slot = <uint32_t>(order.second - core.shards[0].base) % HORIZON
    cdef int code
    if order.second != core.now + 1:
        return WRONG_SECOND
    output.second = order.second
    while core.next_shard < SHARDS:
        if core.next_shard + 1 < SHARDS:
            prefetch_shard(&core.shards[core.next_shard + 1], slot)
        code = drain_shard(core, &core.shards[core.next_shard], order, output)
        if code != WHOLE:
            return code
        core.next_shard += 1
    core.next_shard, core.now = 0, order.second
    evacuation_work(&core.evacuations, core.shards, &core.source, ROWS_A_SECOND)
    return WHOLE


cdef int drain_second(Core* core, int64_t second, int64_t now, Output* output) noexcept nogil:
    cdef DrainOrder order
    cdef int code
    order.second, order.now, order.window = second, now, core.window
    order.envelope, order.routes = &core.envelope, &core.routes
    pthread_mutex_lock(&core.drain_lock)
    code = drain_shards(core, &order, output)
    pthread_mutex_unlock(&core.drain_lock)
    return code


# Three roots of the share on top: so many more than its share a shard gets once in a thousand loads.
cdef int reserve_jobs(Core* core, uint64_t jobs) noexcept nogil:
    cdef uint32_t each = <uint32_t>(jobs // SHARDS)
    cdef uint32_t margin = 1
    cdef int s
    cdef int code = DONE
    while <uint64_t>margin * margin < <uint64_t>each * 9:
        margin += 1
    for s in range(SHARDS):
        if source_prepare(&core.source, (each + margin) // 512 + 1) == NO_MEMORY:
            return NO_MEMORY
        pthread_mutex_lock(&core.shards[s].lock)
        code = slab_reserve(&core.shards[s].records, each + margin)
        if code == DONE:
            code = index_presize(core.shards[s].index, &core.shards[s].records, each)
        pthread_mutex_unlock(&core.shards[s].lock)
        if code == NO_MEMORY:
            return NO_MEMORY
    return DONE


cdef int64_t armed_for(Shard* shard, int64_t job_id) noexcept nogil:
    cdef int64_t due = NEVER
    cdef uint32_t number
    cdef Record* record
    pthread_mutex_lock(&shard.lock)
    number = find(shard, job_id)
    if number != NONE:
        record = record_at(&shard.records, number)
        if record.next:
            # Beyond 136 years the entry stands at the end of time, and the schedule knows better.
            due = owed(shard, record) if record.next == LAST_NEXT else due_of(shard, record)
    pthread_mutex_unlock(&shard.lock)
    return due


cdef bint knows(Shard* shard, int64_t job_id) noexcept nogil:
    cdef bint known
    pthread_mutex_lock(&shard.lock)
    known = find(shard, job_id) != NONE
    pthread_mutex_unlock(&shard.lock)
    return known


cdef void add_counts(Core* core, uint64_t* kinds, uint64_t* paused, uint64_t* jobs) noexcept nogil:
    cdef int s
    cdef int k
    for s in range(SHARDS):
        pthread_mutex_lock(&core.shards[s].lock)
        jobs[0] += core.shards[s].jobs
        paused[0] += core.shards[s].paused
        for k in range(4):
            kinds[k] += core.shards[s].enabled_by_kind[k]
        pthread_mutex_unlock(&core.shards[s].lock)


cdef size_t bytes_of(Core* core) noexcept nogil:
    cdef size_t total = SHARDS * sizeof(Shard) + source_bytes(&core.source)
    cdef int s
    for s in range(SHARDS):
        pthread_mutex_lock(&core.shards[s].lock)
        total += index_bytes(core.shards[s].index) + core.shards[s].far.size * 8
        pthread_mutex_unlock(&core.shards[s].lock)
    return total


cdef void clear_all(Core* core) noexcept nogil:
    cdef int s
    pthread_mutex_lock(&core.drain_lock)
    for s in range(SHARDS):
        pthread_mutex_lock(&core.shards[s].lock)
        shard_clear(&core.shards[s])
        pthread_mutex_unlock(&core.shards[s].lock)
    pthread_mutex_unlock(&core.drain_lock)


cdef int audit_locked(Core* core, Shard* shard, bint heal, uint64_t* found) noexcept nogil:
    cdef int code
    pthread_mutex_lock(&shard.lock)
    code = audit(shard, heal, core.window, found)
    if heal:
        evacuation_offer(&core.evacuations, shard)
    pthread_mutex_unlock(&shard.lock)
    return code


cdef int inflict_locked(Shard* shard, int fault, int64_t job_id) noexcept nogil:
    cdef uint32_t number
    cdef int code = NOT_ARMED
    pthread_mutex_lock(&shard.lock)
    number = find(shard, job_id)
    if number != NONE:
        code = inflict(shard, fault, number)
    pthread_mutex_unlock(&shard.lock)
    return code
