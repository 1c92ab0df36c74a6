"""Applying a batch. batch.pxd says what it promises."""

from libc.stdint cimport uint32_t, uint64_t

from mainspring.wheel.edit cimport DATA_MAX, KEY_MAX, OP_DELETE, Definition_t, apply_row
from mainspring.wheel.evacuate cimport Evacuations, evacuation_offer, evacuation_work
from mainspring.wheel.foresee cimport (
    foresee_chunks, foresee_holdings, foresee_neighbour, foresee_targets,
)
from mainspring.wheel.hash cimport xxh64_i64
from mainspring.wheel.index cimport index_presize
from mainspring.wheel.memory cimport (
    DONE, NO_MEMORY, PAGE_BYTES, PageSource, prefetch, source_prepare,
)
from mainspring.wheel.schedule cimport KIND_CRON, KIND_INTERVAL, KIND_ONCE
from mainspring.wheel.shard cimport SHARDS, Shard, shard_lock, shard_unlock
from mainspring.wheel.wave cimport (
    WAVE, Order, Ticket, Wave, order_give, order_sort, order_start, order_take, wave_ask_index,
    wave_ask_records, wave_ends_shard, wave_gather, wave_lock, wave_unlock,
)


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


cdef inline const Definition_t* row_of(const Batch* batch, const Wave* wave, uint32_t i) noexcept nogil:
    return &batch.rows[wave.errands[i].row]


# A row may touch three lines. Rows of the wave after the next are asked for, texts of this one.
cdef inline void ask_row(const Definition_t* row) noexcept nogil:
    prefetch(row)
    prefetch(<const char*>row + 64)
    prefetch(&row.catch_up)


cdef void ask_rows(
    const Batch* batch, const Wave* wave, const Ticket* tickets, uint64_t count,
) noexcept nogil:
    cdef const Definition_t* row
    cdef uint64_t i
    for i in range(<uint64_t>2 * WAVE, min(count, <uint64_t>3 * WAVE)):
        ask_row(&batch.rows[tickets[i].row])
    for i in range(wave.count):
        row = row_of(batch, wave, <uint32_t>i)
        if row.op != OP_DELETE:
            prefetch(batch.texts + row.data_at)
            prefetch(batch.texts + row.key_at)


# Pages are obtained before the locks; the guess may fall short, which costs time and nothing else.
cdef uint32_t pages_for(const Batch* batch, const Wave* wave) noexcept nogil:
    cdef uint64_t total = 3 * PAGE_BYTES
    cdef const Definition_t* row
    cdef uint32_t i
    for i in range(wave.count):
        row = row_of(batch, wave, i)
        # A payload over 2 kB lies on no page.
        total += 160 + row.key_len + min(row.data_len, <uint32_t>2048)
    return <uint32_t>(total // PAGE_BYTES + 1)


cdef void foresee(const Batch* batch, Wave* wave) noexcept nogil:
    cdef uint32_t i
    wave_ask_index(wave)
    for i in range(wave.count):
        foresee_targets(&wave.errands[i], row_of(batch, wave, i))
    wave_ask_records(wave)
    for i in range(wave.count):
        foresee_holdings(&wave.errands[i], row_of(batch, wave, i))
    for i in range(wave.count):
        foresee_chunks(&wave.errands[i])
    for i in range(wave.count):
        foresee_neighbour(&wave.errands[i])


cdef int apply_rows(Batch* batch, Wave* wave) noexcept nogil:
    cdef uint32_t i
    cdef int code
    for i in range(wave.count):
        code = apply_row(
            wave.errands[i].shard, row_of(batch, wave, i), batch.texts, wave.errands[i].hash,
            wave.errands[i].guess,
        )
        if code == NO_MEMORY:
            return NO_MEMORY
        batch.applied += 1
        batch.changed += code
        if wave_ends_shard(wave, i):
            evacuation_offer(batch.evacuations, wave.errands[i].shard)
    return DONE


cdef int apply_wave(Batch* batch, PageSource* source, Wave* wave) noexcept nogil:
    cdef int code
    if source_prepare(source, pages_for(batch, wave)) == NO_MEMORY:
        return NO_MEMORY
    wave_lock(wave)
    foresee(batch, wave)
    code = apply_rows(batch, wave)
    wave_unlock(wave)
    return code


cdef int apply_tickets(
    Batch* batch, Shard* shards, PageSource* source, const Ticket* tickets, uint64_t count,
) noexcept nogil:
    cdef uint64_t start = 0
    cdef Wave wave
    while start < count:
        wave_gather(&wave, shards, &tickets[start], count - start)
        ask_rows(batch, &wave, &tickets[start], count - start)
        if apply_wave(batch, source, &wave) == NO_MEMORY:
            return NO_MEMORY
        evacuation_work(batch.evacuations, shards, source, wave.count)
        start += wave.count
    return DONE


# --------------------------------------------------------------------------------------- batches


# A shard that has no jobs yet gets an index of just the right size, instead of one that grows with them.
cdef int size_index(Shard* shard, uint64_t rows) noexcept nogil:
    cdef int code = DONE
    shard_lock(shard)
    if shard.jobs == 0:
        code = index_presize(shard.index, &shard.records, <uint32_t>rows)
    shard_unlock(shard)
    return code


cdef int size_indexes(Shard* shards, const Order* order) noexcept nogil:
    cdef uint32_t s
    for s in range(SHARDS):
        if size_index(&shards[s], order.ends[s] - order_start(order, s)) == NO_MEMORY:
            return NO_MEMORY
    return DONE


# Begins with the batch's first shard and goes round. In two ranges: a wave must not lock shard 0 after 255.
cdef int apply_order(Batch* batch, Shard* shards, PageSource* source, const Order* order) noexcept nogil:
    cdef uint64_t middle = order_start(order, batch.first_shard)
    if order.count >= SIZED_FROM and size_indexes(shards, order) == NO_MEMORY:
        return NO_MEMORY
    if apply_tickets(batch, shards, source, &order.tickets[middle], order.count - middle) == NO_MEMORY:
        return NO_MEMORY
    return apply_tickets(batch, shards, source, order.tickets, middle)


cdef int sort_and_apply(Batch* batch, Shard* shards, PageSource* source) noexcept nogil:
    cdef Order order
    cdef uint64_t i
    cdef int code
    if order_take(&order, batch.count) == NO_MEMORY:
        return NO_MEMORY
    for i in range(batch.count):
        order.hashes[i] = xxh64_i64(batch.rows[i].id)
    order_sort(&order)
    code = apply_order(batch, shards, source, &order)
    order_give(&order)
    return code


cdef int batch_apply(
    Batch* batch, Shard* shards, PageSource* source, Evacuations* evacuations,
) noexcept nogil:
    cdef Ticket ticket
    batch.evacuations = evacuations
    if batch.count != 1:
        return sort_and_apply(batch, shards, source)
    ticket.hash, ticket.row = xxh64_i64(batch.rows[0].id), 0
    return apply_tickets(batch, shards, source, &ticket, 1)
