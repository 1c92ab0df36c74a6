"""Taking what is due in one second out of a shard, writing its runs, and arming each job again.

    code = MORE
    while code == MORE:
        with the shard's lock held:
            code = drain_piece(shard, &order, &output)
    # WHOLE: the shard has drained the second.  FULL: empty the output, then go on at the same place.

A piece is at most 512 entries, so no lock is held for long, whatever comes due at once. Entries go in the
order of their list, and the list itself remembers how far it got. Arrears go first, in an output of their own:
FULL comes before the first of them unless the output is empty, and after the last.
"""

from libc.stdint cimport int64_t

from mainspring.wheel.frames cimport Envelope, Output
from mainspring.wheel.registry cimport Registry
from mainspring.wheel.shard cimport Shard


cdef enum:
    PIECE = 512
    AHEAD = 32              # entries between the prefetch of a record and its use
    SOON = 12               # the same for its blob and the list it moves to


cdef enum:
    WHOLE = 0
    MORE = 1
    FULL = 2                # NO_MEMORY is -1


ctypedef struct DrainOrder:
    int64_t second          # the one after the shard's last, or the one it is in the middle of
    int64_t now
    int64_t window          # seconds; older missed runs of `all` are skipped
    const Envelope* envelope
    const Registry* routes


cdef int drain_piece(Shard* shard, const DrainOrder* order, Output* output) noexcept nogil
