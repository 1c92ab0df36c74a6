"""A cron rule evaluated, from the small to the large: a day's clock, a month's days, wall time, the zone."""

from libc.stdint cimport INT64_MAX, int64_t, uint32_t, uint64_t

from mainspring.wheel.months cimport CYCLE_DAYS, Month, days_in, floor_div, month_advance, month_of


cdef enum:
    SUNDAY = 0
    SATURDAY = 6
    DAY_S = 86_400
    MONTHS_SEARCHED_MAX = 4_824     # one cycle and two years; every date that exists has come by then
    LOOKBACKS_MAX = 12              # 60 s, then eight times as far: twelve reach back 16,000 years
    LOOKBACK_STEPS_MAX = 16
    LEAP_YEAR = 2000                # and the one after it is not


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


# Days are bits 1-31. The k-th seven days of a month hold each weekday once, and it is the k-th there: turned so
# that bit 0 is the weekday of the first, the five weeks of the rule are the days themselves.
cdef inline uint64_t days_by_weekday(const CronRule* rule, const Month* m) noexcept nogil:
    cdef uint64_t staying = every_week(0x7F >> m.weekday)
    cdef uint64_t turned = rule.weekdays >> m.weekday & staying
    turned |= rule.weekdays << (7 - m.weekday) & (every_week(0x7F) & ~staying)
    return turned << 1


# The last seven days hold each weekday once as well.
cdef inline uint64_t days_by_last_weekday(const CronRule* rule, const Month* m) noexcept nogil:
    cdef int first = m.days - 6
    cdef uint64_t week = rule.last_weekdays | rule.last_weekdays << 7
    return (week >> ((m.weekday + first - 1) % 7) & 0x7F) << first


cdef uint64_t days_from_end(const CronRule* rule, const Month* m) noexcept nogil:
    cdef uint64_t days = 0
    cdef uint64_t left = rule.from_end & ((<uint64_t>1 << m.days) - 1)
    while left:
        days |= <uint64_t>1 << (m.days - lowest_bit(left))
        left &= left - 1
    return days


# The Monday to Friday nearest to a day, but never in another month.
cdef inline int workday_near(int day, const Month* m) noexcept nogil:
    cdef int weekday = (m.weekday + day - 1) % 7
    if weekday == SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == SUNDAY:
        return day + 1 if day < m.days else day - 2
    return day


cdef uint64_t days_by_workday(const CronRule* rule, const Month* m) noexcept nogil:
    cdef uint64_t days = 0
    cdef uint64_t left = rule.workdays & ((<uint64_t>2 << m.days) - 1)
    while left:
        days |= <uint64_t>1 << workday_near(lowest_bit(left), m)
        left &= left - 1
    if rule.last_workday:
        days |= <uint64_t>1 << workday_near(m.days, m)
    return days


# The matching days of a month. Every form of the two day fields ends here.
cdef uint32_t month_days(const CronRule* rule, const Month* m) noexcept nogil:
    if not rule.months >> m.month & 1:
        return 0
    cdef uint64_t real = (<uint64_t>2 << m.days) - 2
    cdef uint64_t by_day = rule.days
    cdef uint64_t by_weekday = days_by_weekday(rule, m)
    if rule.last_weekdays:
        by_weekday |= days_by_last_weekday(rule, m)
    if rule.from_end:
        by_day |= days_from_end(rule, m)
    if rule.workdays or rule.last_workday:
        by_day |= days_by_workday(rule, m)
    return <uint32_t>((by_day & by_weekday if rule.both_days else by_day | by_weekday) & real)


# -------------------------------------------------------------------------------------- for the parser


cdef int set_rule(CronRule* rule, object spec) except -1:
    rule.seconds = spec.seconds
    rule.minutes = spec.minutes
    rule.hours = spec.hours
    rule.days = spec.days
    rule.months = spec.months
    rule.weekdays = every_week(spec.weekdays) | <uint64_t>spec.nth_weekdays
    rule.last_weekdays = spec.last_weekdays
    rule.workdays = spec.workdays
    rule.from_end = spec.from_end
    rule.last_workday = spec.last_workday
    rule.both_days = spec.both_days
    rule.every_real_minute = spec.every_real_minute
    return 0


cdef void rule_tune(CronRule* rule) noexcept nogil:
    rule.first_clock = (
        lowest_bit(rule.hours) * 3600 + lowest_bit(rule.minutes) * 60 + lowest_bit(rule.seconds)
    )


# Every month, leap or not, begins on every weekday at some time in 400 years: these kinds of month are all.
cdef bint month_occurs(const CronRule* rule, int month) noexcept nogil:
    cdef Month m
    cdef int leap
    m.month = month
    for leap in range(2):
        m.days = days_in(LEAP_YEAR + leap, month)
        for m.weekday in range(7):
            if month_days(rule, &m):
                return True
    return False


def occurring_months(spec, uint32_t days, uint64_t weekdays):
    """In which months any day of 400 years matches the date fields of a CronSpec: bit m for month m.

    `days` and `weekdays` stand in for its own; its months are those asked about, its draws are left out.
    """
    cdef CronRule rule
    cdef uint32_t months = 0
    cdef int month
    set_rule(&rule, spec)
    rule.days = days
    rule.weekdays = every_week(weekdays) | <uint64_t>spec.nth_weekdays
    for month in range(1, 13):
        months |= <uint32_t>month_occurs(&rule, month) << month
    return months


def matching_days(spec, int64_t year, int month):
    """The days of a month that match the date fields of a CronSpec: bit d for day d; draws are left out."""
    cdef CronRule rule
    cdef Month m = month_of(first_day_of(year, month))
    set_rule(&rule, spec)
    return month_days(&rule, &m)


# Days since 1970-01-01; the month is found from a day that lies in it for certain.
cdef int64_t first_day_of(int64_t year, int month) noexcept nogil:
    cdef Month m = month_of(floor_div((year - 1970) * CYCLE_DAYS, 400) + (month - 1) * 30 + 3)
    while m.year < year or (m.year == year and m.month < month):
        month_advance(&m)
    return m.first_day


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


# The greatest base instant <= at, given one that is: step by step while they are few, then by halving. Whether
# one lies in (x, at] falls from yes (low) to no (high) once as x grows.
cdef int64_t last_since(const CronRule* rule, int64_t base, int64_t at) noexcept nogil:
    cdef int64_t low = base - 1
    cdef int64_t high = at
    cdef int64_t middle
    cdef int steps = 0
    while high - low > 1:
        steps += 1
        middle = low + 1 if steps <= LOOKBACK_STEPS_MAX else low + (high - low) // 2
        base = cron_next(rule, middle)
        if base <= at:
            low = base - 1
        else:
            high = middle
    return high


# Greatest base instant <= at: gallop back until there is one. Only a memo that starts afresh pays for this.
cdef int64_t cron_last(const CronRule* rule, int64_t at) noexcept nogil:
    cdef int64_t back = 60
    cdef int64_t base = at
    cdef int turn
    for turn in range(LOOKBACKS_MAX):
        base = cron_next(rule, at - back)
        if base <= at:
            return last_since(rule, base, at)
        back *= 8
    return at - back
