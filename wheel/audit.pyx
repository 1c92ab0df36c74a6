"""The audit of a shard. audit.pxd says what it promises.

The first pass walks the lists and marks each record that stands where it should; the second walks the records
and looks at what was marked. Both are linear, and the marks are a bit in the record: nothing is allocated but
what a cure needs. The shard has lain untouched for minutes: its memory is read once in a row, where the
machine reads ahead by itself, and then asked for some entries before its use.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from mainspring.wheel.far cimport far_drop
from mainspring.wheel.hash cimport xxh64_i64
from mainspring.wheel.index cimport index_find, index_foresee, index_insert, index_reserve
from mainspring.wheel.lists cimport CHUNK_ENTRIES, Chunk, chunk_at, entry_at, list_below, list_top
from mainspring.wheel.memory cimport NO_MEMORY, PAGE_BYTES, prefetch, prefetch_write
from mainspring.wheel.records cimport (
    ASTRAY, ENABLED, IS_RARE, LIVE, SEEN, Record, kind_of, record_at,
)
from mainspring.wheel.schedule cimport KIND_INTERVAL
from mainspring.wheel.shard cimport (
    HORIZON, NEVER, Shard, arm, disarm, due_of, list_of, next_of, owed, owed_after, shard_reserve,
    stands_at, take_out,
)
from mainspring.wheel.slab cimport NONE, Slab


cdef enum:
    RESTS = 64              # intervals whose remainder is kept, by their low bits
    AHEAD = 16              # records between asking for their place in the index and its use


ctypedef struct Counts:
    uint64_t jobs
    uint64_t armed
    uint64_t paused
    uint64_t enabled_by_kind[4]


ctypedef struct Audit:
    Shard* shard
    bint heal
    int code
    uint64_t* found
    Counts counts
    uint32_t rest_every[64]
    uint32_t rests[64]      # of the newest begun second by that interval
    uint64_t hashes[16]     # of the records ahead


# ---------------------------------------------------------------------------------- reading ahead


cdef void bring_in(const Slab* slab) noexcept nogil:
    cdef size_t end = <size_t>slab.used * slab.item_bytes
    cdef size_t at = 0
    while at < end:
        prefetch(slab.pages[at // PAGE_BYTES] + at % PAGE_BYTES)
        at += 64


# The records named by a chunk, and the chunk below it.
cdef inline void ask_entries(const Shard* shard, uint32_t position) noexcept nogil:
    cdef const Chunk* chunk = chunk_at(&shard.chunks, position >> 4)
    cdef uint32_t place
    for place in range((position & 15) + 1):
        if chunk.entries[place] < shard.records.used:
            prefetch_write(record_at(&shard.records, chunk.entries[place]))
    if chunk.next != NONE:
        prefetch(chunk_at(&shard.chunks, chunk.next))


# ---------------------------------------------------------------------------------- pass over lists


# What is wrong with an entry, -1 when nothing is.
cdef int judge_entry(
    Shard* shard, uint32_t* head, uint32_t position, Record* record, uint32_t number,
) noexcept nogil:
    if number >= shard.records.used or not record.flags & LIVE:
        return FAULT_ORPHAN
    if record.position == position:
        return -1 if record.next and list_of(shard, record) == head else FAULT_WRONG_SLOT
    return FAULT_DOUBLED if stands_at(shard, number, record.position) else FAULT_WRONG_SLOT


cdef void judge_list(Audit* audit, uint32_t* head) noexcept nogil:
    cdef Shard* shard = audit.shard
    cdef uint32_t position = list_top(head[0])
    cdef uint32_t here, number
    cdef Record* record
    cdef int fault
    while position != NONE:
        here, position = position, list_below(&shard.chunks, position)
        if position != NONE and here & 15 == 0:
            ask_entries(shard, position)
        number = entry_at(&shard.chunks, here)
        record = record_at(&shard.records, number if number < shard.records.used else 0)
        fault = judge_entry(shard, head, here, record, number)
        if fault < 0:
            record.flags |= SEEN
            continue
        audit.found[fault] += 1
        if fault == FAULT_WRONG_SLOT:
            # So that the second pass does not count it again, as dropped.
            record.flags |= ASTRAY
        if audit.heal:
            take_out(shard, head, here)


cdef void judge_lists(Audit* audit) noexcept nogil:
    cdef Shard* shard = audit.shard
    cdef uint32_t i
    cdef int slot
    judge_list(audit, &shard.draining)
    for slot in range(HORIZON):
        if slot + 2 < HORIZON and shard.slots[slot + 2]:
            ask_entries(shard, list_top(shard.slots[slot + 2]))
        if shard.slots[slot]:
            judge_list(audit, &shard.slots[slot])
    for i in range(shard.far.size):
        if shard.far.hours[i].hour:
            judge_list(audit, &shard.far.hours[i].head)


# Dropping an hour moves others into its place, so the place is looked at again.
cdef void drop_empty_hours(Shard* shard) noexcept nogil:
    cdef uint32_t i = 0
    while i < shard.far.size:
        if shard.far.hours[i].hour and shard.far.hours[i].head == 0:
            far_drop(&shard.far, shard.far.hours[i].hour)
        else:
            i += 1


# -------------------------------------------------------------------------------- pass over records


cdef void count(Counts* counts, const Record* record) noexcept nogil:
    counts.jobs += 1
    counts.armed += record.next != 0
    if record.flags & ENABLED:
        counts.enabled_by_kind[kind_of(record)] += 1
    else:
        counts.paused += 1


# How a record stands that is in its list (seen) or in none, against the instant it owes; -1: as it should.
cdef int judge_arming(const Shard* shard, const Record* record, bint seen, int64_t due) noexcept nogil:
    if not seen:
        return FAULT_DROPPED if record.next or due != NEVER else -1
    if due != NEVER and record.next == next_of(shard, due):
        return -1
    if due != NEVER and owed_after(shard, record, due_of(shard, record) - 1) == due_of(shard, record) > due:
        return FAULT_PERIOD_LATE
    return FAULT_NOT_REARMED


# A record in no list must not be looked for in one: its position is stale, or never was.
cdef void let_go(Shard* shard, uint32_t number, Record* record, bint seen) noexcept nogil:
    if seen:
        disarm(shard, number)
    elif record.next:
        record.next, record.position = 0, NONE
        shard.armed -= 1


cdef void rearm(Audit* audit, uint32_t number, Record* record, bint seen, int64_t due) noexcept nogil:
    if shard_reserve(audit.shard, 1, 1) == NO_MEMORY:
        audit.code = NO_MEMORY
        return
    let_go(audit.shard, number, record, seen)
    if due != NEVER:
        arm(audit.shard, number, due)


cdef void judge_index(Audit* audit, uint32_t number, const Record* record, uint64_t hash) noexcept nogil:
    cdef Shard* shard = audit.shard
    if index_find(shard.index, &shard.records, record.id, hash) == number:
        return
    audit.found[FAULT_UNINDEXED] += 1
    if not audit.heal:
        return
    if index_reserve(shard.index, &shard.records, hash) == NO_MEMORY:
        audit.code = NO_MEMORY
    else:
        index_insert(shard.index, hash, number)


# begun modulo the interval, which all jobs of one interval share: a division less for each.
cdef inline int64_t rest_of(Audit* audit, uint32_t every) noexcept nogil:
    cdef uint32_t place = every % RESTS
    cdef int64_t rest
    if audit.rest_every[place] != every:
        rest = audit.shard.begun % <int64_t>every
        audit.rest_every[place] = every
        audit.rests[place] = <uint32_t>(rest + every if rest < 0 else rest)
    return audit.rests[place]


# shard.owed, with a short way for a plain interval that does not wait amid a drain.
cdef inline int64_t owed_now(Audit* audit, const Record* record, uint64_t hash) noexcept nogil:
    cdef const Shard* shard = audit.shard
    cdef int64_t past
    if (
        kind_of(record) != KIND_INTERVAL or record.flags & IS_RARE or not record.flags & ENABLED
        or due_of(shard, record) == shard.begun
    ):
        return owed(shard, record)
    past = rest_of(audit, record.schedule) - <int64_t>(hash % record.schedule)
    return shard.begun - past + (0 if past < 0 else record.schedule)


cdef void judge_record(Audit* audit, uint32_t number, Record* record, uint64_t hash) noexcept nogil:
    cdef bint seen = (record.flags & SEEN) != 0
    cdef bint astray = (record.flags & ASTRAY) != 0
    cdef int64_t due = owed_now(audit, record, hash)
    cdef int fault = judge_arming(audit.shard, record, seen, due)
    record.flags &= ~<int>(SEEN | ASTRAY)
    if fault >= 0:
        audit.found[fault] += not astray
        if audit.heal:
            rearm(audit, number, record, seen, due)
    judge_index(audit, number, record, hash)
    count(&audit.counts, record)


# The hash is worked out ahead, since it says where in the index the record stands.
cdef inline void ask_index(Audit* audit, uint32_t number) noexcept nogil:
    cdef uint64_t hash
    if number < audit.shard.records.used:
        hash = xxh64_i64(record_at(&audit.shard.records, number).id)
        audit.hashes[number % AHEAD] = hash
        index_foresee(audit.shard.index, hash)


cdef void judge_records(Audit* audit) noexcept nogil:
    cdef Shard* shard = audit.shard
    cdef uint32_t number
    cdef uint64_t hash
    cdef Record* record
    for number in range(AHEAD):
        ask_index(audit, number)
    for number in range(shard.records.used):
        hash = audit.hashes[number % AHEAD]
        ask_index(audit, number + AHEAD)
        record = record_at(&shard.records, number)
        if record.flags & LIVE:
            judge_record(audit, number, record, hash)


cdef void judge_counts(Audit* audit) noexcept nogil:
    cdef Shard* shard = audit.shard
    cdef Counts* counts = &audit.counts
    cdef bint differ = (
        shard.jobs != counts.jobs or shard.armed != counts.armed or shard.paused != counts.paused
        or memcmp(shard.enabled_by_kind, counts.enabled_by_kind, sizeof(counts.enabled_by_kind)) != 0
    )
    audit.found[FAULT_MISCOUNTED] += differ
    if differ and audit.heal:
        shard.jobs, shard.armed, shard.paused = counts.jobs, counts.armed, counts.paused
        memcpy(shard.enabled_by_kind, counts.enabled_by_kind, sizeof(counts.enabled_by_kind))


# What drains met since the last sweep was a fault all the same.
cdef void tell_met(Shard* shard, uint64_t* found) noexcept nogil:
    cdef int fault
    for fault in range(FAULTS_KNOWN):
        found[fault] += shard.met[fault]
    memset(shard.met, 0, sizeof(shard.met))


cdef int audit(Shard* shard, bint heal, uint64_t* found) noexcept nogil:
    cdef Audit state
    memset(&state, 0, sizeof(Audit))
    state.shard, state.heal, state.found = shard, heal, found
    bring_in(&shard.chunks)
    bring_in(&shard.records)
    judge_lists(&state)
    if heal:
        drop_empty_hours(shard)
    judge_records(&state)
    judge_counts(&state)
    if heal:
        tell_met(shard, found)
    return state.code
