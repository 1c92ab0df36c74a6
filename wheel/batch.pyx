"""Applying a batch. batch.pxd says what it promises."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from mainspring.wheel.edit cimport (
    DATA_MAX, KEY_MAX, OP_DELETE, Definition_t, apply_row, probable_due,
)
from mainspring.wheel.evacuate cimport Evacuations, evacuation_offer, evacuation_work
from mainspring.wheel.foresee cimport (
    foresee_chunks, foresee_index, foresee_lists, foresee_neighbour, foresee_record, foresee_shard,
)
from mainspring.wheel.hash cimport shard_of_hash, xxh64_i64
from mainspring.wheel.index cimport index_presize
from mainspring.wheel.memory cimport (
    DONE, NO_MEMORY, PAGE_BYTES, PageSource, memory_give, memory_take, prefetch, source_prepare,
)
from mainspring.wheel.schedule cimport KIND_CRON, KIND_INTERVAL, KIND_ONCE
from mainspring.wheel.shard cimport SHARDS, Shard, shard_lock, shard_unlock


# Rows that go together, the hashes of their ids, and when they will probably be due.
ctypedef struct Wave:
    uint32_t count
    bint moves              # some row will move from list to list
    const Definition_t* rows[32]
    uint64_t hashes[32]
    int64_t dues[32]


# One step for the rows from `start` to `end`, which are of one shard; its lock is held.
ctypedef int (*Step)(
    Batch* batch, Shard* shard, Wave* wave, uint32_t start, uint32_t end,
) noexcept nogil


# ---------------------------------------------------------------------------------------- judging


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


# ------------------------------------------------------------------------------------------ waves


cdef int ask_index(Batch* batch, Shard* shard, Wave* wave, uint32_t start, uint32_t end) noexcept nogil:
    cdef uint32_t i
    for i in range(start, end):
        foresee_index(shard, wave.hashes[i])
    return DONE


cdef int ask_record(Batch* batch, Shard* shard, Wave* wave, uint32_t start, uint32_t end) noexcept nogil:
    cdef uint32_t i
    for i in range(start, end):
        foresee_record(shard, wave.hashes[i])
    return DONE


cdef int ask_lists(Batch* batch, Shard* shard, Wave* wave, uint32_t start, uint32_t end) noexcept nogil:
    cdef uint32_t i
    for i in range(start, end):
        wave.dues[i] = probable_due(shard, wave.rows[i], wave.hashes[i])
        wave.moves |= foresee_lists(shard, wave.hashes[i], wave.dues[i])
    return DONE


cdef int ask_chunks(Batch* batch, Shard* shard, Wave* wave, uint32_t start, uint32_t end) noexcept nogil:
    cdef uint32_t i
    for i in range(start, end):
        foresee_chunks(shard, wave.hashes[i], wave.dues[i])
    return DONE


cdef int ask_neighbours(Batch* batch, Shard* shard, Wave* wave, uint32_t start, uint32_t end) noexcept nogil:
    cdef uint32_t i
    for i in range(start, end):
        foresee_neighbour(shard, wave.hashes[i])
    return DONE


cdef int apply_rows(Batch* batch, Shard* shard, Wave* wave, uint32_t start, uint32_t end) noexcept nogil:
    cdef uint32_t i
    cdef int code
    for i in range(start, end):
        code = apply_row(shard, wave.rows[i], batch.texts, wave.hashes[i])
        if code == NO_MEMORY:
            return NO_MEMORY
        batch.applied += 1
        batch.changed += code
    evacuation_offer(batch.evacuations, shard)
    return DONE


# Takes the step shard by shard, each with its lock held.
cdef int take_step(Batch* batch, Shard* shards, Wave* wave, Step step) noexcept nogil:
    cdef uint32_t start = 0
    cdef uint32_t end
    cdef Shard* shard
    cdef int code = DONE
    while start < wave.count and code == DONE:
        shard = &shards[shard_of_hash(wave.hashes[start])]
        end = start + 1
        while end < wave.count and shard_of_hash(wave.hashes[end]) == <int>shard.number:
            end += 1
        shard_lock(shard)
        code = step(batch, shard, wave, start, end)
        shard_unlock(shard)
        start = end
    return code


# Pages are obtained before the lock; the guess may fall short, which costs time and nothing else.
cdef uint32_t pages_for(const Wave* wave) noexcept nogil:
    cdef uint64_t total = 3 * PAGE_BYTES
    cdef uint32_t i
    for i in range(wave.count):
        # A payload over 2 kB lies on no page.
        total += 160 + wave.rows[i].key_len + min(wave.rows[i].data_len, <uint32_t>2048)
    return <uint32_t>(total // PAGE_BYTES + 1)


cdef void foresee(Batch* batch, Shard* shards, Wave* wave) noexcept nogil:
    wave.moves = False
    take_step(batch, shards, wave, ask_index)
    take_step(batch, shards, wave, ask_record)
    take_step(batch, shards, wave, ask_lists)
    if wave.moves:
        take_step(batch, shards, wave, ask_chunks)
        take_step(batch, shards, wave, ask_neighbours)


# A row alone has nothing to overlap with but its own lines.
cdef int apply_alone(Batch* batch, Shard* shard, Wave* wave) noexcept nogil:
    cdef int code
    shard_lock(shard)
    ask_lists(batch, shard, wave, 0, 1)
    code = apply_rows(batch, shard, wave, 0, 1)
    shard_unlock(shard)
    return code


cdef int apply_wave(Batch* batch, Shard* shards, PageSource* source, Wave* wave) noexcept nogil:
    if source_prepare(source, pages_for(wave)) == NO_MEMORY:
        return NO_MEMORY
    if wave.count == 1:
        return apply_alone(batch, &shards[shard_of_hash(wave.hashes[0])], wave)
    foresee(batch, shards, wave)
    return take_step(batch, shards, wave, apply_rows)


cdef inline const Definition_t* row_at(const Batch* batch, const uint32_t* order, uint64_t i) noexcept nogil:
    return &batch.rows[i if order == NULL else order[i]]


# The rows of the wave after this one are asked for on the way.
cdef void gather(
    const Batch* batch, const Shard* shards, const uint32_t* order, uint64_t start, uint64_t end, Wave* wave,
) noexcept nogil:
    cdef uint32_t i
    wave.count = <uint32_t>min(end - start, <uint64_t>WAVE)
    for i in range(wave.count):
        wave.rows[i] = row_at(batch, order, start + i)
        wave.hashes[i] = xxh64_i64(wave.rows[i].id)
        if wave.rows[i].op != OP_DELETE:
            prefetch(batch.texts + wave.rows[i].data_at)
            prefetch(batch.texts + wave.rows[i].key_at)
        if order == NULL:
            foresee_shard(&shards[shard_of_hash(wave.hashes[i])], wave.hashes[i])
        elif start + WAVE + i < end:
            prefetch(row_at(batch, order, start + WAVE + i))
            prefetch(&row_at(batch, order, start + WAVE + i).op)


# Rows `start` to `end` of the order; NULL: as they stand.
cdef int apply_range(
    Batch* batch, Shard* shards, PageSource* source, const uint32_t* order, uint64_t start, uint64_t end,
) noexcept nogil:
    cdef Wave wave
    while start < end:
        gather(batch, shards, order, start, end, &wave)
        if apply_wave(batch, shards, source, &wave) == NO_MEMORY:
            return NO_MEMORY
        evacuation_work(batch.evacuations, shards, source, wave.count)
        start += wave.count
    return DONE


# ---------------------------------------------------------------------------------- large batches


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


# A shard that has no jobs yet gets an index of just the right size, instead of one that grows with them.
cdef int size_index(Shard* shard, uint64_t rows) noexcept nogil:
    cdef int code = DONE
    shard_lock(shard)
    if shard.jobs == 0:
        code = index_presize(shard.index, &shard.records, <uint32_t>rows)
    shard_unlock(shard)
    return code


cdef int apply_sorted(
    Batch* batch, Shard* shards, PageSource* source, const uint32_t* order, const uint64_t* ends,
) noexcept nogil:
    cdef uint64_t start
    cdef int turn
    cdef uint32_t s
    for turn in range(SHARDS):
        s = (batch.first_shard + turn) % SHARDS
        start = ends[s - 1] if s else 0
        if size_index(&shards[s], ends[s] - start) == NO_MEMORY:
            return NO_MEMORY
        if apply_range(batch, shards, source, order, start, ends[s]) == NO_MEMORY:
            return NO_MEMORY
    return DONE


cdef int sort_and_apply(Batch* batch, Shard* shards, PageSource* source) noexcept nogil:
    cdef uint64_t ends[256]
    cdef uint32_t* order = <uint32_t*>memory_take(batch.count * sizeof(uint32_t))
    cdef uint8_t* shard_of = <uint8_t*>memory_take(batch.count)
    cdef int code = NO_MEMORY
    if order != NULL and shard_of != NULL:
        sort_by_shard(batch, order, shard_of, ends)
        code = apply_sorted(batch, shards, source, order, ends)
    memory_give(order)
    memory_give(shard_of)
    return code


cdef int batch_apply(
    Batch* batch, Shard* shards, PageSource* source, Evacuations* evacuations,
) noexcept nogil:
    batch.evacuations = evacuations
    if batch.count < SORTED_FROM:
        return apply_range(batch, shards, source, NULL, 0, batch.count)
    return sort_and_apply(batch, shards, source)
