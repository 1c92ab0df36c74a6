"""Moving the jobs of an hour from their far list to the slots, just before the hour's first second.

    with the shard's lock held, before the shard begins the second:
        code = promote(shard, second)       # WHOLE, MORE: call again, the lock may be let go; or NO_MEMORY

Nearly every second has nothing to move. A call moves a piece at most, and what it cannot move for want of
memory stays where it is.
"""

from libc.stdint cimport int64_t

from mainspring.wheel.shard cimport Shard


cdef int promote(Shard* shard, int64_t second) noexcept nogil
