"""Passing over a stretch of seconds that owe next to nothing, in one step: counted, and the lists made anew.

    code = leap_all(&core, last, now)       # DONE; WRONG_SECOND; NO_MEMORY: repeat it before anything is drained

What all the seconds up to `last` would give if they were drained now is what the next second drained gives before
its own: the skipped runs by reason, and the few that are owed still (one of a job with a long gap, a one-shot) in
arrears, each under its own instant. `last` lies beyond the catch-up window, so that of all runs of a job but the
newest the policy alone says why they are skipped.
"""

from libc.stdint cimport int64_t

from mainspring.wheel.core cimport Core
from mainspring.wheel.stretch cimport Tallies


ctypedef struct Leap:
    int64_t now
    int64_t window          # seconds, of catch-up
    Tallies* tallies        # from the shard's `begun` to the second to leap to


# Shard after shard, each under its lock.
cdef int leap_all(Core* core, int64_t last, int64_t now) noexcept nogil
