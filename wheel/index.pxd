"""From a job's id to its record: lines of twelve places, each line one cache line, at most ten a line taken.

    index_open(tables)
    if index_reserve(tables, &records, hash) == NO_MEMORY: ...
    index_insert(tables, hash, record)
    record = index_find(tables, &records, id, hash)     # NONE when there is no such job
    index_remove(tables, &records, record)

    index_tally(tables, &tally)                         # for the audit, which trusts no counter
    right = index_finds_all(tables, &records, numbers, hashes, count, &passed)

A place is a record's number and one byte of the hash as a tag, so that a search reads one line, and a record
only where it will almost surely be the right one. What finds its line full stands in a later one, and each
line counts those that passed it: a search ends at the first line that nothing passed, and a removal takes its
counts back along its own way. It leaves no trace, and reads no other record.

A shard's index is sixteen tables that grow one by one, by a quarter: a single table that doubles would hold
the shard's lock for milliseconds and leave half of itself empty. The top byte of the hash names the shard,
the four bits below it the table, bits 8 to 39 the line, the low byte the tag.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from mainspring.wheel.memory cimport prefetch_write
from mainspring.wheel.records cimport LIVE, record_at
from mainspring.wheel.slab cimport NONE, Slab


cdef enum:
    INDEX_TABLES = 16
    LINE_PLACES = 12
    LINE_FILL = 10          # places taken a line, on the average of a full table


ctypedef struct IndexLine:
    uint8_t tags[12]        # 0: free place
    uint32_t passed         # entries that stand further on because this line was full
    uint32_t records[12]


ctypedef struct IndexTable:
    IndexLine* lines
    uint32_t size           # in lines
    uint32_t used           # places


# What the lines say, added up: the entries, and the counts of what passed, each times a number that is its
# line's own and looks like chance. Sums that agree leave wrong counts no way but one of 2**64.
ctypedef struct IndexTally:
    uint64_t entries
    uint64_t passed


cdef inline int table_number(uint64_t hash) noexcept nogil:
    return hash >> 52 & (INDEX_TABLES - 1)


cdef inline IndexTable* table_of(const IndexTable* tables, uint64_t hash) noexcept nogil:
    return <IndexTable*>&tables[table_number(hash)]


# A product instead of a remainder lets a table have any size.
cdef inline uint32_t home_of(uint64_t hash, uint32_t size) noexcept nogil:
    return <uint32_t>((hash >> 8 & 0xFFFFFFFFULL) * size >> 32)


# Asks for the line in which the search for the hash begins.
cdef inline void index_foresee(const IndexTable* tables, uint64_t hash) noexcept nogil:
    cdef const IndexTable* table = table_of(tables, hash)
    if table.size:
        prefetch_write(&table.lines[home_of(hash, table.size)])


cdef void index_open(IndexTable* tables) noexcept nogil
cdef void index_close(IndexTable* tables) noexcept nogil
cdef uint32_t index_find(
    const IndexTable* tables, const Slab* records, int64_t id, uint64_t hash,
) noexcept nogil

# The record of the first place with the tag of the hash, NONE without one: a guess, that reads no record.
cdef uint32_t index_guess(const IndexTable* tables, uint64_t hash) noexcept nogil

# Makes room for one more job of this hash, or for `jobs` more spread over all tables.
cdef int index_reserve(IndexTable* tables, const Slab* records, uint64_t hash) noexcept nogil
cdef int index_presize(IndexTable* tables, const Slab* records, uint32_t jobs) noexcept nogil

# Makes room in each table for just so many more, `jobs[table_number(hash)]`.
cdef int index_fit(IndexTable* tables, const Slab* records, const uint32_t* jobs) noexcept nogil

# The record there is of the job, or NONE: then `record`, which need not be written yet, is its record now.
cdef uint32_t index_add(
    IndexTable* tables, const Slab* records, int64_t id, uint64_t hash, uint32_t record,
) noexcept nogil

# Reads the tables in a row, which brings them into the cache faster than searches would.
cdef void index_tally(const IndexTable* tables, IndexTally* tally) noexcept nogil

# For many jobs at once: asks for the lines in which their searches begin; whether each is found as the record
# given. Adds to `passed` what an IndexTally's would be if there were no entries but these.
cdef void index_foresee_all(
    const IndexTable* tables, const uint64_t* hashes, uint32_t count,
) noexcept nogil
cdef bint index_finds_all(
    const IndexTable* tables, const Slab* records, const uint32_t* numbers, const uint64_t* hashes,
    uint32_t count, uint64_t* passed,
) noexcept nogil

# Whether each line counts just the entries that passed it, by a walk over them all. An entry of no live record
# tells no way, so beside one it is not asked.
cdef bint index_counts_right(const IndexTable* tables, const Slab* records) noexcept nogil

# For faults.pxd: the first line of the hash forgets what passed it, or counts one that did not.
cdef void index_miscount(IndexTable* tables, uint64_t hash) noexcept nogil

cdef void index_insert(IndexTable* tables, uint64_t hash, uint32_t record) noexcept nogil
cdef void index_remove(IndexTable* tables, const Slab* records, uint32_t record) noexcept nogil
cdef size_t index_bytes(const IndexTable* tables) noexcept nogil


# What index_find gives; without a search where the guess, of the same hold of the lock, was right.
cdef inline uint32_t index_settle(
    const IndexTable* tables, const Slab* records, int64_t id, uint64_t hash, uint32_t guess,
) noexcept nogil:
    if guess != NONE and record_at(records, guess).id == id and record_at(records, guess).flags & LIVE:
        return guess
    return index_find(tables, records, id, hash)
