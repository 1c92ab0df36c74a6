"""Faults on purpose, one function each. faults.pxd says what it promises."""

from libc.stdint cimport int64_t, uint32_t

from mainspring.wheel.audit cimport (
    FAULT_DOUBLED, FAULT_DROPPED, FAULT_NOT_REARMED, FAULT_ORPHAN, FAULT_PERIOD_LATE, FAULT_UNINDEXED,
    FAULT_WRONG_SLOT,
)
from mainspring.wheel.edit cimport forget
from mainspring.wheel.index cimport index_remove
from mainspring.wheel.lists cimport list_push
from mainspring.wheel.memory cimport DONE, NO_MEMORY
from mainspring.wheel.records cimport Record, record_at
from mainspring.wheel.shard cimport (
    HORIZON, Shard, arm, disarm, due_of, list_of, owed_after, shard_reserve, take_out,
)
from mainspring.wheel.slab cimport NONE


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


cdef int inflict(Shard* shard, int fault, uint32_t number) noexcept nogil:
    cdef Record* record = record_at(&shard.records, number)
    if shard_reserve(shard, 1, 1) == NO_MEMORY:
        return NO_MEMORY
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
    elif fault == FAULT_UNINDEXED:
        index_remove(shard.index, &shard.records, number)
    else:
        shard.armed += 1
    return DONE
