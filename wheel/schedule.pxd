"""When a job runs: a pure function of its definition and the clock, free of the GIL.

    cdef Schedule_t every_minute
    schedule_clear(&every_minute)
    every_minute.kind = KIND_INTERVAL
    every_minute.every = 60
    every_minute.phase = xxh64_i64(42) % 60
    schedule_next(&every_minute, now)          # smallest instant of the job > now, or NEVER

All instants are whole epoch seconds in 64 bits, before 1970 and after 2106 alike.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint64_t

from mainspring.wheel.cron_eval cimport CronGroup


cdef enum:
    KIND_INTERVAL = 1
    KIND_CRON = 2
    KIND_ONCE = 3


# All that decides a job's instants. Absent: starts_at INT64_MIN, ends_at INT64_MAX, boost_every 0, jitter -1.
ctypedef struct Schedule_t:
    int kind
    uint64_t hash           # of the id; 0 spreads nothing
    int64_t every           # seconds, >= 1 for intervals
    int64_t phase           # 0 <= phase < every
    CronGroup* cron         # borrowed: the caller keeps its CompiledCron alive
    uint64_t outcome        # of the job's draws, where the expression has an H (group_outcome)
    int64_t jitter          # spreading window in seconds, -1 for the expression's own
    int64_t run_at
    int64_t starts_at       # inclusive
    int64_t ends_at         # exclusive
    int64_t boost_every
    int64_t boost_until     # exclusive


# Smallest t > after with t = phase modulo every. C's remainder has the sign of `after`, hence the repair.
# The only arithmetic in the path of an ordinary job; no overflow while after < 2**62 and every <= 2**53.
cdef inline int64_t grid_next(int64_t every, int64_t phase, int64_t after) noexcept nogil:
    cdef int64_t past = after % every - phase
    if past < 0:
        past += every
    if past < 0:
        past += every
    return after - past + every


cdef void schedule_clear(Schedule_t* schedule) noexcept nogil

# Smallest spread instant > after of a job on a cron group; window -1: the expression's own.
cdef int64_t cron_spread_next(
    CronGroup* group, uint64_t outcome, uint64_t hash, int64_t window, int64_t after,
) noexcept nogil

# Where a base instant's run of the job lies; `following` is the base instant after it.
cdef int64_t spread_base(const Schedule_t* schedule, int64_t base, int64_t following) noexcept nogil

# Smallest instant of the job > after: grid or cron, spread, boost and window applied. NEVER when none.
cdef int64_t schedule_next(const Schedule_t* schedule, int64_t after) noexcept nogil
