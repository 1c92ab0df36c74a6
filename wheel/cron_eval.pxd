"""Cron in C: from a moment to the base instants around it, without the GIL and in bounded time.

A rule is bit masks over a zone's table of UTC offsets. A group is one rule with a memo, shared by all
jobs of one expression in one zone: while a million of them fire, it is evaluated once a fire.

    cdef CompiledCron cron = CompiledCron("30 2 * * *", "Europe/Berlin")   # GIL held, may raise
    with nogil:
        due = group_next(cron.group, now)                                   # any thread

"Base instant" is what the expression names; jobs are spread after it (schedule.pxd).
"""

from libc.stdint cimport int64_t, uint64_t

from mainspring.wheel.cron_rule cimport CronRule


cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass


# The base instants around a moment: floor <= after < first < second.
ctypedef struct Bracket:
    int64_t floor
    int64_t first
    int64_t second


ctypedef struct CronGroup:
    uint64_t version        # seqlock: odd while `around` is being written
    int64_t around[4]       # four base instants in a row, so that both sides of the newest one are at hand
    uint64_t evaluations    # how often the rule was evaluated, for tests and metrics
    CronRule rule
    pthread_mutex_t mutex   # held by the one thread that evaluates after a miss


# The base instants around a moment, through the memo.
cdef Bracket group_bracket(CronGroup* group, int64_t after) noexcept nogil
cdef int64_t group_next(CronGroup* group, int64_t after) noexcept nogil


# Owns a group, which never moves and lives as long as this object does.
cdef class CompiledCron:
    cdef CronGroup* group
    cdef readonly str expression
    cdef readonly str tz
    cdef object zone
