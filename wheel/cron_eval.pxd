"""Cron in C: from a moment to the base instants around it, without the GIL and in bounded time.

A rule is bit masks over a zone's table of UTC offsets. A group is one rule with a memo, shared by all
jobs of one expression in one zone: while a million of them fire, it is evaluated once a fire.

    cdef CompiledCron cron = CompiledCron("30 2 * * *", "Europe/Berlin")   # GIL held, may raise
    with nogil:
        due = group_next(cron.group, 0, now)                                # any thread

Where the expression has an `H`, a job has one of many rules, told apart by what it draws:

        due = group_next(cron.group, group_outcome(cron.group, job_id), now)

Each outcome has a memo of its own in a table that all groups of the process share. The table has a fixed size,
so it costs no memory a job and nothing has to be given back: where outcomes crowd each other out, a fire
costs an evaluation again.

"Base instant" is what the expression names; jobs are spread after it (schedule.pxd).
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

from mainspring.wheel.cron_draw cimport CronDraws, draw_outcome
from mainspring.wheel.cron_rule cimport CronRule
from mainspring.wheel.pthread cimport pthread_mutex_t


# The base instants around a moment: floor <= after < first < second.
ctypedef struct Bracket:
    int64_t floor
    int64_t first
    int64_t second


# One cache line, and all of a group that a fire reads while the memo covers it. In the shared table `group` and
# `outcome` say whose instants they are, and the last two are nobody's.
ctypedef struct Memo:
    uint64_t version        # seqlock: odd while the rest is being written
    uint64_t group
    uint64_t outcome
    int64_t around[4]       # four base instants in a row, so that both sides of the newest one are at hand
    int32_t window_s        # of the group: spread when the job names none
    int32_t draws           # of the group: how many H it has


ctypedef struct CronGroup:
    Memo memo               # of a group without draws
    uint64_t evaluations    # how often the rule was evaluated, for tests and metrics
    CronRule rule           # what all its jobs have in common
    CronDraws draws
    pthread_mutex_t mutex   # held by the one thread that evaluates after a miss of `memo`
    void* room              # what was allocated: the group begins at a cache line within


# The base instants around a moment, through the memo. `outcome` is 0 for a group without draws.
cdef Bracket group_bracket(CronGroup* group, uint64_t outcome, int64_t after) noexcept nogil
cdef int64_t group_next(CronGroup* group, uint64_t outcome, int64_t after) noexcept nogil


# What a job draws, as one number.
cdef inline uint64_t group_outcome(const CronGroup* group, int64_t job_id) noexcept nogil:
    return draw_outcome(&group.draws, job_id) if group.memo.draws else 0


# Owns a group, which never moves and lives as long as this object does.
cdef class CompiledCron:
    cdef CronGroup* group
    cdef readonly str expression
    cdef readonly str tz
    cdef readonly object spec
    cdef object zone        # whose table the group's rule points into
    cdef uint64_t _outcome_of(self, job_id) except? 0
    cdef CronRule _rule_of(self, job_id) except *
