"""Prefetches for edits. foresee.pxd says what it promises."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from mainspring.wheel.blobs cimport blob_at
from mainspring.wheel.index cimport index_foresee, index_guess, table_of
from mainspring.wheel.lists cimport chunk_at, entry_at
from mainspring.wheel.memory cimport prefetch, prefetch_write
from mainspring.wheel.records cimport LINES_MASK, Record, record_at
from mainspring.wheel.shard cimport HORIZON, NEVER, Shard, is_near, list_of, next_of
from mainspring.wheel.slab cimport NONE


# The lock and the heads of the slabs lie in the first lines; the table of the id is further on.
cdef void foresee_shard(const Shard* shard, uint64_t hash) noexcept nogil:
    cdef const char* head = <const char*>shard
    cdef int line
    for line in range(5):
        prefetch_write(head + (line << 6))
    prefetch(table_of(shard.index, hash))


cdef void foresee_index(const Shard* shard, uint64_t hash) noexcept nogil:
    index_foresee(shard.index, hash)


# The record that the tag alone points to: the right one but for one time in a hundred.
cdef inline Record* guessed(const Shard* shard, uint64_t hash) noexcept nogil:
    cdef uint32_t number = index_guess(shard.index, hash)
    return NULL if number == NONE else record_at(&shard.records, number)


cdef void foresee_record(const Shard* shard, uint64_t hash) noexcept nogil:
    cdef Record* record = guessed(shard, hash)
    if record != NULL:
        prefetch_write(record)


cdef inline void foresee_blob(const Shard* shard, const Record* record) noexcept nogil:
    cdef char* at
    if record.flags & LINES_MASK:
        at = blob_at(&shard.blobs, record.blob)
        prefetch_write(at)
        prefetch_write(at + 63)


cdef inline bint is_listed(const Shard* shard, const Record* record) noexcept nogil:
    return record.next != 0 and record.position >> 4 < shard.chunks.used


# The list that a near instant names; NULL for the others, whose hours are few and at hand.
cdef inline const uint32_t* slot_for(const Shard* shard, int64_t due) noexcept nogil:
    if due == NEVER or not is_near(shard, due):
        return NULL
    return &shard.slots[<uint32_t>(due - shard.base) % HORIZON]


cdef bint foresee_lists(Shard* shard, uint64_t hash, int64_t due) noexcept nogil:
    cdef Record* record = guessed(shard, hash)
    cdef bint moves = record == NULL or due == NEVER or record.next != next_of(shard, due)
    if record != NULL:
        foresee_blob(shard, record)
    if not moves:
        return False
    if slot_for(shard, due) != NULL:
        prefetch_write(slot_for(shard, due))
    if record != NULL and is_listed(shard, record):
        prefetch_write(chunk_at(&shard.chunks, record.position >> 4))
        prefetch_write(&shard.slots[record.next % HORIZON])
    return True


cdef inline void foresee_newest(const Shard* shard, const uint32_t* head) noexcept nogil:
    if head != NULL and head[0]:
        prefetch_write(chunk_at(&shard.chunks, (head[0] - 1) >> 4))


cdef void foresee_chunks(Shard* shard, uint64_t hash, int64_t due) noexcept nogil:
    cdef Record* record = guessed(shard, hash)
    foresee_newest(shard, slot_for(shard, due))
    if record != NULL and is_listed(shard, record):
        foresee_newest(shard, list_of(shard, record))


cdef void foresee_neighbour(Shard* shard, uint64_t hash) noexcept nogil:
    cdef Record* record = guessed(shard, hash)
    cdef uint32_t* head
    if record == NULL or not is_listed(shard, record):
        return
    head = list_of(shard, record)
    if head != NULL and head[0]:
        prefetch_write(record_at(&shard.records, entry_at(&shard.chunks, head[0] - 1)))
