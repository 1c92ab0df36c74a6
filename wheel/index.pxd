"""From a job's id to its record: open addressing with linear probing, 5 bytes a place, at most 3/4 full.

    index_open(tables)
    if index_reserve(tables, &records, hash) == NO_MEMORY: ...
    index_insert(tables, hash, record)
    record = index_find(tables, &records, id, hash)     # NONE when there is no such job
    index_remove(tables, &records, record)

A shard's index is sixteen tables that grow one by one, by a quarter: a single table that doubles would hold
the shard's lock for milliseconds and leave half of itself empty. One byte of the hash stands beside each
place as a tag, so that a probe reads a record only where it will almost surely be the right one. The top byte
of the hash names the shard, the four bits below it the table, bits 8 to 39 the place, the low byte the tag.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from mainspring.wheel.slab cimport NONE, Slab


cdef enum:
    INDEX_TABLES = 16


ctypedef struct IndexTable:
    uint32_t* records
    uint8_t* tags           # 0: empty place
    uint32_t size
    uint32_t used


cdef inline IndexTable* table_of(const IndexTable* tables, uint64_t hash) noexcept nogil:
    return <IndexTable*>&tables[hash >> 52 & (INDEX_TABLES - 1)]


cdef void index_open(IndexTable* tables) noexcept nogil
cdef void index_close(IndexTable* tables) noexcept nogil
cdef uint32_t index_find(
    const IndexTable* tables, const Slab* records, int64_t id, uint64_t hash,
) noexcept nogil

# The record of the first place with the tag of the hash, NONE without one: a guess, that reads no record.
cdef uint32_t index_guess(const IndexTable* tables, uint64_t hash) noexcept nogil

# Asks for the memory in which the search for the hash begins.
cdef void index_foresee(const IndexTable* tables, uint64_t hash) noexcept nogil

# Makes room for one more job of this hash, or for `jobs` more spread over all tables.
cdef int index_reserve(IndexTable* tables, const Slab* records, uint64_t hash) noexcept nogil
cdef int index_presize(IndexTable* tables, const Slab* records, uint32_t jobs) noexcept nogil

# For many jobs at once: asks for the memory of their searches; whether each is found as the record given.
cdef void index_foresee_all(
    const IndexTable* tables, const uint64_t* hashes, uint32_t count,
) noexcept nogil
cdef bint index_finds_all(
    const IndexTable* tables, const Slab* records, const uint32_t* numbers, const uint64_t* hashes,
    uint32_t count,
) noexcept nogil

# The entries there are, counted one by one for the audit, which trusts no counter. Reads the tables in a row,
# which brings them into the cache faster than searches would.
cdef uint64_t index_entries(const IndexTable* tables) noexcept nogil

cdef void index_insert(IndexTable* tables, uint64_t hash, uint32_t record) noexcept nogil
cdef void index_remove(IndexTable* tables, const Slab* records, uint32_t record) noexcept nogil
cdef size_t index_bytes(const IndexTable* tables) noexcept nogil
