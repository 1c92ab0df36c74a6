"""Taking what is due in one second out of a shard, writing its runs, and arming each job again.

    code = MORE
    while code == MORE:
        with the shard's lock held:
            code = drain_piece(shard, &order, &output)
    # WHOLE: the shard has drained the second.  FULL: empty the output, then go on at the same place.

A piece is at most 512 entries, so no lock is held for long, whatever comes due at once. Entries go in the
order of their list, and the list itself remembers how far it got. NO_MEMORY leaves all as it was for the
entry that it met; those before it are done, and their runs stand in the output. Arrears go first, in an output
of their own: FULL comes before the first of them unless the output is empty, and after the last.

The first misses of a shard would be waited for one after the other. So, while a shard is drained,

    foresee_shard(two further, &order)                  # its head, from its address alone
    foresee_list(one further, second)                   # the first chunk of its list
    order.following = one further                       # its first records, near the end of this one
"""

from libc.stdint cimport int64_t, uint32_t

from mainspring.wheel.frames cimport Envelope, Output
from mainspring.wheel.registry cimport Registry
from mainspring.wheel.shard cimport Shard


cdef enum:
    PIECE = 512
    ON_THE_WAY = 64         # a power of two over AHEAD: entries that are asked for and not yet given
    AHEAD = 32              # entries between asking for a record and giving its run
    SOON = 16               # the same for its blob and the list it moves to
    RECENT = 16
    SHARD_LINES = 6         # of a shard, from its lock to its slabs


cdef enum:
    WHOLE = 0
    MORE = 1
    FULL = 2                # NO_MEMORY is -1


# What one thread drains; the last two are its own notes.
ctypedef struct DrainOrder:
    int64_t second          # the one after the shard's last, or the one it is in the middle of
    int64_t now
    int64_t window          # seconds; older missed runs of `all` are skipped
    bint missed             # the second is drained so late that catch-up decides
    const Envelope* envelope
    const Registry* routes
    Shard* following        # or NULL
    uint32_t targets[16]    # slots that entries were moved to lately


cdef int drain_piece(Shard* shard, DrainOrder* order, Output* output) noexcept nogil
cdef void foresee_shard(const Shard* shard, const DrainOrder* order) noexcept nogil
cdef void foresee_list(Shard* shard, int64_t second) noexcept nogil
