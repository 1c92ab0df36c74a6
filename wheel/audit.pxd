"""The proof that a shard is right, and the cure where it is not.

    with the shard's lock held:
        code = audit(shard, heal, found)        # found[FAULT_...] counts; NO_MEMORY: not all is healed

Right means: every entry of every list is a live record's only entry, at the place the record names, in the
list its instant names; every record is armed for exactly the instant its definition owes, or for none;
the index finds it; and the counters say what is there. Each fault is counted once, under one name.
"""

from libc.stdint cimport uint64_t

from mainspring.wheel.shard cimport Shard


cdef enum:
    FAULT_DROPPED = 0       # owed a run, or thinks it is armed, and stands in no list
    FAULT_DOUBLED = 1       # a second entry of a record that stands where it should
    FAULT_WRONG_SLOT = 2    # in another list than its instant names
    FAULT_PERIOD_LATE = 3   # armed for an instant of its schedule, but not the next one
    FAULT_NOT_REARMED = 4   # armed for what is no instant of its schedule, or armed though it owes nothing
    FAULT_ORPHAN = 5        # the entry of a job that is gone
    FAULT_MISCOUNTED = 6    # a counter differs from what it counts
    FAULT_UNINDEXED = 7     # the index does not find a live record
    FAULTS_KNOWN = 8


cdef int audit(Shard* shard, bint heal, uint64_t* found) noexcept nogil
