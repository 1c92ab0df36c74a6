"""One change of one job, applied to its shard.

    with the shard's lock held:
        code = apply_row(shard, &row, texts, hash)      # CHANGED, UNCHANGED or NO_MEMORY

Everything a change may need is reserved before anything is touched: on NO_MEMORY the shard is as it was.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from mainspring.wheel.records cimport (
    CATCH_UP_SHIFT, ENABLED, HAS_DATA, HAS_KEY, KEY_IS_UUID, LAST_NEXT, LIVE, ONCE_BIAS, ROUTE_WIDE, Rare,
)
from mainspring.wheel.schedule cimport KIND_CRON, KIND_INTERVAL, KIND_ONCE
from mainspring.wheel.shard cimport NO_EXTRA, Shard


# A row of layout.DEFINITION, field by field.
ctypedef struct Definition_t:
    int64_t id
    int64_t seq
    int64_t run_at
    int64_t starts_at
    int64_t ends_at
    int64_t boost_until
    int64_t changed_at
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
    LATE_MAX_S = 86400      # what is applied later than this after its one instant does not run


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


cdef inline bint once_fits(const Shard* shard, int64_t run_at) noexcept nogil:
    return shard.base - ONCE_BIAS <= run_at <= shard.base - ONCE_BIAS + LAST_NEXT


cdef inline uint32_t plain_schedule(const Shard* shard, const Definition_t* row) noexcept nogil:
    if row.kind == KIND_INTERVAL:
        return <uint32_t>row.every_s
    if row.kind == KIND_CRON:
        return row.cron
    return <uint32_t>(row.run_at - shard.base + ONCE_BIAS) if once_fits(shard, row.run_at) else 0


# Whether a job needs its Rare, or its record says all.
cdef inline bint is_rare(const Shard* shard, int kind, const Rare* rare) noexcept nogil:
    if kind == KIND_ONCE and not once_fits(shard, rare.run_at):
        return True
    return (
        rare.starts_at != INT64_MIN or rare.ends_at != INT64_MAX or rare.boost_every != 0
        or rare.extra_at != NO_EXTRA or rare.phase >= 0 or rare.jitter >= 0 or rare.route >= ROUTE_WIDE
    )


cdef inline uint16_t flags_of(const Definition_t* row, bint uuid_key) noexcept nogil:
    cdef int flags = LIVE | row.kind | row.catch_up << CATCH_UP_SHIFT
    if row.enabled:
        flags |= ENABLED
    if row.key_len:
        flags |= HAS_KEY | KEY_IS_UUID if uuid_key else HAS_KEY
    if row.data_len:
        flags |= HAS_DATA
    return <uint16_t>flags
