"""What is known of many jobs: the instants they are armed for, or whether they are there at all.

    question.ids, question.count = ids, count
    question.dues, question.known = dues, NULL          # either or both
    code = look_up(&question, shards)                   # NO_MEMORY: nothing is answered

Each answer is true of one moment at which its job's shard was locked. No two need be of the same moment.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from mainspring.wheel.records cimport LAST_NEXT, Record
from mainspring.wheel.shard cimport NEVER, Shard, due_of, owed


ctypedef struct Question:
    const int64_t* ids
    uint64_t count
    int64_t* dues           # NULL, or one for each id: NEVER for a job that is unknown or not armed
    uint8_t* known          # NULL, or one for each id: 0 or 1


cdef int look_up(const Question* question, Shard* shards) noexcept nogil


# Beyond 136 years the entry stands at the end of time, and the schedule knows better.
cdef inline int64_t armed_instant(const Shard* shard, const Record* record) noexcept nogil:
    if record.next == 0:
        return NEVER
    return owed(shard, record) if record.next == LAST_NEXT else due_of(shard, record)
