"""Promotion from the far lists. promote.pxd says what it promises."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from mainspring.wheel.drain cimport AHEAD, MORE, PIECE, WHOLE
from mainspring.wheel.far cimport far_drop, far_find
from mainspring.wheel.lists cimport entry_at, list_below, list_pop, list_top
from mainspring.wheel.memory cimport NO_MEMORY, prefetch_write
from mainspring.wheel.records cimport Record, record_at
from mainspring.wheel.shard cimport (
    HOUR, HOUR_SHIFT, Shard, arm, due_of, hour_of, is_home, shard_reserve,
)
from mainspring.wheel.slab cimport NONE


# Both positions walk down the list, the one that asks for records some way ahead of the other.
cdef inline uint32_t ask_record(const Shard* shard, uint32_t position) noexcept nogil:
    if position == NONE:
        return NONE
    prefetch_write(record_at(&shard.records, entry_at(&shard.chunks, position)))
    return list_below(&shard.chunks, position)


cdef inline void move_near(Shard* shard, uint32_t* head) noexcept nogil:
    cdef uint32_t position = head[0] - 1
    cdef uint32_t number = entry_at(&shard.chunks, position)
    cdef Record* record = record_at(&shard.records, number)
    list_pop(&shard.chunks, head)
    if is_home(record, position):
        shard.armed -= 1
        arm(shard, number, due_of(shard, record))


# Moves at most a piece of the hour that begins with the second to its slots; the list is near in whole by
# now.
cdef int promote_piece(Shard* shard, uint32_t hour, uint32_t* head) noexcept nogil:
    cdef uint32_t ahead = list_top(head[0])
    cdef int i
    for i in range(AHEAD):
        ahead = ask_record(shard, ahead)
    for i in range(PIECE):
        # A lost entry may have left the list empty.
        if head[0] == 0:
            far_drop(&shard.far, hour)
            return WHOLE
        if shard_reserve(shard, 1, 0) == NO_MEMORY:
            return NO_MEMORY
        ahead = ask_record(shard, ahead)
        move_near(shard, head)
    return MORE


cdef int promote(Shard* shard, int64_t second) noexcept nogil:
    cdef uint32_t next = <uint32_t>(second - shard.base)
    cdef uint32_t hour = hour_of(shard, next)
    cdef uint32_t* head
    if (<uint64_t>next + shard.number * HOUR_SHIFT) % HOUR:
        return WHOLE
    head = far_find(&shard.far, hour)
    return WHOLE if head == NULL else promote_piece(shard, hour, head)
