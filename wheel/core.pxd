"""All 256 shards under one clock.

A drain excludes other drains; all else meets only at one shard's lock, for one piece of work at a time.

    if core_open(&core, now) == NO_MEMORY: ...
    code = drain_second(&core, core.now + 1, clock, &output)    # WHOLE, FULL, NO_MEMORY or WRONG_SECOND
    core_close(&core)                                           # also after a failed core_open
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from mainspring.wheel.evacuate cimport Evacuations
from mainspring.wheel.frames cimport Envelope, Output
from mainspring.wheel.hash cimport shard_of_hash, xxh64_i64
from mainspring.wheel.memory cimport PageSource, pthread_mutex_t
from mainspring.wheel.registry cimport Registry
from mainspring.wheel.shard cimport Shard


cdef enum:
    WRONG_SECOND = 3        # beside the codes of drain.pxd


ctypedef struct Core:
    Shard* shards
    PageSource source
    Evacuations evacuations
    Registry routes         # RouteText*, owned
    Registry crons          # CronGroup*, owned by the Wheel
    Envelope envelope
    pthread_mutex_t drain_lock
    int64_t now             # newest second drained by every shard
    int64_t window
    uint32_t next_shard     # the one a half-drained second goes on with


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

# audit.pxd and faults.pxd with the lock taken; NOT_ARMED as well where the job is unknown.
cdef int audit_locked(Core* core, Shard* shard, bint heal, uint64_t* found) noexcept nogil
cdef int inflict_locked(Shard* shard, int fault, int64_t job_id) noexcept nogil


cdef inline Shard* shard_for(Core* core, int64_t job_id) noexcept nogil:
    return &core.shards[shard_of_hash(xxh64_i64(job_id))]
