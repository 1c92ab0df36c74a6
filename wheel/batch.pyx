"""Applying a batch. batch.pxd says what it promises."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from mainspring.wheel.edit cimport (
    DATA_MAX, KEY_MAX, OP_DELETE, Definition_t, apply_row,
)
from mainspring.wheel.hash cimport shard_of_hash, xxh64_i64
from mainspring.wheel.memory cimport (
    DONE, NO_MEMORY, PAGE_BYTES, PageSource, memory_give, memory_take, prefetch, pthread_mutex_lock,
    pthread_mutex_unlock, source_prepare,
)
from mainspring.wheel.schedule cimport KIND_CRON, KIND_INTERVAL, KIND_ONCE
from mainspring.wheel.shard cimport SHARDS, Shard


cdef inline bint is_slice(const Batch* batch, uint32_t at, uint32_t length, uint32_t most) noexcept nogil:
    return length <= most and <uint64_t>at + length <= batch.texts_bytes


cdef int row_refusal(const Batch* batch, const Definition_t* row) noexcept nogil:
    if row.op > OP_DELETE:
        return REFUSED_OP
    if row.op == OP_DELETE:
        return ACCEPTED
    if not KIND_INTERVAL <= row.kind <= KIND_ONCE:
        return REFUSED_KIND
    if row.kind == KIND_INTERVAL and row.every_s < 1:
        return REFUSED_EVERY
    if row.kind == KIND_CRON and row.cron >= batch.crons:
        return REFUSED_CRON
    if row.boost_every_s < 0:
        return REFUSED_BOOST
    if row.route >= batch.routes:
        return REFUSED_ROUTE
    if row.catch_up > 2:
        return REFUSED_CATCH_UP
    if not is_slice(batch, row.key_at, row.key_len, KEY_MAX):
        return REFUSED_KEY
    return ACCEPTED if is_slice(batch, row.data_at, row.data_len, DATA_MAX) else REFUSED_DATA


cdef int batch_refusal(const Batch* batch, uint64_t* row) noexcept nogil:
    cdef int refusal
    cdef uint64_t i
    for i in range(batch.count):
        refusal = row_refusal(batch, &batch.rows[i])
        if refusal:
            row[0] = i
            return refusal
    return ACCEPTED


# A counting sort: row numbers by shard, each shard's in their old order. ends[s] is where shard s ends.
cdef void sort_by_shard(
    const Batch* batch, uint32_t* order, uint8_t* shard_of, uint64_t* ends,
) noexcept nogil:
    cdef uint64_t starts[256]
    cdef uint64_t at = 0
    cdef uint64_t i
    cdef int s
    memset(ends, 0, SHARDS * sizeof(uint64_t))
    for i in range(batch.count):
        shard_of[i] = <uint8_t>shard_of_hash(xxh64_i64(batch.rows[i].id))
        ends[shard_of[i]] += 1
    for s in range(SHARDS):
        starts[s] = at
        at += ends[s]
        ends[s] = at
    for i in range(batch.count):
        order[starts[shard_of[i]]] = <uint32_t>i
        starts[shard_of[i]] += 1


# Pages are obtained before the lock; the guess may fall short, which costs time and nothing else.
cdef uint32_t pages_for(
    const Batch* batch, const uint32_t* order, uint64_t start, uint64_t end,
) noexcept nogil:
    cdef uint64_t total = 3 * PAGE_BYTES
    cdef uint64_t i
    for i in range(start, end):
        # A payload over 2 kB lies on no page.
        total += 160 + batch.rows[order[i]].key_len + min(batch.rows[order[i]].data_len, <uint32_t>2048)
    return <uint32_t>(total // PAGE_BYTES + 1)


cdef int apply_held(
    Batch* batch, Shard* shard, const uint32_t* order, uint64_t start, uint64_t end,
) noexcept nogil:
    cdef uint64_t i
    cdef int code = DONE
    pthread_mutex_lock(&shard.lock)
    for i in range(start, end):
        if i + 4 < end:
            prefetch(&batch.rows[order[i + 4]])
        code = apply_row(shard, &batch.rows[order[i]], batch.texts)
        if code == NO_MEMORY:
            break
        batch.applied += 1
        batch.changed += code
    pthread_mutex_unlock(&shard.lock)
    return code


cdef int apply_shard(
    Batch* batch, Shard* shard, PageSource* source, const uint32_t* order, uint64_t start, uint64_t end,
) noexcept nogil:
    cdef uint64_t stop
    while start < end:
        stop = min(start + HOLD, end)
        if source_prepare(source, pages_for(batch, order, start, stop)) == NO_MEMORY:
            return NO_MEMORY
        if apply_held(batch, shard, order, start, stop) == NO_MEMORY:
            return NO_MEMORY
        start = stop
    return DONE


cdef int apply_sorted(
    Batch* batch, Shard* shards, PageSource* source, const uint32_t* order, const uint64_t* ends,
) noexcept nogil:
    cdef uint64_t start = 0
    cdef int s
    for s in range(SHARDS):
        if apply_shard(batch, &shards[s], source, order, start, ends[s]) == NO_MEMORY:
            return NO_MEMORY
        start = ends[s]
    return DONE


cdef int batch_apply(Batch* batch, Shard* shards, PageSource* source) noexcept nogil:
    cdef uint64_t ends[256]
    cdef uint32_t* order = <uint32_t*>memory_take(batch.count * sizeof(uint32_t) + 1)
    cdef uint8_t* shard_of = <uint8_t*>memory_take(batch.count + 1)
    cdef int code = NO_MEMORY
    if order != NULL and shard_of != NULL:
        sort_by_shard(batch, order, shard_of, ends)
        code = apply_sorted(batch, shards, source, order, ends)
    memory_give(order)
    memory_give(shard_of)
    return code
