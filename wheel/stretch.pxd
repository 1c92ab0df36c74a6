"""How many instants of a schedule lie in a stretch of time, without going from one to the next.

    tallies_open(&tallies, begun, last)
    stretch = stretch_of(&tallies, &schedule, first)    # first: the schedule's next instant after `begun`
    tallies_close(&tallies)

A grid is counted by a division. The base instants of a cron expression are walked once for all of its jobs (once
for each outcome of its `H`), and kept as a *tally*; a job's own are as many, give or take one at either end. Only
a cron job whose window or boost begins or ends within the stretch is walked by itself, as is every one whose
tally finds no memory.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from mainspring.wheel.cron_eval cimport CronGroup
from mainspring.wheel.schedule cimport Schedule_t


# In (begun, last]. newest: the last of them, and older the one before it, where there are so many;
# following: the schedule's next one.
ctypedef struct Stretch:
    uint64_t count
    int64_t older
    int64_t newest
    int64_t following


ctypedef struct Tally:
    CronGroup* group        # NULL: empty place
    uint64_t outcome
    uint64_t count          # base instants in (begun, last]
    int64_t first           # the first base instant after `begun`
    int64_t around[5]       # in a row: the third is the newest one up to `last`


ctypedef struct Tallies:
    int64_t begun
    int64_t last
    Tally* places
    uint32_t size           # a power of two, or 0
    uint32_t used


cdef void tallies_open(Tallies* tallies, int64_t begun, int64_t last) noexcept nogil
cdef void tallies_close(Tallies* tallies) noexcept nogil
cdef Stretch stretch_of(Tallies* tallies, const Schedule_t* schedule, int64_t first) noexcept nogil
