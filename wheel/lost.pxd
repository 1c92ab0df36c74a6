"""What a job is owed whose entry was lost: the runs from the second it was armed for up to the present one.

    if arrears_reserve(&shard.arrears, lost_owed(shard, record, until, now, window)) == NO_MEMORY: ...
    lost_note(shard, record, until, now, window)        # into shard.arrears; what is not owed is counted there

Only what is certain. An entry that stands where no drain could take it, of a record whose `next` is past and is
an instant of its schedule, was lost at that instant: a drain that gives a run moves `next` on. Where `next` is
no such instant, or still to come, nothing is known to be lost, and nothing is made up.
"""

from libc.stdint cimport int64_t, uint32_t

from mainspring.wheel.records cimport Record
from mainspring.wheel.shard cimport Shard


# `until`: the newest second whose run is lost, if the job has one in it. Both do nothing but look and note: the
# record stays as it is.
cdef uint32_t lost_owed(
    const Shard* shard, const Record* record, int64_t until, int64_t now, int64_t window,
) noexcept nogil
cdef void lost_note(
    Shard* shard, const Record* record, int64_t until, int64_t now, int64_t window,
) noexcept nogil
