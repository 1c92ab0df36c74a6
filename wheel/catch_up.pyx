"""The rarer half of catch-up. catch_up.pxd says what it promises."""

from libc.stdint cimport INT64_MAX, int64_t

from mainspring.wheel.records cimport Record, kind_of
from mainspring.wheel.schedule cimport KIND_ONCE, Schedule_t, schedule_next
from mainspring.wheel.shard cimport NEVER, Shard, schedule_of


cdef bint keeps_newest(const Shard* shard, const Record* record, int64_t instant, int64_t now) noexcept nogil:
    cdef Schedule_t schedule
    cdef int64_t following
    if now - instant > CATCH_UP_MAX_S:
        return False
    if kind_of(record) == KIND_ONCE:
        return True
    # The end of the job's window is no end of the gap.
    schedule_of(shard, record, &schedule)
    schedule.ends_at = INT64_MAX
    following = schedule_next(&schedule, instant)
    if following == NEVER:
        return True
    return following - instant > LONG_GAP_S and following >= now - MISSED_AFTER_S
