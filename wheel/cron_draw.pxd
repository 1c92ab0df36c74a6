"""What the `H` forms of an expression come to for one job: hashed from its id, the same everywhere and for ever.

    cdef uint64_t outcome = draw_outcome(&draws, 42)    # all draws of job 42 as one number, from 0 on
    draw_into(&draws, outcome, &rule)                   # their values join the rule's masks

Draw i takes the share of XXH64(id, seed field + 1) that spreading takes of the plain hash: floor(hash * n / 2**64)
out of its n outcomes. So each field draws apart from the others and from the spread.
"""

from libc.stdint cimport int64_t, uint64_t

from mainspring.wheel.cron_rule cimport CronRule, every_week, rule_tune
from mainspring.wheel.hash cimport spread_of_hash, xxh64_i64_seeded


cdef enum:
    DRAWS_MAX = 10          # 60 outcomes each, so that all of them together are a number of 64 bits
    FIELD_SECOND = 0
    FIELD_MINUTE = 1
    FIELD_HOUR = 2
    FIELD_DAY = 3
    FIELD_MONTH = 4
    FIELD_WEEKDAY = 5


# One value out of `outcomes` from `first` on, then every step-th up to `last`; step 0: that one alone.
ctypedef struct CronDraw:
    int field
    int first
    int last
    int step
    int outcomes


ctypedef struct CronDraws:
    int count
    CronDraw each[10]


cdef inline uint64_t draw_outcome(const CronDraws* draws, int64_t job_id) noexcept nogil:
    cdef uint64_t outcome = 0
    cdef uint64_t hash
    cdef int i
    for i in range(draws.count):
        hash = xxh64_i64_seeded(job_id, draws.each[i].field + 1)
        outcome = outcome * draws.each[i].outcomes + <uint64_t>spread_of_hash(hash, draws.each[i].outcomes)
    return outcome


cdef inline uint64_t drawn_values(const CronDraw* draw, int outcome) noexcept nogil:
    cdef int value = draw.first + outcome
    cdef uint64_t values = <uint64_t>1 << value
    while draw.step and value + draw.step <= draw.last:
        value += draw.step
        values |= <uint64_t>1 << value
    return values


cdef inline void draw_one(const CronDraw* draw, int outcome, CronRule* rule) noexcept nogil:
    cdef uint64_t values = drawn_values(draw, outcome)
    if draw.field == FIELD_SECOND:
        rule.seconds |= values
    elif draw.field == FIELD_MINUTE:
        rule.minutes |= values
    elif draw.field == FIELD_HOUR:
        rule.hours |= values
    elif draw.field == FIELD_DAY:
        rule.days |= values
    elif draw.field == FIELD_MONTH:
        rule.months |= values
    else:
        rule.weekdays |= every_week((values | values >> 7) & 0x7F)      # 7 is Sunday as well


cdef inline void draw_into(const CronDraws* draws, uint64_t outcome, CronRule* rule) noexcept nogil:
    cdef int i = draws.count - 1
    while i >= 0:
        draw_one(&draws.each[i], <int>(outcome % draws.each[i].outcomes), rule)
        outcome //= draws.each[i].outcomes
        i -= 1
    rule_tune(rule)
