"""Which run of a missed second is still owed: the catch-up policies, as functions of one run and the clock.

    reason = skip_reason(shard, record, instant, following, now, window)    # SKIP_... of frames.pxd, or OWED

`following` is the job's next instant after `instant`. As `now` moves on a run can only cease to be owed: what
is skipped at one clock is skipped at every later one.
"""

from libc.stdint cimport int64_t

from mainspring.wheel.frames cimport SKIP_LATEST, SKIP_NONE, SKIP_WINDOW
from mainspring.wheel.records cimport Record, catch_up_of
from mainspring.wheel.shard cimport Shard


cdef enum:
    MISSED_AFTER_S = 5
    LONG_GAP_S = 3600
    CATCH_UP_MAX_S = 86400


cdef enum:
    CATCH_UP_ALL = 0
    CATCH_UP_LATEST = 1
    CATCH_UP_NONE = 2


cdef enum:
    OWED = -1


# A job with more than an hour between runs, and a one-shot, keeps its newest missed run for one gap.
cdef bint keeps_newest(const Shard* shard, const Record* record, int64_t instant, int64_t now) noexcept nogil


cdef inline int skip_reason(
    const Shard* shard, const Record* record, int64_t instant, int64_t following, int64_t now, int64_t window,
) noexcept nogil:
    cdef int policy = catch_up_of(record)
    if now - instant <= MISSED_AFTER_S:
        return OWED
    if policy == CATCH_UP_NONE:
        return SKIP_NONE
    if policy == CATCH_UP_ALL:
        return OWED if now - instant <= window or keeps_newest(shard, record, instant, now) else SKIP_WINDOW
    if following < now - MISSED_AFTER_S:
        return SKIP_LATEST
    return OWED if now - instant <= CATCH_UP_MAX_S else SKIP_WINDOW
