"""Applying a change to a shard. edit.pxd says what it promises."""

from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from mainspring.wheel.arrears cimport arrears_add, arrears_reserve
from mainspring.wheel.blobs cimport blob_at, blobs_fit, blobs_give, blobs_reserve, blobs_take
from mainspring.wheel.digest_walk cimport digest_gain, digest_lose
from mainspring.wheel.index cimport index_insert, index_remove, index_reserve, index_settle
from mainspring.wheel.memory cimport DONE, NO_MEMORY
from mainspring.wheel.records cimport (
    ENABLED, FAR, IS_RARE, ROUTE_WIDE, Rare, Record, blob_head, blob_lines, head_blob_bytes, kind_of,
    record_at,
)
from mainspring.wheel.schedule cimport KIND_INTERVAL, KIND_ONCE, grid_next
from mainspring.wheel.shard cimport (
    NEVER, NO_EXTRA, Shard, arm, disarm, due_of, next_of, once_at, owed_after, rare_of, shard_reserve,
)
from mainspring.wheel.slab cimport NONE, slab_at, slab_give, slab_reserve, slab_take
from mainspring.wheel.text cimport UUID_BYTES, UUID_TEXT, escaped_length, pack_uuid, write_escaped


# What a row comes to, worked out before anything is touched.
ctypedef struct Plan:
    uint64_t hash
    uint32_t number         # of the record there is, or NONE
    uint32_t key_bytes      # as stored
    uint32_t blob_bytes     # 0: neither key nor payload
    bint uuid_key
    char uuid[16]           # where the key is one
    bint rare_needed
    int64_t late            # a first run whose second has begun: it comes with the next one. Or NO_EXTRA
    Rare rare


# Serial numbers: the half that is kept of a seq may wrap around. A load is always accepted.
cdef inline bint is_newer(const Definition_t* row, const Record* record) noexcept nogil:
    return row.seq == 0 or record.seq == 0 or <int32_t>(<uint32_t>row.seq - record.seq) > 0


cdef inline bint in_window(const Definition_t* row, int64_t instant) noexcept nogil:
    return row.starts_at <= instant < row.ends_at


# The newest second that the job is done with: amid a drain one that still waits owes `begun`, edited or not.
cdef inline int64_t done_until(const Shard* shard, const Record* old) noexcept nogil:
    if old == NULL or old.next == 0 or shard.drained == shard.begun or due_of(shard, old) != shard.begun:
        return shard.begun
    return shard.begun - 1


# One that still waited when it was edited, or was committed after its instant, runs with the next second.
cdef int64_t late_once(const Shard* shard, const Definition_t* row, const Record* old) noexcept nogil:
    cdef bint was_once = old != NULL and kind_of(old) == KIND_ONCE
    cdef int64_t done = done_until(shard, old)
    if row.run_at > done or not in_window(row, row.run_at):
        return NO_EXTRA
    if was_once and once_at(shard, old) == row.run_at:
        return done + 1 if old.next else NO_EXTRA
    if row.op == OP_LOAD or row.run_at <= done - LATE_MAX_S:
        return NO_EXTRA
    return done + 1


# Whether the row is a job's beginning; a load is where it brings the second of it.
cdef inline bint is_insert(const Definition_t* row, const Record* old) noexcept nogil:
    return row.op == OP_LOAD if old != NULL else row.op == OP_INSERT or row.op == OP_LOAD


