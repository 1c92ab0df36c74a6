"""The pure functions of a schedule, compiled. `mainspring.wheel.twin` has the same names in plain Python."""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint64_t

from mainspring.wheel.cron_eval cimport Bracket, CompiledCron, CronGroup, group_bracket, group_outcome
from mainspring.wheel.cron_rule cimport EDGE_BITS, cron_next
from mainspring.wheel.hash cimport shard_of_hash, spread_of_hash, xxh64_i64

from functools import lru_cache

from mainspring.wheel.definition import SECONDS_MAX, Schedule
from mainspring.wheel.errors import ScheduleError


# ---------------------------------------------------------------------------------------------- in C


cdef void schedule_clear(Schedule_t* schedule) noexcept nogil:
    schedule.kind = 0
    schedule.hash = 0
    schedule.every = 1
    schedule.phase = 0
    schedule.cron = NULL
    schedule.outcome = 0
    schedule.jitter = -1
    schedule.run_at = INT64_MAX
    schedule.starts_at = INT64_MIN
    schedule.ends_at = INT64_MAX
    schedule.boost_every = 0
    schedule.boost_until = INT64_MIN


# A base instant moved by the job's own share of the window. The window never reaches into the next base
# instant, so spread instants keep the order of their base instants.
cdef inline int64_t spread(int64_t base, int64_t following, uint64_t hash, int64_t window) noexcept nogil:
    if base == INT64_MAX:
        return INT64_MAX
    if following - base < window:
        window = following - base
    return base + spread_of_hash(hash, window)


cdef int64_t cron_spread_next(
    CronGroup* group, uint64_t outcome, uint64_t hash, int64_t window, int64_t after,
) noexcept nogil:
    cdef Bracket near = group_bracket(group, outcome, after)
    cdef int64_t due
    if window < 0:
        window = group.memo.window_s
    if window <= 1 or hash == 0:
        return near.first
    # The base instant may be past while its spread one is still to come.
    due = spread(near.floor, near.first, hash, window)
    if due > after:
        return due
    return spread(near.first, near.second, hash, window)


cdef int64_t spread_base(const Schedule_t* schedule, int64_t base, int64_t following) noexcept nogil:
    cdef int64_t window = schedule.cron.memo.window_s if schedule.jitter < 0 else schedule.jitter
    return base if window <= 1 or schedule.hash == 0 else spread(base, following, schedule.hash, window)


# Base instants are asked for by people and batches, of ever new expressions: a memo would cost ten evaluations.
cdef inline int64_t cron_own_next(const Schedule_t* schedule, int64_t after) noexcept nogil:
    cdef CronGroup* group = schedule.cron
    if schedule.hash == 0 and group.memo.draws == 0:
        return cron_next(&group.rule, after)
    return cron_spread_next(group, schedule.outcome, schedule.hash, schedule.jitter, after)


# The next instant by the job's own rule: no boost, no window.
cdef inline int64_t own_next(const Schedule_t* schedule, int64_t after) noexcept nogil:
    if schedule.kind == KIND_INTERVAL:
        return grid_next(schedule.every, schedule.phase, after)
    if schedule.kind == KIND_CRON:
        return cron_own_next(schedule, after)
    return schedule.run_at if schedule.run_at > after else INT64_MAX


cdef inline int64_t boosted_next(const Schedule_t* schedule, int64_t after) noexcept nogil:
    cdef int64_t phase = <int64_t>(schedule.hash % <uint64_t>schedule.boost_every)
    cdef int64_t due = grid_next(schedule.boost_every, phase, after)
    if due < schedule.boost_until:
        return due
    return own_next(schedule, schedule.boost_until - 1)


cdef int64_t schedule_next(const Schedule_t* schedule, int64_t after) noexcept nogil:
    cdef int64_t due
    if after < schedule.starts_at:
        after = schedule.starts_at - 1
    if after < -(<int64_t>1 << EDGE_BITS):
        after = -(<int64_t>1 << EDGE_BITS)
    if after >= <int64_t>1 << EDGE_BITS:
        return INT64_MAX
    if schedule.boost_every > 0 and after < schedule.boost_until - 1:
        due = boosted_next(schedule, after)
    else:
        due = own_next(schedule, after)
    return due if due < schedule.ends_at else INT64_MAX


# ----------------------------------------------------------------------------------------- for Python


def job_hash(int64_t job_id):
    """XXH64 of the id as eight little-endian bytes, seed 0: an unsigned 64-bit number."""
    return xxh64_i64(job_id)


def shard_of(int64_t job_id):
    """The shard that owns the job, 0-255: the top byte of its hash."""
    return shard_of_hash(xxh64_i64(job_id))


