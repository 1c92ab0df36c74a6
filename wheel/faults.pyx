"""Faults on purpose, one function each. faults.pxd says what it promises."""

from libc.stdint cimport int64_t, uint32_t

from mainspring.wheel.audit cimport (
    FAULT_DOUBLED, FAULT_DROPPED, FAULT_FREE_LIST, FAULT_INDEX_MISCOUNTED, FAULT_INDEX_STRAY,
    FAULT_MISCOUNTED, FAULT_NOT_REARMED, FAULT_ORPHAN, FAULT_PERIOD_LATE, FAULT_UNINDEXED, FAULT_WRONG_SLOT,
)
from mainspring.wheel.edit cimport forget
from mainspring.wheel.hash cimport xxh64_i64
from mainspring.wheel.index cimport index_insert, index_miscount, index_remove, index_reserve
from mainspring.wheel.lists cimport list_below, list_push, list_top
from mainspring.wheel.memory cimport DONE, NO_MEMORY
from mainspring.wheel.records cimport Record, record_at
from mainspring.wheel.shard cimport (
    HORIZON, Shard, arm, disarm, due_of, list_of, owed_after, shard_reserve, stands_at,
    take_out,
)
from mainspring.wheel.slab cimport NONE, slab_give


cdef void lose_entry(Shard* shard, Record* record) noexcept nogil:
    take_out(shard, list_of(shard, record), record.position)
    record.position = NONE


cdef uint32_t* other_slot(Shard* shard, const Record* record) noexcept nogil:
    return &shard.slots[(record.next + 7) % HORIZON]


cdef void misplace(Shard* shard, Record* record, uint32_t number) noexcept nogil:
    lose_entry(shard, record)
    record.position = list_push(&shard.chunks, other_slot(shard, record), number)


cdef void arm_at(Shard* shard, uint32_t number, int64_t due) noexcept nogil:
    disarm(shard, number)
    arm(shard, number, due)


cdef void leave_orphan(Shard* shard, uint32_t number) noexcept nogil:
    shard.armed -= 1
    forget(shard, number)


# The record is given back once more than there are records to give.
cdef void free_twice(Shard* shard, uint32_t number) noexcept nogil:
    disarm(shard, number)
    forget(shard, number)
    slab_give(&shard.records, number)


cdef void hurt_lists(Shard* shard, int fault, uint32_t number) noexcept nogil:
    cdef Record* record = record_at(&shard.records, number)
    if fault == FAULT_DROPPED:
        lose_entry(shard, record)
    elif fault == FAULT_DOUBLED:
        list_push(&shard.chunks, other_slot(shard, record), number)
    elif fault == FAULT_WRONG_SLOT:
        misplace(shard, record, number)
    elif fault == FAULT_PERIOD_LATE:
        arm_at(shard, number, owed_after(shard, record, due_of(shard, record)))
    elif fault == FAULT_NOT_REARMED:
        # As if the phase had changed and the entry had not been told.
        arm_at(shard, number, due_of(shard, record) + 1)
    elif fault == FAULT_ORPHAN:
        leave_orphan(shard, number)


cdef void hurt_the_rest(Shard* shard, int fault, uint32_t number) noexcept nogil:
    if fault == FAULT_MISCOUNTED:
        shard.armed += 1
    elif fault == FAULT_UNINDEXED:
        index_remove(shard.index, &shard.records, number)
    elif fault == FAULT_INDEX_STRAY:
        index_insert(shard.index, xxh64_i64(record_at(&shard.records, number).id), number)
    elif fault == FAULT_INDEX_MISCOUNTED:
        index_miscount(shard.index, xxh64_i64(record_at(&shard.records, number).id))
    elif fault == FAULT_FREE_LIST:
        free_twice(shard, number)


cdef bint is_listed(Shard* shard, const Record* record) noexcept nogil:
    cdef const uint32_t* head = list_of(shard, record)
    cdef uint32_t position = NONE if record.next == 0 or head == NULL else list_top(head[0])
    while position != NONE and position != record.position:
        position = list_below(&shard.chunks, position)
    return position != NONE


# An earlier fault may have left nothing for this one.
cdef bint can_befall(Shard* shard, int fault, uint32_t number) noexcept nogil:
    cdef const Record* record = record_at(&shard.records, number)
    if fault > FAULT_ORPHAN:
        return True
    if not stands_at(shard, number, record.position):
        return False
    return fault == FAULT_DOUBLED or fault == FAULT_ORPHAN or is_listed(shard, record)


cdef int inflict(Shard* shard, int fault, uint32_t number) noexcept nogil:
    cdef const Record* record = record_at(&shard.records, number)
    if not can_befall(shard, fault, number):
        return NOT_ARMED
    if shard_reserve(shard, 1, 1) == NO_MEMORY:
        return NO_MEMORY
    if index_reserve(shard.index, &shard.records, xxh64_i64(record.id)) == NO_MEMORY:
        return NO_MEMORY
    hurt_lists(shard, fault, number)
    hurt_the_rest(shard, fault, number)
    return DONE
