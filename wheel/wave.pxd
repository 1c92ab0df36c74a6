"""Work on many jobs at once: sorted by shard, then in waves of 32 whose waits for memory overlap.

    if order_take(&order, count) == NO_MEMORY: ...
    for i in range(count):
        order.hashes[i] = xxh64_i64(...)
    order_sort(&order)                              # tickets: by shard, each shard's in their old order
    while start < count:
        wave_gather(&wave, shards, &order.tickets[start], count - start)
        wave_lock(&wave)                            # each of its shards
        wave_ask_index(&wave)
        wave_ask_records(&wave)                     # now each errand has its guess
        ...
        wave_unlock(&wave)
        start += wave.count
    order_give(&order)

Locks are taken in the order of the shards' numbers, so that two waves never wait for each other: the tickets
of a wave must rise by shard. A wave is short enough to hold its locks for all its steps.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from mainspring.wheel.shard cimport Shard


cdef enum:
    WAVE = 32


# One row of many, and the hash of its job's id.
ctypedef struct Ticket:
    uint64_t hash
    uint64_t row


ctypedef struct Order:
    uint64_t count
    uint64_t* hashes        # by row
    Ticket* tickets
    uint64_t ends[256]      # where each shard's tickets end


ctypedef struct Errand:
    uint64_t hash
    uint64_t row
    Shard* shard
    uint32_t guess          # the record that the index alone points to, or NONE
    bint leaves             # it will leave the list it stands in; set by foresee.pxd, as is
    int64_t due             # the instant it will probably be armed for; NEVER for none or unknown


ctypedef struct Wave:
    uint32_t count
    Errand errands[32]


cdef int order_take(Order* order, uint64_t count) noexcept nogil
cdef void order_sort(Order* order) noexcept nogil
cdef void order_give(Order* order) noexcept nogil


cdef inline uint64_t order_start(const Order* order, uint32_t shard) noexcept nogil:
    return order.ends[shard - 1] if shard else 0


# Takes as many of the `count` tickets as go into one wave, and asks for the heads of their shards.
cdef void wave_gather(Wave* wave, Shard* shards, const Ticket* tickets, uint64_t count) noexcept nogil
cdef void wave_lock(Wave* wave) noexcept nogil
cdef void wave_unlock(Wave* wave) noexcept nogil
cdef void wave_ask_index(Wave* wave) noexcept nogil
cdef void wave_ask_records(Wave* wave) noexcept nogil


# Whether errand `i` is the last of its shard in the wave.
cdef inline bint wave_ends_shard(const Wave* wave, uint32_t i) noexcept nogil:
    return i + 1 == wave.count or wave.errands[i + 1].shard != wave.errands[i].shard
