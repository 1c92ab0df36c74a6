"""All 256 shards under one clock.

All work meets only at one shard's lock, for one piece of work at a time.

    if core_open(&core, now) == NO_MEMORY: ...
    code = drain_second(&core, core.now + 1, clock, &output)    # WHOLE, FULL, NO_MEMORY or WRONG_SECOND
    core_close(&core)                                           # also after a failed core_open

Any number of threads may drain one second, each into its own output: each claims the next shard that nobody
has, one that was left half drained first. FULL and NO_MEMORY are about the caller's own output and shard.
WHOLE says that every shard has given its runs, to whichever thread: one that finds nothing left to claim
waits for the others, or for what they leave half drained. The second completed last is WHOLE at once.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from mainspring.wheel.evacuate cimport Evacuations
from mainspring.wheel.frames cimport Envelope, Output
from mainspring.wheel.hash cimport shard_of_hash, xxh64_i64
from mainspring.wheel.holds cimport Holds
from mainspring.wheel.memory cimport PageSource
from mainspring.wheel.pthread cimport pthread_cond_t, pthread_mutex_t
from mainspring.wheel.registry cimport Registry
from mainspring.wheel.shard cimport Shard


cdef enum:
    WRONG_SECOND = 3        # beside the codes of drain.pxd
    CLAIMED = 5
    AWAIT_OTHERS = 6


# The shards of the second after `now`: each is fresh, claimed by a thread, left half drained, or done.
ctypedef struct Claims:
    pthread_mutex_t lock    # outermost: never taken while a shard's lock is held
    pthread_cond_t moved    # a shard was given back
    uint32_t fresh          # this one and those after it
    uint32_t busy           # how many are claimed
    uint32_t left_count
    bint left[256]


ctypedef struct Claim:
    uint32_t shard
    uint32_t stride


ctypedef struct Core:
    Shard* shards
    PageSource source
    Evacuations evacuations
    Registry routes         # RouteText*, owned
    Registry crons          # CronGroup*, owned by the Wheel
    Envelope envelope
    Holds holds             # of all shards' locks, while they are timed
    Claims claims
    int64_t opened
    int64_t now             # newest second drained by every shard
    bint leaping            # some shards are ahead of `now`: leap.pxd
    int64_t window


cdef int core_open(Core* core, int64_t now) noexcept nogil
cdef void core_close(Core* core) noexcept nogil
cdef int drain_second(Core* core, int64_t second, int64_t now, Output* output) noexcept nogil
cdef int reserve_jobs(Core* core, uint64_t jobs) noexcept nogil
cdef void clear_all(Core* core) noexcept nogil

# The armed instant of a job, or NEVER.
cdef int64_t armed_for(Shard* shard, int64_t job_id) noexcept nogil
cdef bint knows(Shard* shard, int64_t job_id) noexcept nogil
cdef void add_counts(Core* core, uint64_t* kinds, uint64_t* paused, uint64_t* jobs) noexcept nogil
cdef size_t bytes_of(Core* core) noexcept nogil

# Forgets what was noted, and notes each hold of a shard's lock from now on, or none any more.
cdef void time_holds(Core* core, bint wanted) noexcept nogil

# audit.pxd and faults.pxd with the lock taken; NOT_ARMED as well where the job is unknown.
cdef int audit_locked(Core* core, Shard* shard, bint heal, uint64_t* found) noexcept nogil
cdef int inflict_locked(Shard* shard, int fault, int64_t job_id) noexcept nogil


cdef inline Shard* shard_for(Core* core, int64_t job_id) noexcept nogil:
    return &core.shards[shard_of_hash(xxh64_i64(job_id))]
