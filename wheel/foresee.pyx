"""Prefetches for edits. foresee.pxd says what it promises."""

from libc.stdint cimport uint32_t

from mainspring.wheel.blobs cimport blob_at, blobs_foresee
from mainspring.wheel.edit cimport OP_DELETE, Definition_t, probable_due, probable_size
from mainspring.wheel.lists cimport chunk_at, entry_at
from mainspring.wheel.memory cimport prefetch_write
from mainspring.wheel.records cimport LINES_MASK, Record, blob_lines, record_at
from mainspring.wheel.shard cimport HORIZON, NEVER, Shard, is_near, list_of, next_of
from mainspring.wheel.slab cimport NONE
from mainspring.wheel.wave cimport Errand


# The list that a near instant names; NULL for the others, whose hours are few and at hand.
cdef inline const uint32_t* slot_for(const Errand* errand) noexcept nogil:
    if errand.due == NEVER or not is_near(errand.shard, errand.due):
        return NULL
    return &errand.shard.slots[<uint32_t>(errand.due - errand.shard.base) % HORIZON]


cdef void foresee_targets(Errand* errand, const Definition_t* row) noexcept nogil:
    errand.due = probable_due(errand.shard, row, errand.hash)
    if slot_for(errand) != NULL:
        prefetch_write(slot_for(errand))
    if row.op != OP_DELETE:
        blobs_foresee(&errand.shard.blobs, probable_size(row))


# Of a blob that is given back only the head is touched; one that keeps its size is written whole.
cdef inline void foresee_blob(
    const Shard* shard, const Record* record, const Definition_t* row,
) noexcept nogil:
    cdef char* at
    cdef uint32_t size
    if not record.flags & LINES_MASK:
        return
    at = blob_at(&shard.blobs, record.blob)
    size = probable_size(row)
    prefetch_write(at)
    if row.op != OP_DELETE and blob_lines(at, size) == record.flags & LINES_MASK:
        prefetch_write(at + size - 1)


cdef inline void foresee_newest(const Shard* shard, const uint32_t* head) noexcept nogil:
    if head != NULL and head[0]:
        prefetch_write(chunk_at(&shard.chunks, (head[0] - 1) >> 4))


cdef inline bint is_listed(const Shard* shard, const Record* record) noexcept nogil:
    return record.next != 0 and record.position >> 4 < shard.chunks.used


cdef void foresee_holdings(Errand* errand, const Definition_t* row) noexcept nogil:
    cdef Shard* shard = errand.shard
    cdef const Record* record
    errand.leaves = False
    if errand.guess != NONE:
        record = record_at(&shard.records, errand.guess)
        foresee_blob(shard, record, row)
        if errand.due != NEVER and record.next == next_of(shard, errand.due):
            return
        errand.leaves = is_listed(shard, record)
        if errand.leaves:
            prefetch_write(chunk_at(&shard.chunks, record.position >> 4))
            prefetch_write(&shard.slots[record.next % HORIZON])
    foresee_newest(shard, slot_for(errand))


cdef void foresee_chunks(const Errand* errand) noexcept nogil:
    if errand.leaves:
        foresee_newest(errand.shard, list_of(errand.shard, record_at(&errand.shard.records, errand.guess)))


cdef void foresee_neighbour(const Errand* errand) noexcept nogil:
    cdef Shard* shard = errand.shard
    cdef uint32_t* head
    if not errand.leaves:
        return
    head = list_of(shard, record_at(&shard.records, errand.guess))
    if head != NULL and head[0]:
        prefetch_write(record_at(&shard.records, entry_at(&shard.chunks, head[0] - 1)))