def phase_of(int64_t job_id, int64_t every_s):
    """The job's place in its interval, in seconds, 0 <= phase < every_s; ScheduleError for every_s < 1."""
    require_interval(every_s)
    return <int64_t>(xxh64_i64(job_id) % <uint64_t>every_s)


def spread_of(int64_t job_id, int64_t window_s):
    """The job's place in a window of `window_s` seconds (0 to 2**32): floor(hash * window_s / 2**64)."""
    if not 0 <= window_s <= <int64_t>1 << 32:
        raise ScheduleError("window_s", window_s, "is out of range", "write a number from 0 to 4294967296")
    return spread_of_hash(xxh64_i64(job_id), window_s)


def interval_next(int64_t every_s, int64_t phase_s, int64_t anchor, int64_t now):
    """The smallest t > now that is congruent to anchor + phase_s modulo every_s; epoch seconds.

    `every_s` from 1 to 2**53; `now` and `anchor` may be negative. Raises ScheduleError for another `every_s`,
    and OverflowError where the answer leaves 64 bits.
    """
    cdef int64_t phase
    require_interval(every_s)
    # Each remainder lies in [0, every_s), so that their sum cannot leave 64 bits.
    phase = (floor_mod(anchor, every_s) + floor_mod(phase_s, every_s)) % every_s
    if now > INT64_MAX - every_s or now < INT64_MIN + every_s:
        raise OverflowError(f"now: {now} is at the edge of 64 bits; use an instant nearer to 1970")
    return grid_next(every_s, phase, now)


cdef inline int64_t floor_mod(int64_t value, int64_t modulus) noexcept nogil:
    cdef int64_t rest = value % modulus
    return rest + modulus if rest < 0 else rest


cdef inline int require_interval(int64_t every_s) except -1:
    if not 1 <= every_s <= <int64_t>1 << 53:
        raise ScheduleError("every_s", every_s, "is out of range", f"write a number from 1 to {2**53}")
    return 0


# A consumer that asks about job after job names few expressions, and their memos serve all of them.
compiled = lru_cache(maxsize=1024)(CompiledCron)


cdef class Plan:
    """A Schedule compiled for one job: asks for its instants without looking at the definition again.

    Without `job_id` nothing is hashed: a cron expression gives its base instants, an interval has phase 0.
    Raises ScheduleError where the expression or the zone is not good.
    """

    cdef Schedule_t schedule
    cdef CompiledCron cron      # keeps the group alive

    def __init__(self, schedule: Schedule, job_id: int | None = None):
        schedule_clear(&self.schedule)
        if job_id is not None:
            self.schedule.hash = xxh64_i64(job_id)
        self._set_rule(schedule, job_id)
        self._set_bounds(schedule)

    cdef _set_rule(self, schedule, job_id):
        if schedule.every_s is not None:
            self.schedule.kind = KIND_INTERVAL
            self.schedule.every = schedule.every_s
            self.schedule.phase = <int64_t>(self.schedule.hash % <uint64_t>self.schedule.every)
            if schedule.phase_s is not None:
                self.schedule.phase = <int64_t>schedule.phase_s % self.schedule.every
        elif schedule.cron is not None:
            self.cron = compiled(schedule.cron, schedule.tz)
            self.cron.require_id(job_id)
            self.schedule.outcome = group_outcome(self.cron.group, job_id or 0)
            self.schedule.kind = KIND_CRON
            self.schedule.cron = self.cron.group
        else:
            self.schedule.kind = KIND_ONCE
            self.schedule.run_at = schedule.run_at

    cdef _set_bounds(self, schedule):
        if schedule.jitter_s is not None:
            self.schedule.jitter = schedule.jitter_s
        if schedule.starts_at is not None:
            self.schedule.starts_at = schedule.starts_at
        if schedule.ends_at is not None:
            self.schedule.ends_at = schedule.ends_at
        if schedule.boost_every_s is not None:
            self.schedule.boost_every = schedule.boost_every_s
            self.schedule.boost_until = schedule.boost_until

    def next(self, int64_t after):
        """The smallest instant of the job > after, in epoch seconds; NEVER when there is none."""
        cdef int64_t due
        with nogil:
            due = schedule_next(&self.schedule, after)
        return due


def next_fires(schedule: Schedule, job_id: int | None, int64_t after, Py_ssize_t count):
    """The first `count` instants of the job after `after`, fewer where the schedule ends; epoch seconds.

    Needs neither Postgres nor NATS: a consumer can tell which runs it should have seen. Without `job_id` the
    base instants are given, see Plan. Raises ScheduleError where the expression or the zone is not good.
    """
    cdef Plan plan = Plan(schedule, job_id)
    cdef int64_t due = after
    fires = []
    while len(fires) < count:
        due = schedule_next(&plan.schedule, due)
        if due == INT64_MAX:
            break
        fires.append(due)
    return fires
