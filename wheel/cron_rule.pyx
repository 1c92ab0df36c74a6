"""A cron rule evaluated, from the small to the large: a day's clock, a month's days, wall time, the zone."""

from libc.stdint cimport INT64_MAX, int64_t, uint32_t, uint64_t

from mainspring.wheel.months cimport CYCLE_DAYS, Month, floor_div, month_advance, month_of


cdef enum:
    DAY_S = 86_400
    MONTHS_SEARCHED_MAX = 4_824     # one cycle and two years; every date that exists has come by then
    LOOKBACK_DOUBLINGS_MAX = 34


# ------------------------------------------------------------------------------------- a day's clock


# First matching second of the day that is >= `second_of_day`, -1 when the day has no more. From the large to
# the small: only while hour and minute are the asked ones does the next smaller unit matter.
cdef int64_t clock_from(const CronRule* rule, int64_t second_of_day) noexcept nogil:
    cdef int hour = <int>(second_of_day // 3600)
    cdef int minute = <int>(second_of_day // 60 % 60)
    cdef int found
    if rule.hours >> hour & 1:
        if rule.minutes >> minute & 1:
            found = bit_from(rule.seconds, <int>(second_of_day % 60))
            if found >= 0:
                return hour * 3600 + minute * 60 + found
        found = bit_from(rule.minutes, minute + 1)
        if found >= 0:
            return hour * 3600 + found * 60 + lowest_bit(rule.seconds)
    found = bit_from(rule.hours, hour + 1)
    # first_clock names the first minute and second of any matching hour as well.
    return found * 3600 + rule.first_clock % 3600 if found >= 0 else -1


# ------------------------------------------------------------------------------------- a month's days


# The matching days of a month, bits 1-31. Every form of the two day fields ends here.
cdef uint32_t month_days(const CronRule* rule, const Month* m) noexcept nogil:
    if not rule.months >> m.month & 1:
        return 0
    cdef uint32_t real = <uint32_t>((<uint64_t>2 << m.days) - 2)
    # Turn the week so that bit 0 is the weekday of the first, then lay five weeks end to end.
    cdef uint64_t week = rule.weekdays | rule.weekdays << 7
    cdef uint64_t turned = week >> m.weekday & 0x7F
    cdef uint64_t weeks = turned | turned << 7 | turned << 14 | turned << 21 | turned << 28
    cdef uint32_t by_weekday = <uint32_t>(weeks << 1)
    if rule.both_days:
        return rule.days & by_weekday & real
    return (rule.days | by_weekday) & real


# ------------------------------------------------------------------------------------------- wall time


# Smallest matching wall time >= `wall`, counted in seconds as if the wall showed UTC. The parser has refused
# dates that never occur, so the bound on the months is a belt beside the braces.
cdef int64_t wall_from(const CronRule* rule, int64_t wall) noexcept nogil:
    cdef int64_t day = floor_div(wall, DAY_S)
    cdef Month m = month_of(day)
    cdef int today = <int>(day - m.first_day) + 1
    cdef uint64_t days = month_days(rule, &m)
    cdef int64_t clock
    cdef int found, searched
    if days >> today & 1:
        clock = clock_from(rule, wall - day * DAY_S)
        if clock >= 0:
            return day * DAY_S + clock
    found = bit_from(days, today + 1)
    for searched in range(MONTHS_SEARCHED_MAX):
        if found >= 0:
            return (m.first_day + found - 1) * DAY_S + rule.first_clock
        month_advance(&m)
        found = bit_from(month_days(rule, &m), 1)
    return INT64_MAX


# -------------------------------------------------------------------------------------------- the zone


# Index of the stretch that holds an instant, by halving: a table has up to a thousand of them.
cdef int64_t stretch_at(const ZoneTable* zone, int64_t instant) noexcept nogil:
    cdef int64_t low = 0
    cdef int64_t high = zone.stretches
    cdef int64_t middle
    while high - low > 1:
        middle = (low + high) // 2
        if zone.starts[middle] <= instant:
            low = middle
        else:
            high = middle
    return low


# Whether a wall time is shown (or was already due) before stretch i ends.
cdef inline bint ends_after_wall(const ZoneTable* zone, int64_t i, int64_t wall) noexcept nogil:
    return i + 1 == zone.stretches or wall < zone.starts[i + 1] + zone.offsets[i]


# A fixed time: each wall time comes once. A repeated one counts at its first showing, hence the search
# starts past what earlier stretches have shown; a skipped one counts when the clock has jumped over it.
# So one search of the calendar is enough: the first stretch that ends after the wall time shows it, or has
# jumped over it on its way in.
cdef int64_t fixed_next(const CronRule* rule, int64_t after) noexcept nogil:
    cdef const ZoneTable* zone = &rule.zone
    cdef int64_t i = stretch_at(zone, after)
    cdef int64_t wall = wall_from(rule, max(after + 1 + zone.offsets[i], zone.reached[i]))
    if wall == INT64_MAX:
        return INT64_MAX
    while not ends_after_wall(zone, i, wall):
        i += 1
    return max(wall - zone.offsets[i], zone.starts[i])


# A wildcard: every real minute whose wall time matches. Each stretch is searched as if it were alone.
cdef int64_t real_minute_next(const CronRule* rule, int64_t after) noexcept nogil:
    cdef const ZoneTable* zone = &rule.zone
    cdef int64_t i = stretch_at(zone, after)
    cdef int64_t since = after + 1 + zone.offsets[i]
    cdef int64_t wall = wall_from(rule, since)
    cdef int64_t entered
    while wall != INT64_MAX and not ends_after_wall(zone, i, wall):
        i += 1
        entered = zone.starts[i] + zone.offsets[i]
        # The match stands unless this stretch begins past it, or shows wall times from before the search.
        if entered < since or entered > wall:
            wall = wall_from(rule, entered)
        since = entered
    return wall if wall == INT64_MAX else wall - zone.offsets[i]


cdef int64_t cron_next(const CronRule* rule, int64_t after) noexcept nogil:
    cdef int64_t cycle_s = <int64_t>CYCLE_DAYS * DAY_S
    cdef int64_t cycles = 0
    cdef int64_t due
    if after >= <int64_t>1 << EDGE_BITS:
        return INT64_MAX
    if after < -(<int64_t>1 << EDGE_BITS):
        after = -(<int64_t>1 << EDGE_BITS)
    # Past the written-out part of the table, calendar and zone rules both repeat: compute one cycle nearer.
    if after > rule.zone.cycle_from:
        cycles = (after - rule.zone.cycle_from) // cycle_s
        after -= cycles * cycle_s
    due = real_minute_next(rule, after) if rule.every_real_minute else fixed_next(rule, after)
    return due if due == INT64_MAX else due + cycles * cycle_s


# Greatest base instant <= at. Whether one lies in (x, at] falls from yes to no once as x grows: gallop back
# until yes, then halve. Only a memo that starts afresh pays for this.
cdef int64_t cron_last(const CronRule* rule, int64_t at) noexcept nogil:
    cdef int64_t back = 60
    cdef int64_t yes, no, middle
    cdef int doublings
    for doublings in range(LOOKBACK_DOUBLINGS_MAX):
        if cron_next(rule, at - back) <= at:
            break
        back *= 2
    yes = at - back
    no = at
    while no - yes > 1:
        middle = yes + (no - yes) // 2
        if cron_next(rule, middle) <= at:
            yes = middle
        else:
            no = middle
    return no
