"""How long the shards' locks are held, in CPU time of the holder.

    shard.holds = &core.holds                           # shard.pxd then notes each hold; NULL: it does not
    hold_note(&holds, nanoseconds)
    holds_within(&holds, 999, 1000)                     # 99.9 % of all holds were no longer; 0 without any

CPU time, since a holder that the kernel takes off its core says nothing about the code. The histogram is
log-linear: 32 steps to an octave, so what it tells is at most a thirty-second too much.
"""

from libc.stdint cimport uint64_t


cdef enum:
    STEP_BITS = 5
    STEPS = 32              # to an octave
    HOLD_BITS = 36          # holds of a minute and more are counted as one of a minute
    HOLD_STEPS = 1024       # (HOLD_BITS - STEP_BITS + 1) octaves of them


cdef extern from *:
    """
    #define ms_count_up(p) __atomic_fetch_add((p), 1, __ATOMIC_RELAXED)
    """
    void count_up "ms_count_up"(uint64_t* counter) noexcept nogil
    int leading_zeros "__builtin_clzll"(unsigned long long value) noexcept nogil


ctypedef struct Holds:
    uint64_t counts[1024]


cdef inline int step_of(uint64_t nanoseconds) noexcept nogil:
    cdef uint64_t held = min(nanoseconds, (<uint64_t>1 << HOLD_BITS) - 1)
    cdef int octave
    if held < STEPS:
        return <int>held
    octave = 63 - leading_zeros(held) - STEP_BITS
    return <int>((octave << STEP_BITS) + (held >> octave))


cdef inline void hold_note(Holds* holds, uint64_t nanoseconds) noexcept nogil:
    count_up(&holds.counts[step_of(nanoseconds)])


cdef uint64_t hold_now() noexcept nogil                 # CPU time of this thread in nanoseconds
cdef void holds_clear(Holds* holds) noexcept nogil
cdef uint64_t holds_count(const Holds* holds) noexcept nogil

# Nanoseconds within which `part` of each `whole` holds ended.
cdef uint64_t holds_within(const Holds* holds, uint64_t part, uint64_t whole) noexcept nogil
