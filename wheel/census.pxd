"""Which jobs a shard holds.

    count = census(shard, ids, room)                    # more than room: nothing is written, ask again with more
"""

from libc.stdint cimport int64_t, uint64_t

from mainspring.wheel.shard cimport Shard


# The ids of all jobs of one moment, in no order; takes the shard's lock. Gives how many jobs there are.
cdef uint64_t census(Shard* shard, int64_t* ids, uint64_t room) noexcept nogil
