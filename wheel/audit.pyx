"""The audit of a shard. audit.pxd says what it promises.

A look has two passes: the first walks the lists and marks each record that stands where it should; the second
walks the records and looks at what was marked. The marks are a bit in the record, so nothing is allocated. A cure
is a second look, one that mends what it meets: what it needs was counted by the first, and reserved.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from mainspring.wheel.arrears cimport arrears_reserve
from mainspring.wheel.edit cimport settle_extra
from mainspring.wheel.far cimport far_drop, far_find
from mainspring.wheel.hash cimport xxh64_i64
from mainspring.wheel.index cimport (
    IndexTable, IndexTally, index_close, index_counts_right, index_find, index_insert, index_open,
    index_reserve, index_tally,
)
from mainspring.wheel.lists cimport entry_at, list_below, list_top
from mainspring.wheel.lost cimport lost_note, lost_owed
from mainspring.wheel.memory cimport DONE, NO_MEMORY
from mainspring.wheel.proof cimport prove
from mainspring.wheel.records cimport (
    ASTRAY, ENABLED, FAR, IS_RARE, LIVE, SEEN, Record, kind_of, record_at,
)
from mainspring.wheel.shard cimport (
    HORIZON, NEVER, NO_EXTRA, Shard, arm, disarm, due_of, free_list_is_right, hour_is_over, hour_of, next_of,
    owed, owed_after, rare_of, shard_reserve, stands_at, take_out,
)
from mainspring.wheel.slab cimport NONE, Slab, slab_give


ctypedef struct Counts:
    uint64_t jobs
    uint64_t armed
    uint64_t paused
    uint64_t enabled_by_kind[4]


ctypedef struct Audit:
    Shard* shard
    bint heal
    int64_t window
    uint64_t found[11]
    Counts counts
    uint64_t indexed        # live records that the index finds
    uint32_t unarmed        # records that a cure takes out of their list, or puts into one
    uint32_t arrears        # runs that a cure will note as owed


# ---------------------------------------------------------------------------------- pass over lists


# The list that must hold the record's entry; NULL for none.
cdef uint32_t* true_list(Shard* shard, const Record* record) noexcept nogil:
    cdef uint32_t ahead = record.next - <uint32_t>(shard.begun - shard.base)
    if record.next == 0:
        return NULL
    if record.flags & FAR:
        if hour_is_over(shard, hour_of(shard, record.next)):
            return NULL
        return far_find(&shard.far, hour_of(shard, record.next))
    if ahead == 0:
        return &shard.draining
    return &shard.slots[record.next % HORIZON] if ahead <= HORIZON else NULL


# What is wrong with an entry, -1 when nothing is.
cdef int judge_entry(
    Shard* shard, uint32_t* head, uint32_t position, Record* record, uint32_t number,
) noexcept nogil:
    if number >= shard.records.used or not record.flags & LIVE:
        return FAULT_ORPHAN
    if record.position == position:
        return -1 if true_list(shard, record) == head else FAULT_WRONG_SLOT
    return FAULT_DOUBLED if stands_at(shard, number, record.position) else FAULT_WRONG_SLOT


cdef void judge_list(Audit* audit, uint32_t* head) noexcept nogil:
    cdef Shard* shard = audit.shard
    cdef uint32_t position = list_top(head[0])
    cdef uint32_t here, number
    cdef Record* record
    cdef int fault
    while position != NONE:
        here, position = position, list_below(&shard.chunks, position)
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


# The newest second in which an entry may have been lost: not the one that is being drained, if the record is
# to be put back into it.
cdef inline int64_t lost_until(const Shard* shard, int64_t due) noexcept nogil:
    return shard.begun - (due == shard.begun)


cdef void rearm(Audit* audit, uint32_t number, Record* record, bint seen, int64_t due) noexcept nogil:
    cdef Shard* shard = audit.shard
    if not seen:
        lost_note(shard, record, lost_until(shard, due), shard.begun, audit.window)
    let_go(shard, number, record, seen)
    if record.flags & IS_RARE and NO_EXTRA < rare_of(shard, record).extra_at < min(due, shard.begun + 1):
        settle_extra(shard, number)
    if due != NEVER:
        arm(shard, number, due)


cdef void foresee_rearm(Audit* audit, const Record* record, bint seen, int64_t due) noexcept nogil:
    cdef Shard* shard = audit.shard
    audit.unarmed += 1
    if not seen:
        audit.arrears += lost_owed(shard, record, lost_until(shard, due), shard.begun, audit.window)


cdef void judge_record(Audit* audit, uint32_t number, Record* record) noexcept nogil:
    cdef Shard* shard = audit.shard
    cdef bint seen = (record.flags & SEEN) != 0
    cdef bint astray = (record.flags & ASTRAY) != 0
    cdef int64_t due = owed(shard, record)
    cdef int fault = judge_arming(shard, record, seen, due)
    record.flags &= ~<int>(SEEN | ASTRAY)
    if fault >= 0:
        audit.found[fault] += not astray
        if audit.heal:
            rearm(audit, number, record, seen, due)
        else:
            foresee_rearm(audit, record, seen, due)
    audit.indexed += index_find(shard.index, &shard.records, record.id, xxh64_i64(record.id)) == number
    count(&audit.counts, record)


cdef void judge_records(Audit* audit) noexcept nogil:
    cdef Shard* shard = audit.shard
    cdef uint32_t number
    for number in range(shard.records.used):
        if record_at(&shard.records, number).flags & LIVE:
            judge_record(audit, number, record_at(&shard.records, number))


# --------------------------------------------------------------------------- what belongs to no job


cdef void judge_index(Audit* audit) noexcept nogil:
    cdef Shard* shard = audit.shard
    cdef IndexTally tally
    index_tally(shard.index, &tally)
    audit.found[FAULT_UNINDEXED] += audit.counts.jobs - audit.indexed
    audit.found[FAULT_INDEX_STRAY] += tally.entries - audit.indexed
    audit.found[FAULT_INDEX_MISCOUNTED] += not index_counts_right(shard.index, &shard.records)


# What is free is known from the records themselves.
cdef void relink_free(Slab* records) noexcept nogil:
    cdef uint32_t number
    records.free_head, records.free_count = NONE, 0
    for number in range(records.used):
        if not record_at(records, number).flags & LIVE:
            slab_give(records, number)


cdef void judge_free_list(Audit* audit) noexcept nogil:
    cdef Slab* records = &audit.shard.records
    if free_list_is_right(records, records.used - <uint32_t>audit.counts.jobs):
        return
    audit.found[FAULT_FREE_LIST] += 1
    if audit.heal:
        relink_free(records)


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


# ---------------------------------------------------------------------------------------- the whole


cdef void look(Audit* audit, Shard* shard, bint heal, int64_t window) noexcept nogil:
    memset(audit, 0, sizeof(Audit))
    audit.shard, audit.heal, audit.window = shard, heal, window
    judge_lists(audit)
    if heal:
        drop_empty_hours(shard)
    judge_records(audit)
    judge_index(audit)
    judge_free_list(audit)
    judge_counts(audit)


# An index of the live records alone.
cdef int new_index(const Shard* shard, IndexTable* tables) noexcept nogil:
    cdef uint32_t number
    cdef uint64_t hash
    index_open(tables)
    for number in range(shard.records.used):
        if not record_at(&shard.records, number).flags & LIVE:
            continue
        hash = xxh64_i64(record_at(&shard.records, number).id)
        if index_reserve(tables, &shard.records, hash) == NO_MEMORY:
            index_close(tables)
            return NO_MEMORY
        index_insert(tables, hash, number)
    return DONE


cdef int mend_index(const Audit* audit) noexcept nogil:
    cdef Shard* shard = audit.shard
    cdef IndexTable tables[16]
    cdef const uint64_t* found = audit.found
    if found[FAULT_UNINDEXED] + found[FAULT_INDEX_STRAY] + found[FAULT_INDEX_MISCOUNTED] == 0:
        return DONE
    if new_index(shard, tables) == NO_MEMORY:
        return NO_MEMORY
    index_close(shard.index)
    memcpy(shard.index, tables, sizeof(tables))
    return DONE


# The index comes last, since it is mended as soon as its memory is there.
cdef int cure(const Audit* seen) noexcept nogil:
    cdef Shard* shard = seen.shard
    cdef Audit mending
    if shard_reserve(shard, seen.unarmed, seen.unarmed) == NO_MEMORY:
        return NO_MEMORY
    if arrears_reserve(&shard.arrears, seen.arrears) == NO_MEMORY:
        return NO_MEMORY
    if mend_index(seen) == NO_MEMORY:
        return NO_MEMORY
    look(&mending, shard, True, seen.window)
    return DONE


# What drains met since the last sweep was a fault all the same.
cdef void tell_met(Shard* shard, uint64_t* found) noexcept nogil:
    cdef int fault
    for fault in range(FAULTS_KNOWN):
        found[fault] += shard.met[fault]
    memset(shard.met, 0, sizeof(shard.met))


cdef int audit(Shard* shard, bint heal, int64_t window, uint64_t* found) noexcept nogil:
    cdef Audit seen
    if not prove(shard):
        look(&seen, shard, False, window)
        memcpy(found, seen.found, sizeof(seen.found))
        if heal and cure(&seen) == NO_MEMORY:
            return NO_MEMORY
    if heal:
        tell_met(shard, found)
    return DONE
