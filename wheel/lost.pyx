"""From a lost entry to the runs it owes. lost.pxd says what it promises."""

from libc.stdint cimport int64_t, uint32_t

from mainspring.wheel.arrears cimport arrears_add, arrears_skip
from mainspring.wheel.catch_up cimport OWED, skip_reason
from mainspring.wheel.records cimport Record
from mainspring.wheel.shard cimport NEVER, Shard, due_of, owed_after


# NEVER where nothing is known to be lost.
cdef int64_t lost_since(const Shard* shard, const Record* record) noexcept nogil:
    cdef int64_t instant = due_of(shard, record)
    if record.next == 0 or owed_after(shard, record, instant - 1) != instant:
        return NEVER
    return instant


cdef uint32_t lost_owed(
    const Shard* shard, const Record* record, int64_t until, int64_t now, int64_t window,
) noexcept nogil:
    cdef int64_t instant = lost_since(shard, record)
    cdef int64_t following
    cdef uint32_t count = 0
    while instant <= until:
        following = owed_after(shard, record, instant)
        count += skip_reason(shard, record, instant, following, now, window) == OWED
        instant = following
    return count


cdef void lost_note(
    Shard* shard, const Record* record, int64_t until, int64_t now, int64_t window,
) noexcept nogil:
    cdef int64_t instant = lost_since(shard, record)
    cdef int64_t following
    cdef int reason
    while instant <= until:
        following = owed_after(shard, record, instant)
        reason = skip_reason(shard, record, instant, following, now, window)
        if reason == OWED:
            arrears_add(&shard.arrears, record.id, instant, instant, following)
        else:
            arrears_skip(&shard.arrears, reason, 1, instant, instant)
        shard.in_arrears = True
        instant = following