# A function of the row alone, so that every node names the same run, whenever it applies the row.
cdef int64_t first_run(const Definition_t* row, const Record* old, uint64_t hash) noexcept nogil:
    cdef uint64_t window = 5
    cdef int64_t instant
    if not row.enabled or not row.first_run_soon or row.changed_at == 0 or row.kind == KIND_ONCE:
        return NO_EXTRA
    if row.kind == KIND_INTERVAL:
        window = <uint64_t>max(1, min(5, row.every_s // 2))
    instant = row.changed_at + 1 + <int64_t>(hash % window)
    return instant if is_insert(row, old) and in_window(row, instant) else NO_EXTRA


# The run beside the schedule that this change brings or leaves pending; `first` is what first_run says.
cdef int64_t extra_of(
    const Shard* shard, const Definition_t* row, const Record* old, int64_t first,
) noexcept nogil:
    cdef const Rare* rare = NULL
    if not row.enabled:
        return NO_EXTRA
    if row.kind == KIND_ONCE:
        return late_once(shard, row, old)
    if first > shard.begun:
        return first
    if old == NULL:
        return NO_EXTRA
    rare = rare_of(shard, old)
    if rare == NULL or rare.extra_at == NO_EXTRA or kind_of(old) == KIND_ONCE:
        return NO_EXTRA
    return max(rare.extra_at, done_until(shard, old) + 1)


cdef void plan_rare(
    const Shard* shard, const Definition_t* row, const Record* old, Plan* plan,
) noexcept nogil:
    cdef int64_t first = first_run(row, old, plan.hash)
    plan.rare.run_at = row.run_at
    plan.rare.starts_at, plan.rare.ends_at = row.starts_at, row.ends_at
    plan.rare.boost_until, plan.rare.boost_every = row.boost_until, row.boost_every_s
    plan.rare.extra_at = extra_of(shard, row, old, first)
    plan.late = first if shard.begun - LATE_MAX_S < first <= shard.begun and row.op == OP_INSERT else NO_EXTRA
    plan.rare.schedule = plain_schedule(shard, row)
    plan.rare.phase, plan.rare.jitter = row.phase_s, row.jitter_s
    plan.rare.route, plan.rare.padding = row.route, 0
    plan.rare_needed = is_rare(shard, row.kind, &plan.rare)


cdef void plan_blob(const Definition_t* row, const uint8_t* texts, Plan* plan) noexcept nogil:
    cdef const uint8_t* key = texts + row.key_at
    plan.uuid_key = pack_uuid(plan.uuid, key, row.key_len)
    plan.key_bytes = UUID_BYTES if plan.uuid_key else escaped_length(key, row.key_len)
    plan.blob_bytes = 0
    if row.key_len or row.data_len:
        plan.blob_bytes = 4 + plan.key_bytes + row.data_len


cdef int reserve_record(Shard* shard, uint64_t hash) noexcept nogil:
    if slab_reserve(&shard.records, 1) == NO_MEMORY:
        return NO_MEMORY
    return index_reserve(shard.index, &shard.records, hash)


cdef int reserve(Shard* shard, const Plan* plan) noexcept nogil:
    if shard_reserve(shard, 1, 1) == NO_MEMORY:
        return NO_MEMORY
    if plan.number == NONE and reserve_record(shard, plan.hash) == NO_MEMORY:
        return NO_MEMORY
    if plan.rare_needed and slab_reserve(&shard.rares, 1) == NO_MEMORY:
        return NO_MEMORY
    if plan.late != NO_EXTRA and arrears_reserve(&shard.arrears, 1) == NO_MEMORY:
        return NO_MEMORY
    return blobs_reserve(&shard.blobs, plan.blob_bytes) if plan.blob_bytes else DONE


cdef inline void count(Shard* shard, const Record* record, int64_t by) noexcept nogil:
    shard.jobs += by
    if record.flags & ENABLED:
        shard.enabled_by_kind[kind_of(record)] += by
    else:
        shard.paused += by


cdef inline uint32_t stored_bytes(const Shard* shard, const Record* record) noexcept nogil:
    return head_blob_bytes((<const uint32_t*>blob_at(&shard.blobs, record.blob))[0])


# Uncounts a record and gives back its Rare. Its entry and its blob stay: the next definition may want both.
cdef void loosen(Shard* shard, const Record* record) noexcept nogil:
    count(shard, record, -1)
    if record.flags & IS_RARE:
        slab_give(&shard.rares, record.schedule)


cdef void forget(Shard* shard, uint32_t number) noexcept nogil:
    cdef Record* record = record_at(&shard.records, number)
    digest_lose(shard, number)
    loosen(shard, record)
    if record.blob != NONE:
        blobs_give(&shard.blobs, record.blob, stored_bytes(shard, record))
    record.flags, record.blob = 0, NONE
    index_remove(shard.index, &shard.records, number)
    slab_give(&shard.records, number)


cdef uint32_t new_record(Shard* shard, int64_t id, uint64_t hash) noexcept nogil:
    cdef uint32_t number = slab_take(&shard.records)
    cdef Record* record = record_at(&shard.records, number)
    record.id, record.next, record.position, record.blob, record.flags = id, 0, NONE, NONE, 0
    index_insert(shard.index, hash, number)
    return number


# The blob for the new bytes: the old one where it has just their size, as it does in most edits.
cdef void change_blob(Shard* shard, Record* record, uint32_t size) noexcept nogil:
    cdef uint32_t old_size = 0 if record.blob == NONE else stored_bytes(shard, record)
    if old_size and size and blobs_fit(old_size, size):
        return
    if old_size:
        blobs_give(&shard.blobs, record.blob, old_size)
    record.blob = blobs_take(&shard.blobs, size) if size else <uint32_t>NONE


cdef void store_blob(
    Shard* shard, Record* record, const Definition_t* row, const uint8_t* texts, const Plan* plan,
) noexcept nogil:
    cdef char* at
    change_blob(shard, record, plan.blob_bytes)
    if plan.blob_bytes == 0:
        return
    at = blob_at(&shard.blobs, record.blob)
    record.flags |= blob_lines(at, plan.blob_bytes)
    (<uint32_t*>at)[0] = blob_head(plan.key_bytes, row.data_len)
    if plan.uuid_key:
        memcpy(at + 4, plan.uuid, UUID_BYTES)
    else:
        write_escaped(at + 4, texts + row.key_at, row.key_len)
    memcpy(at + 4 + plan.key_bytes, texts + row.data_at, row.data_len)


cdef void store_schedule(Shard* shard, Record* record, const Plan* plan) noexcept nogil:
    record.schedule = plan.rare.schedule
    record.route = <uint16_t>min(plan.rare.route, <uint32_t>ROUTE_WIDE)
    if plan.rare_needed:
        record.flags |= IS_RARE
        record.schedule = slab_take(&shard.rares)
        (<Rare*>slab_at(&shard.rares, record.schedule))[0] = plan.rare


# An edit that leaves the instant as it was leaves the entry where it stands.
cdef void settle(Shard* shard, uint32_t number, Record* record) noexcept nogil:
    cdef int64_t due = owed_after(shard, record, done_until(shard, record))
    if due != NEVER and record.next == next_of(shard, due):
        return
    disarm(shard, number)
    if due != NEVER:
        arm(shard, number, due)


# Catch-up judges it by the first second that can give it: nobody missed it before.
cdef void owe_late(Shard* shard, const Record* record, int64_t instant) noexcept nogil:
    cdef int64_t due = shard.begun + 1
    arrears_add(&shard.arrears, record.id, instant, due, owed_after(shard, record, due))
    shard.in_arrears = True


cdef void store(
    Shard* shard, uint32_t number, const Definition_t* row, const uint8_t* texts, const Plan* plan,
) noexcept nogil:
    cdef Record* record = record_at(&shard.records, number)
    # Which kind of list the old entry stands in is still to be known.
    record.flags = flags_of(row, plan.uuid_key) | record.flags & FAR
    record.seq = <uint32_t>row.seq
    store_schedule(shard, record, plan)
    store_blob(shard, record, row, texts, plan)
    count(shard, record, 1)
    settle(shard, number, record)
    if plan.late != NO_EXTRA:
        owe_late(shard, record, plan.late)
    digest_gain(shard, number)


cdef int remove_job(Shard* shard, const Definition_t* row, uint32_t number) noexcept nogil:
    if number == NONE or not is_newer(row, record_at(&shard.records, number)):
        return UNCHANGED
    disarm(shard, number)
    forget(shard, number)
    return CHANGED


cdef int apply_row(
    Shard* shard, const Definition_t* row, const uint8_t* texts, uint64_t hash, uint32_t guess,
) noexcept nogil:
    cdef Plan plan
    cdef Record* old = NULL
    plan.hash = hash
    plan.number = index_settle(shard.index, &shard.records, row.id, hash, guess)
    if row.op == OP_DELETE:
        return remove_job(shard, row, plan.number)
    if plan.number != NONE:
        old = record_at(&shard.records, plan.number)
        if not is_newer(row, old):
            return UNCHANGED
    plan_rare(shard, row, old, &plan)
    plan_blob(row, texts, &plan)
    if reserve(shard, &plan) == NO_MEMORY:
        return NO_MEMORY
    # From here on nothing can fail.
    if plan.number == NONE:
        plan.number = new_record(shard, row.id, plan.hash)
    else:
        digest_lose(shard, plan.number)
        loosen(shard, old)
    store(shard, plan.number, row, texts, &plan)
    return CHANGED


cdef int64_t probable_due(const Shard* shard, const Definition_t* row, uint64_t hash) noexcept nogil:
    if row.op == OP_DELETE or row.kind != KIND_INTERVAL or not row.enabled or row.phase_s >= 0:
        return NEVER
    return grid_next(row.every_s, <int64_t>(hash % <uint64_t>row.every_s), shard.begun)


cdef uint32_t probable_size(const Definition_t* row) noexcept nogil:
    cdef uint32_t key_bytes = UUID_BYTES if row.key_len == UUID_TEXT else row.key_len
    return 4 + key_bytes + row.data_len


cdef void settle_extra(Shard* shard, uint32_t number) noexcept nogil:
    cdef Record* record = record_at(&shard.records, number)
    cdef Rare* rare = <Rare*>slab_at(&shard.rares, record.schedule)
    cdef uint32_t item = record.schedule
    rare.extra_at = NO_EXTRA
    if is_rare(shard, kind_of(record), rare):
        return
    record.schedule = rare.schedule
    record.flags &= ~<int>IS_RARE
    slab_give(&shard.rares, item)
