"""The histogram of lock holds. holds.pxd says what it promises."""

from libc.stdint cimport uint64_t
from libc.string cimport memset
from posix.time cimport CLOCK_THREAD_CPUTIME_ID, clock_gettime, timespec


cdef uint64_t hold_now() noexcept nogil:
    cdef timespec spent
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent)
    return <uint64_t>spent.tv_sec * 1_000_000_000 + <uint64_t>spent.tv_nsec


cdef void holds_clear(Holds* holds) noexcept nogil:
    memset(holds, 0, sizeof(Holds))


cdef uint64_t holds_count(const Holds* holds) noexcept nogil:
    cdef uint64_t total = 0
    cdef int step
    for step in range(HOLD_STEPS):
        total += holds.counts[step]
    return total


# The longest hold that falls on a step.
cdef uint64_t longest_of(int step) noexcept nogil:
    cdef int octave = (step >> STEP_BITS) - 1
    if octave < 0:
        return <uint64_t>step
    return ((<uint64_t>(step & (STEPS - 1)) + STEPS + 1) << octave) - 1


cdef uint64_t holds_within(const Holds* holds, uint64_t part, uint64_t whole) noexcept nogil:
    cdef uint64_t wanted = (holds_count(holds) * part + whole - 1) // whole
    cdef uint64_t passed = 0
    cdef int step
    if wanted == 0:
        return 0
    for step in range(HOLD_STEPS):
        passed += holds.counts[step]
        if passed >= wanted:
            return longest_of(step)
    return longest_of(HOLD_STEPS - 1)
