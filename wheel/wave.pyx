"""Orders and waves. wave.pxd says what it promises."""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

from mainspring.wheel.hash cimport shard_of_hash
from mainspring.wheel.index cimport index_foresee, index_guess, table_of
from mainspring.wheel.memory cimport (
    DONE, NO_MEMORY, memory_give, memory_take, prefetch, prefetch_write,
)
from mainspring.wheel.records cimport record_at
from mainspring.wheel.shard cimport SHARDS, Shard, shard_lock, shard_unlock
from mainspring.wheel.slab cimport NONE


cdef enum:
    HEAD_LINES = 8          # of a shard: its lock, counters, and the heads of slabs and blobs
    FEW = 4                 # errands of a wave that is too short for its waits to overlap
    TABLE_BYTES = 512


# ---------------------------------------------------------------------------------------- sorting


cdef int order_take(Order* order, uint64_t count) noexcept nogil:
    order.count = count
    order.tickets = <Ticket*>memory_take(count * sizeof(Ticket))
    order.hashes = <uint64_t*>memory_take(count * sizeof(uint64_t))
    if order.tickets == NULL or order.hashes == NULL:
        order_give(order)
        return NO_MEMORY
    return DONE


cdef void order_give(Order* order) noexcept nogil:
    memory_give(order.tickets)
    memory_give(order.hashes)


cdef void add_up(uint64_t* starts, uint64_t* ends) noexcept nogil:
    cdef uint64_t at = 0
    cdef int s
    for s in range(SHARDS):
        starts[s] = at
        at += ends[s]
        ends[s] = at


# A counting sort.
cdef void order_sort(Order* order) noexcept nogil:
    cdef uint64_t starts[256]
    cdef Ticket* ticket
    cdef uint64_t i
    memset(order.ends, 0, sizeof(order.ends))
    for i in range(order.count):
        order.ends[shard_of_hash(order.hashes[i])] += 1
    add_up(starts, order.ends)
    for i in range(order.count):
        ticket = &order.tickets[starts[shard_of_hash(order.hashes[i])]]
        starts[shard_of_hash(order.hashes[i])] += 1
        ticket.hash, ticket.row = order.hashes[i], i


# ------------------------------------------------------------------------------------------ waves


# Only addresses are computed here: what lies behind them may be read under the lock alone.
cdef inline void ask_shard(const Shard* shard, uint64_t hash) noexcept nogil:
    cdef const char* head = <const char*>shard
    cdef int line
    for line in range(HEAD_LINES):
        prefetch_write(head + (line << 6))
    prefetch(table_of(shard.index, hash))


# As much of a table of pages as is worth asking for on the chance.
cdef inline void ask_table(const void* table, size_t size) noexcept nogil:
    cdef size_t at
    for at in range(0, min(size, <size_t>TABLE_BYTES), 64):
        prefetch(<const char*>table + at)


# Many errands wait for the tables of pages side by side. A few would wait for one table after the other.
cdef inline void ask_tables(const Shard* shard) noexcept nogil:
    ask_table(shard.records.pages, shard.records.page_count * sizeof(char*))
    ask_table(shard.chunks.pages, shard.chunks.page_count * sizeof(char*))
    ask_table(shard.blobs.pages, shard.blobs.page_count * sizeof(char*))
    ask_table(shard.blobs.page_live, shard.blobs.page_count * sizeof(uint32_t))


cdef void wave_gather(Wave* wave, Shard* shards, const Ticket* tickets, uint64_t count) noexcept nogil:
    cdef uint32_t i
    cdef Errand* errand
    wave.count = <uint32_t>min(count, <uint64_t>WAVE)
    for i in range(wave.count):
        errand = &wave.errands[i]
        errand.hash, errand.row = tickets[i].hash, tickets[i].row
        errand.shard = &shards[shard_of_hash(errand.hash)]
        ask_shard(errand.shard, errand.hash)


cdef void wave_lock(Wave* wave) noexcept nogil:
    cdef uint32_t i
    for i in range(wave.count):
        if wave_ends_shard(wave, i):
            shard_lock(wave.errands[i].shard)


cdef void wave_unlock(Wave* wave) noexcept nogil:
    cdef uint32_t i
    for i in range(wave.count):
        if wave_ends_shard(wave, i):
            shard_unlock(wave.errands[i].shard)


cdef void wave_ask_index(Wave* wave) noexcept nogil:
    cdef uint32_t i
    for i in range(wave.count):
        index_foresee(wave.errands[i].shard.index, wave.errands[i].hash)
        if wave.count <= FEW:
            ask_tables(wave.errands[i].shard)


cdef void wave_ask_records(Wave* wave) noexcept nogil:
    cdef uint32_t i
    cdef Errand* errand
    for i in range(wave.count):
        errand = &wave.errands[i]
        errand.guess = index_guess(errand.shard.index, errand.hash)
        if errand.guess != NONE:
            prefetch_write(record_at(&errand.shard.records, errand.guess))
