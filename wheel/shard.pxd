"""One of the 256 parts of the wheel: the jobs whose hash begins with its number, and when each is next due.

    second = begun          being drained, or just drained: entries left over wait in `draining`
    begun < s <= begun + HORIZON                     slot s modulo HORIZON: it holds that second alone
    begun + HORIZON < s                              far: listed by the hour of s

A record's `next` and its FAR flag name the list its entry stands in, `position` the place. An hour's list is
moved to the slots just before the hour's first second begins, when all of it has come within the horizon.
All functions want the shard's lock held, and those that push an entry want shard_reserve before.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint32_t, uint64_t

from mainspring.wheel.arrears cimport Arrears
from mainspring.wheel.blobs cimport Blobs
from mainspring.wheel.far cimport Far, far_drop, far_find, far_head
from mainspring.wheel.holds cimport Holds, hold_note, hold_now
from mainspring.wheel.index cimport IndexTable
from mainspring.wheel.lists cimport entry_at, list_push, list_remove
from mainspring.wheel.memory cimport PageSource, unlikely
from mainspring.wheel.pthread cimport (
    pthread_mutex_lock, pthread_mutex_t, pthread_mutex_trylock, pthread_mutex_unlock,
)
from mainspring.wheel.records cimport FAR, LAST_NEXT, LIVE, Rare, Record, record_at
from mainspring.wheel.registry cimport Registry
from mainspring.wheel.schedule cimport Schedule_t
from mainspring.wheel.slab cimport NONE, Slab


cdef enum:
    SHARDS = 256            # one for each value of the top byte of a hash
    HORIZON = 3600          # slots, and the seconds that the near part covers
    HOUR = 3600
    HOUR_SHIFT = 14         # seconds by which one shard's hours lag behind the next one's


cdef extern from *:
    """
    #define MAINSPRING_NEVER INT64_MAX
    #define MAINSPRING_NO_EXTRA INT64_MIN
    """
    const int64_t NEVER "MAINSPRING_NEVER"
    const int64_t NO_EXTRA "MAINSPRING_NO_EXTRA"


# What nearly every operation reads comes first, in a few lines side by side.
ctypedef struct Shard:
    pthread_mutex_t lock    # taken by shard_lock, given back by shard_unlock
    Holds* holds            # what its holds are noted in, or NULL
    uint64_t held_from
    uint32_t number
    uint32_t evacuated      # records below this have their blobs on new pages; NONE: all stay where they are
    int64_t base            # instants in records count from here
    int64_t begun           # newest second whose draining began
    int64_t drained         # newest second drained whole: begun, or the one before
    const Registry* crons
    uint64_t jobs
    uint64_t armed
    uint64_t paused
    uint64_t enabled_by_kind[4]
    Slab records
    Slab chunks
    Slab rares
    bint in_arrears         # the next drain has arrears to give, or skipped ones to tell of
    uint32_t draining
    Blobs blobs
    IndexTable index[16]
    Far far
    uint32_t slots[3600]
    uint64_t met[11]        # faults a drain met and mended, by number, until a sweep tells of them
    Arrears arrears


cdef void shard_open(
    Shard* shard, uint32_t number, int64_t now, PageSource* source, const Registry* crons,
) noexcept nogil
cdef void shard_close(Shard* shard) noexcept nogil
cdef void shard_clear(Shard* shard) noexcept nogil       # no jobs, the clock stays

# Room for `pushes` entries, of which `far_pushes` go to far lists.
cdef int shard_reserve(Shard* shard, uint32_t pushes, uint32_t far_pushes) noexcept nogil

cdef void schedule_of(const Shard* shard, const Record* record, Schedule_t* schedule) noexcept nogil
cdef const Rare* rare_of(const Shard* shard, const Record* record) noexcept nogil      # NULL: has none
cdef int64_t once_at(const Shard* shard, const Record* record) noexcept nogil

# Whether the list of free records is a list of all `free` of them, and of nothing else.
cdef bint free_list_is_right(const Slab* records, uint32_t free) noexcept nogil

# The instant the record must be armed for once everything up to `after` is drained: a pure function of the
# definition and a pending extra run. NEVER: must not be armed.
cdef int64_t owed_after(const Shard* shard, const Record* record, int64_t after) noexcept nogil

# The same for the record as it stands: one that waits in `draining` is owed `begun` itself.
cdef int64_t owed(const Shard* shard, const Record* record) noexcept nogil


cdef inline void shard_lock(Shard* shard) noexcept nogil:
    pthread_mutex_lock(&shard.lock)
    if unlikely(shard.holds != NULL):
        shard.held_from = hold_now()


# False where somebody holds it.
cdef inline bint shard_try(Shard* shard) noexcept nogil:
    if pthread_mutex_trylock(&shard.lock) != 0:
        return False
    if unlikely(shard.holds != NULL):
        shard.held_from = hold_now()
    return True


cdef inline void shard_unlock(Shard* shard) noexcept nogil:
    if unlikely(shard.holds != NULL):
        hold_note(shard.holds, hold_now() - shard.held_from)
    pthread_mutex_unlock(&shard.lock)


cdef inline int64_t due_of(const Shard* shard, const Record* record) noexcept nogil:
    return shard.base + record.next


# Instants beyond the reach of 32 bits are listed at the last one within.
cdef inline uint32_t next_of(const Shard* shard, int64_t due) noexcept nogil:
    if due >= shard.base + LAST_NEXT:
        return <uint32_t>LAST_NEXT
    return <uint32_t>(due - shard.base)


cdef inline uint32_t hour_of(const Shard* shard, uint32_t next) noexcept nogil:
    return <uint32_t>((<uint64_t>next + shard.number * HOUR_SHIFT) // HOUR) + 1


# Whether the hour's list has been moved to the slots, or should have been.
cdef inline bint hour_is_over(const Shard* shard, uint32_t hour) noexcept nogil:
    return hour <= hour_of(shard, <uint32_t>(shard.begun - shard.base))


cdef inline bint is_near(const Shard* shard, int64_t due) noexcept nogil:
    return due <= shard.begun + HORIZON


# The list that a record's `next` and flag name; NULL for an hour that has none.
cdef inline uint32_t* list_of(Shard* shard, const Record* record) noexcept nogil:
    if record.flags & FAR:
        return far_find(&shard.far, hour_of(shard, record.next))
    if due_of(shard, record) == shard.begun:
        return &shard.draining
    return &shard.slots[record.next % HORIZON]


cdef inline void arm(Shard* shard, uint32_t number, int64_t due) noexcept nogil:
    cdef Record* record = record_at(&shard.records, number)
    cdef uint32_t* head
    record.next = next_of(shard, due)
    if is_near(shard, due):
        record.flags &= ~<int>FAR
        head = list_of(shard, record)
    else:
        record.flags |= FAR
        head = far_head(&shard.far, hour_of(shard, record.next))
    record.position = list_push(&shard.chunks, head, number)
    shard.armed += 1


# Takes the entry at a position out of a list and tells the record that moved into its place. The test keeps
# an entry that stands twice from drawing its record away from its true place.
cdef inline void take_out(Shard* shard, uint32_t* head, uint32_t position) noexcept nogil:
    cdef uint32_t newest = head[0] - 1
    cdef uint32_t moved = list_remove(&shard.chunks, head, position)
    if moved != NONE and record_at(&shard.records, moved).position == newest:
        record_at(&shard.records, moved).position = position


cdef inline bint stands_at(const Shard* shard, uint32_t number, uint32_t position) noexcept nogil:
    return position >> 4 < shard.chunks.used and entry_at(&shard.chunks, position) == number


# An entry is good if its record lives and stands there by its own account.
cdef inline bint is_home(const Record* record, uint32_t position) noexcept nogil:
    return (record.flags & LIVE) != 0 and record.position == position


cdef inline void disarm(Shard* shard, uint32_t number) noexcept nogil:
    cdef Record* record = record_at(&shard.records, number)
    cdef uint32_t* head
    if record.next == 0:
        return
    head = list_of(shard, record)
    if head != NULL and head[0] and stands_at(shard, number, record.position):
        take_out(shard, head, record.position)
        if record.flags & FAR and head[0] == 0:
            far_drop(&shard.far, hour_of(shard, record.next))
    record.next, record.position = 0, NONE
    shard.armed -= 1
