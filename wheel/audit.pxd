"""The proof that a shard is right, and the cure where it is not.

    with the shard's lock held:
        code = audit(shard, heal, window, found)    # found[FAULT_...] counts; NO_MEMORY: nothing is healed

Right means: every entry of every list is a live record's only entry, at the place the record names, in the
list its instant names; every record is armed for exactly the instant its definition owes, or for none;
the index finds it, holds nothing else, and counts what passed each line; free records are listed once; and
the counters say what is there. proof.pxd proves it; where it cannot, each fault is counted once, under one
name. A cure looks first, reserves all it will need, and then mends; what a lost entry kept from its second
goes to the shard's arrears (lost.pxd).
"""

from libc.stdint cimport int64_t, uint64_t

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
    FAULT_INDEX_STRAY = 8   # an entry of the index that finds no live record, or one that another finds too
    FAULT_FREE_LIST = 9     # the list of free records is not that of all of them, each once
    # A line of the index does not count those that passed it. The jobs that this hides are counted as well,
    # as unindexed, and their entries as strays.
    FAULT_INDEX_MISCOUNTED = 10
    FAULTS_KNOWN = 11


# `window`: seconds that a job with catch_up = all reaches back.
cdef int audit(Shard* shard, bint heal, int64_t window, uint64_t* found) noexcept nogil
