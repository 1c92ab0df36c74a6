"""One change of one job, applied to its shard.

    with the shard's lock held:
        code = apply_row(shard, &row, texts, hash)      # CHANGED, UNCHANGED or NO_MEMORY

Everything a change may need is reserved before anything is touched: on NO_MEMORY the shard is as it was.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from mainspring.wheel.shard cimport Shard


# A row of layout.DEFINITION, field by field.
ctypedef struct Definition_t:
    int64_t id
    int64_t seq
    int64_t run_at
    int64_t starts_at
    int64_t ends_at
    int64_t boost_until
    int32_t every_s
    int32_t phase_s
    int32_t jitter_s
    int32_t boost_every_s
    uint32_t route
    uint32_t cron
    uint32_t key_at
    uint32_t key_len
    uint32_t data_at
    uint32_t data_len
    uint8_t op
    uint8_t kind
    uint8_t enabled
    uint8_t first_run_soon
    uint8_t catch_up


cdef enum:
    OP_LOAD = 0
    OP_INSERT = 1
    OP_UPDATE = 2
    OP_DELETE = 3


cdef enum:
    UNCHANGED = 0           # older than what is known, or the delete of an unknown job
    CHANGED = 1


cdef enum:
    KEY_MAX = 255
    DATA_MAX = 65536
    LATE_ONCE_MAX_S = 86400 # a one-shot committed later than this after its instant does not run


# `hash` is the id's; `guess` what index_guess said of it since the lock was taken, or NONE.
cdef int apply_row(
    Shard* shard, const Definition_t* row, const uint8_t* texts, uint64_t hash, uint32_t guess,
) noexcept nogil

# The instant that most rows of this kind will be armed for, cheaply; NEVER where it takes more to know.
cdef int64_t probable_due(const Shard* shard, const Definition_t* row, uint64_t hash) noexcept nogil

# How many bytes the blob of this row will probably have; its key is not looked at.
cdef uint32_t probable_size(const Definition_t* row) noexcept nogil

# Frees the record and all that belongs to it; it must be disarmed.
cdef void forget(Shard* shard, uint32_t number) noexcept nogil

# A run beside the schedule is done: a job that needed its Rare for that alone gives it back.
cdef void settle_extra(Shard* shard, uint32_t number) noexcept nogil
