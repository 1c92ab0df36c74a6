"""The C side of the wheel: all shards together. core.pxd says what it promises."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from mainspring.wheel.audit cimport audit
from mainspring.wheel.catch_up cimport MISSED_AFTER_S
from mainspring.wheel.drain cimport MORE, WHOLE, DrainOrder, drain_piece, foresee_list, foresee_shard
from mainspring.wheel.evacuate cimport (
    ROWS_A_SECOND, evacuation_offer, evacuation_work, evacuations_close, evacuations_open,
)
from mainspring.wheel.faults cimport NOT_ARMED, inflict
from mainspring.wheel.frames cimport Output, output_begin
from mainspring.wheel.hash cimport xxh64_i64
from mainspring.wheel.holds cimport holds_clear
from mainspring.wheel.index cimport index_bytes, index_find, index_presize
from mainspring.wheel.lookup cimport armed_instant
from mainspring.wheel.memory cimport (
    DONE, NO_MEMORY, memory_give, memory_take_blocks, source_bytes, source_close, source_open,
    source_prepare,
)
from mainspring.wheel.pthread cimport (
    pthread_cond_broadcast, pthread_cond_destroy, pthread_cond_init, pthread_cond_wait,
    pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock,
)
from mainspring.wheel.records cimport record_at
from mainspring.wheel.registry cimport registry_close, registry_get
from mainspring.wheel.shard cimport (
    NEVER, SHARDS, Shard, shard_clear, shard_close, shard_lock, shard_open, shard_unlock,
)
from mainspring.wheel.slab cimport NONE, slab_reserve


cdef int core_open(Core* core, int64_t now) noexcept nogil:
    cdef int s
    memset(core, 0, sizeof(Core))
    source_open(&core.source)
    evacuations_open(&core.evacuations)
    pthread_mutex_init(&core.claims.lock, NULL)
    pthread_cond_init(&core.claims.moved, NULL)
    core.now = core.opened = now
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
    pthread_cond_destroy(&core.claims.moved)
    pthread_mutex_destroy(&core.claims.lock)


cdef inline uint32_t find(const Shard* shard, int64_t job_id) noexcept nogil:
    return index_find(shard.index, &shard.records, job_id, xxh64_i64(job_id))


# ------------------------------------------------------------------ who drains which shard of a second


# A shard that was left half drained goes on before a new one is begun. NONE: all are taken or done.
cdef uint32_t next_shard(Claims* claims) noexcept nogil:
    cdef uint32_t number
    if claims.left_count:
        for number in range(SHARDS):
            if claims.left[number]:
                claims.left[number] = False
                claims.left_count -= 1
                return number
    if claims.fresh == SHARDS:
        return NONE
    claims.fresh += 1
    return claims.fresh - 1


cdef int try_claim(Core* core, int64_t second, Claim* claim) noexcept nogil:
    if core.now >= second:
        return WHOLE
    claim.shard = next_shard(&core.claims)
    if claim.shard == NONE:
        return AWAIT_OTHERS
    core.claims.busy += 1
    # The shards that this thread will probably get after it.
    claim.stride = core.claims.busy
    return CLAIMED


# CLAIMED, or WHOLE when the others have done the rest; what they leave half drained is claimed in its turn.
cdef int claim_next(Core* core, int64_t second, Claim* claim) noexcept nogil:
    cdef int code
    pthread_mutex_lock(&core.claims.lock)
    code = try_claim(core, second, claim)
    while code == AWAIT_OTHERS:
        pthread_cond_wait(&core.claims.moved, &core.claims.lock)
        code = try_claim(core, second, claim)
    pthread_mutex_unlock(&core.claims.lock)
    return code


# True when that was the last one, which makes the second whole.
cdef bint give_back(Core* core, int64_t second, uint32_t shard, int code) noexcept nogil:
    cdef Claims* claims = &core.claims
    cdef bint whole
    pthread_mutex_lock(&claims.lock)
    claims.busy -= 1
    if code != WHOLE:
        claims.left[shard] = True
        claims.left_count += 1
    whole = claims.fresh == SHARDS and claims.busy == 0 and claims.left_count == 0
    if whole:
        claims.fresh, core.now = 0, second
    pthread_cond_broadcast(&claims.moved)
    pthread_mutex_unlock(&claims.lock)
    return whole


cdef bint may_drain(Core* core, int64_t second) noexcept nogil:
    cdef bint right
    pthread_mutex_lock(&core.claims.lock)
    right = not core.leaping and (second == core.now + 1 or core.opened < second == core.now)
    pthread_mutex_unlock(&core.claims.lock)
    return right


# ------------------------------------------------------------------------------------ draining a second


cdef inline Shard* shard_or_null(Core* core, uint32_t number) noexcept nogil:
    return &core.shards[number] if number < SHARDS else NULL


# What the shards that come next will be waited for is asked for while this one is drained.
cdef inline void foresee(Core* core, const Claim* claim, DrainOrder* order) noexcept nogil:
    cdef Shard* second_next = shard_or_null(core, claim.shard + 2 * claim.stride)
    order.following = shard_or_null(core, claim.shard + claim.stride)
    if order.following != NULL:
        foresee_list(order.following, order.second)
    if second_next != NULL:
        foresee_shard(second_next, order)


cdef int drain_shard(Core* core, Shard* shard, DrainOrder* order, Output* output) noexcept nogil:
    cdef int code = MORE
    while code == MORE:
        shard_lock(shard)
        code = drain_piece(shard, order, output)
        if code == WHOLE:
            evacuation_offer(&core.evacuations, shard)
        shard_unlock(shard)
    return code


cdef int drain_shards(Core* core, DrainOrder* order, Output* output) noexcept nogil:
    cdef Claim claim
    cdef int code
    while claim_next(core, order.second, &claim) == CLAIMED:
        foresee(core, &claim, order)
        code = drain_shard(core, &core.shards[claim.shard], order, output)
        if give_back(core, order.second, claim.shard, code):
            evacuation_work(&core.evacuations, core.shards, &core.source, ROWS_A_SECOND)
        if code != WHOLE:
            return code
    return WHOLE


cdef int drain_second(Core* core, int64_t second, int64_t now, Output* output) noexcept nogil:
    cdef DrainOrder order
    if not may_drain(core, second):
        return WRONG_SECOND
    memset(&order, 0, sizeof(DrainOrder))
    order.second, order.now, order.window = second, now, core.window
    order.missed = now - second > MISSED_AFTER_S
    order.envelope, order.routes = &core.envelope, &core.routes
    output_begin(output, second)
    return drain_shards(core, &order, output)


# ------------------------------------------------------------------------------------- all the rest


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
        shard_lock(&core.shards[s])
        code = slab_reserve(&core.shards[s].records, each + margin)
        if code == DONE:
            code = index_presize(core.shards[s].index, &core.shards[s].records, each)
        shard_unlock(&core.shards[s])
        if code == NO_MEMORY:
            return NO_MEMORY
    return DONE


cdef int64_t armed_for(Shard* shard, int64_t job_id) noexcept nogil:
    cdef int64_t due = NEVER
    cdef uint32_t number
    shard_lock(shard)
    number = find(shard, job_id)
    if number != NONE:
        due = armed_instant(shard, record_at(&shard.records, number))
    shard_unlock(shard)
    return due


cdef bint knows(Shard* shard, int64_t job_id) noexcept nogil:
    cdef bint known
    shard_lock(shard)
    known = find(shard, job_id) != NONE
    shard_unlock(shard)
    return known


cdef void add_counts(Core* core, uint64_t* kinds, uint64_t* paused, uint64_t* jobs) noexcept nogil:
    cdef int s
    cdef int k
    for s in range(SHARDS):
        shard_lock(&core.shards[s])
        jobs[0] += core.shards[s].jobs
        paused[0] += core.shards[s].paused
        for k in range(4):
            kinds[k] += core.shards[s].enabled_by_kind[k]
        shard_unlock(&core.shards[s])


cdef size_t bytes_of(Core* core) noexcept nogil:
    cdef size_t total = SHARDS * sizeof(Shard) + source_bytes(&core.source)
    cdef int s
    for s in range(SHARDS):
        shard_lock(&core.shards[s])
        total += index_bytes(core.shards[s].index) + core.shards[s].far.size * 8
        total += core.shards[s].blobs.large_bytes
        shard_unlock(&core.shards[s])
    return total


# Between two shards of a drain, never amid one.
cdef void clear_all(Core* core) noexcept nogil:
    cdef int s
    pthread_mutex_lock(&core.claims.lock)
    while core.claims.busy:
        pthread_cond_wait(&core.claims.moved, &core.claims.lock)
    for s in range(SHARDS):
        shard_lock(&core.shards[s])
        shard_clear(&core.shards[s])
        shard_unlock(&core.shards[s])
    pthread_mutex_unlock(&core.claims.lock)


# A hold that is under way was not begun with a look at the clock, so the switch waits for its end.
cdef void time_holds(Core* core, bint wanted) noexcept nogil:
    cdef int s
    holds_clear(&core.holds)
    for s in range(SHARDS):
        pthread_mutex_lock(&core.shards[s].lock)
        core.shards[s].holds = &core.holds if wanted else NULL
        pthread_mutex_unlock(&core.shards[s].lock)


cdef int audit_locked(Core* core, Shard* shard, bint heal, uint64_t* found) noexcept nogil:
    cdef int code
    shard_lock(shard)
    code = audit(shard, heal, core.window, found)
    if heal:
        evacuation_offer(&core.evacuations, shard)
    shard_unlock(shard)
    return code


cdef int inflict_locked(Shard* shard, int fault, int64_t job_id) noexcept nogil:
    cdef uint32_t number
    cdef int code = NOT_ARMED
    shard_lock(shard)
    number = find(shard, job_id)
    if number != NONE:
        code = inflict(shard, fault, number)
    shard_unlock(shard)
    return code
