"""The tick thread: every second is drained as it begins, whatever Python does meanwhile.

    ticking_open(&t, &core, &clock, ring, 32)
    thread_start(&thread, &t)                           # it enters no Python and never waits for the GIL
    with t.lock held:
        buffer = ring[t.taken % t.size]                 # while t.taken < t.filled
        t.taken += 1
        ... read it, empty it, then t.given += 1        # in the same order

The thread drains into a ring of buffers, each of one second, and rings a bell (an eventfd) for every one that it
has filled. It waits for whatever `obstacle` names: the next second's edge, a free buffer, the gate, the permit to drain
a second that is late, or, when the wall clock has stepped against the time since boot, somebody who trusts it again.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from mainspring.wheel.core cimport Core
from mainspring.wheel.frames cimport Output
from mainspring.wheel.pthread cimport pthread_cond_t, pthread_mutex_t


cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_t:
        pass


cdef enum:
    SECOND_NS = 1000000000
    STEP_S = 5              # a clock that is off by more has stepped
    MEMORY_TRIES = 5        # in a row, then the thread gives up


cdef enum:
    NOTHING = 0             # it works, or will as soon as it is awake
    CLOCK = 1
    PERMIT = 2
    ROOM = 3
    MEMORY = 4              # none was left: it tries again after a pause
    GATE = 5
    STEP = 6


# The machine's, or one that a test moves: then these hold, in nanoseconds.
ctypedef struct Clock:
    bint by_hand
    int64_t at              # since the epoch
    int64_t offset


# One look at a clock, in nanoseconds. What was judged by it is done by it, whatever the clock does meanwhile.
ctypedef struct Reading:
    int64_t wall            # since the epoch
    int64_t offset          # wall time less the time since boot, in which a suspended machine ages as well


ctypedef struct Buffer:
    Output* output
    int64_t mark            # as it stood when the second's draining began
    bint whole              # the last of its second; the two below are of that alone
    int64_t took_ns
    int64_t late_ns         # after the second's edge


ctypedef struct Ticking:
    Core* core
    const Clock* clock
    Buffer** ring
    uint32_t size
    pthread_mutex_t lock    # of all that follows
    pthread_cond_t changed
    int bell
    uint64_t filled         # buffers so far; the next one is ring[filled % size]
    uint64_t taken
    uint64_t given          # back, to be filled again
    int64_t second          # the next to drain, or the one that is being drained
    bint amid               # a second: what follows holds until it is whole
    int64_t now             # at which its beginning was found right
    int64_t began_ns
    int64_t mark_then
    int64_t mark
    int64_t late_after      # seconds; from this lateness on a second needs a permit
    int64_t stalled_until   # and so does each up to this one: it was owed when that permit was asked for
    int64_t permitted       # up to this second
    int64_t gate            # the last second that may be drained at all
    int64_t trusted         # the offset that is right; it follows the clock, but no step
    int waits_for
    int64_t retry_ns
    uint32_t refusals       # of memory, one after the other
    uint64_t refused        # in all
    int failure             # NO_MEMORY or WRONG_SECOND: it has given up
    bint stopping
    bint ended


cdef Reading look(const Clock* clock) noexcept nogil
cdef void set_by_hand(Clock* clock, int64_t at_ns, int64_t offset_ns) noexcept nogil

cdef int ticking_open(
    Ticking* t, Core* core, const Clock* clock, Buffer** ring, uint32_t size,
) noexcept nogil                                        # -1: no eventfd left, errno says why
cdef void ticking_close(Ticking* t) noexcept nogil      # after the thread has ended, if it was started

cdef int thread_start(pthread_t* thread, Ticking* t) noexcept nogil     # an errno, or 0
cdef void thread_join(pthread_t thread, Ticking* t) noexcept nogil      # and no more bell

# What the next piece of work waits for, the lock held. A wait for something that was changed has to be woken.
cdef int obstacle(const Ticking* t, const Reading* seen) noexcept nogil
cdef void unlock_and_wake(Ticking* t) noexcept nogil
