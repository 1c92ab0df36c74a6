"""Counting instants in a stretch of time. stretch.pxd says what it promises."""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint32_t, uint64_t
from libc.string cimport memset

from mainspring.wheel.cron_eval cimport Bracket, CronGroup, group_bracket
from mainspring.wheel.hash cimport xxh64_i64
from mainspring.wheel.memory cimport memory_give, memory_take
from mainspring.wheel.schedule cimport (
    KIND_CRON, KIND_INTERVAL, Schedule_t, grid_next, schedule_next, spread_base,
)


cdef enum:
    PLACES_AT_FIRST = 64


cdef void tallies_open(Tallies* tallies, int64_t begun, int64_t last) noexcept nogil:
    memset(tallies, 0, sizeof(Tallies))
    tallies.begun, tallies.last = begun, last


cdef void tallies_close(Tallies* tallies) noexcept nogil:
    memory_give(tallies.places)
    memset(tallies, 0, sizeof(Tallies))


# -------------------------------------------------------------------------------------------- tallies


# All jobs of the group and outcome share one walk.
cdef void tally_up(Tally* tally, int64_t begun, int64_t last) noexcept nogil:
    cdef Bracket near = group_bracket(tally.group, tally.outcome, begun)
    cdef int64_t* around = tally.around
    tally.count, tally.first = 0, near.first
    around[0] = around[1] = around[2] = near.floor
    while near.first <= last:
        tally.count += 1
        around[0], around[1], around[2] = around[1], around[2], near.first
        near = group_bracket(tally.group, tally.outcome, near.first)
    around[3], around[4] = near.first, near.second


cdef Tally* place_of(const Tallies* tallies, const CronGroup* group, uint64_t outcome) noexcept nogil:
    cdef uint32_t place = <uint32_t>xxh64_i64(<int64_t>(<uint64_t>group + outcome)) & (tallies.size - 1)
    cdef Tally* tally = &tallies.places[place]
    while tally.group != NULL and (tally.group != group or tally.outcome != outcome):
        place = (place + 1) & (tallies.size - 1)
        tally = &tallies.places[place]
    return tally


cdef bint widen(Tallies* tallies) noexcept nogil:
    cdef Tallies wider = tallies[0]
    cdef uint32_t i
    wider.size = tallies.size * 2 if tallies.size else PLACES_AT_FIRST
    wider.places = <Tally*>memory_take(wider.size * sizeof(Tally))
    if wider.places == NULL:
        return False
    memset(wider.places, 0, wider.size * sizeof(Tally))
    for i in range(tallies.size):
        if tallies.places[i].group != NULL:
            place_of(&wider, tallies.places[i].group, tallies.places[i].outcome)[0] = tallies.places[i]
    memory_give(tallies.places)
    tallies[0] = wider
    return True


# NULL where there is no memory for one.
cdef const Tally* tally_of(Tallies* tallies, CronGroup* group, uint64_t outcome) noexcept nogil:
    cdef Tally* tally
    if tallies.used * 2 >= tallies.size and not widen(tallies):
        return NULL
    tally = place_of(tallies, group, outcome)
    if tally.group == NULL:
        tally.group, tally.outcome = group, outcome
        tallies.used += 1
        tally_up(tally, tallies.begun, tallies.last)
    return tally


# ------------------------------------------------------------------------------------------ stretches


cdef Stretch walked(const Tallies* tallies, const Schedule_t* schedule, int64_t first) noexcept nogil:
    cdef Stretch found
    found.count, found.older, found.newest, found.following = 0, INT64_MIN, INT64_MIN, first
    while found.following <= tallies.last:
        found.count += 1
        found.older, found.newest = found.newest, found.following
        found.following = schedule_next(schedule, found.newest)
    return found


cdef inline void add_grid(
    Stretch* found, int64_t every, int64_t phase, int64_t since, int64_t until,
) noexcept nogil:
    cdef int64_t first = grid_next(every, phase, since - 1)
    cdef uint64_t count
    if first <= until:
        count = <uint64_t>((until - first) // every) + 1
        found.count += count
        found.older = found.newest if count == 1 else first + <int64_t>(count - 2) * every
        found.newest = first + <int64_t>(count - 1) * every


# On the grid of the boost up to its end, on its own from there.
cdef Stretch grids(const Tallies* tallies, const Schedule_t* schedule, int64_t first) noexcept nogil:
    cdef int64_t until = min(tallies.last, schedule.ends_at - 1)
    cdef int64_t since = first
    cdef Stretch found
    found.count, found.older, found.newest = 0, INT64_MIN, INT64_MIN
    if schedule.boost_every > 0 and first < schedule.boost_until:
        since = schedule.boost_until
        add_grid(
            &found, schedule.boost_every, <int64_t>(schedule.hash % <uint64_t>schedule.boost_every), first,
            min(until, since - 1),
        )
    add_grid(&found, schedule.every, schedule.phase, since, until)
    found.following = schedule_next(schedule, found.newest) if found.count else first
    return found


# Whether only the expression decides from `begun` up to the job's first instant after `last`.
cdef inline bint is_bare(const Tallies* tallies, const Schedule_t* schedule) noexcept nogil:
    return (
        schedule.starts_at <= tallies.begun + 1 and schedule.ends_at > tallies.last
        and (schedule.boost_every == 0 or schedule.boost_until <= tallies.begun + 1)
    )


# A base instant's run comes before the next base instant: so only the ends need a look.
cdef Stretch tallied(const Tally* tally, const Schedule_t* schedule, int64_t first, int64_t last) noexcept nogil:
    cdef const int64_t* at = &tally.around[2]
    cdef Stretch found
    found.count = tally.count + (first < tally.first)
    if spread_base(schedule, at[0], at[1]) > last:
        found.count -= 1
        at -= 1
    found.newest, found.following = spread_base(schedule, at[0], at[1]), spread_base(schedule, at[1], at[2])
    found.older = spread_base(schedule, at[-1], at[0]) if found.count > 1 else <int64_t>INT64_MIN
    if found.following >= schedule.ends_at:
        found.following = INT64_MAX
    return found


cdef Stretch stretch_of(Tallies* tallies, const Schedule_t* schedule, int64_t first) noexcept nogil:
    cdef const Tally* tally = NULL
    if first <= tallies.last and schedule.kind == KIND_INTERVAL:
        return grids(tallies, schedule, first)
    if first <= tallies.last and schedule.kind == KIND_CRON and is_bare(tallies, schedule):
        tally = tally_of(tallies, schedule.cron, schedule.outcome)
    if tally == NULL:
        return walked(tallies, schedule, first)
    return tallied(tally, schedule, first, tallies.last)
