"""Looking up many jobs. lookup.pxd says what it promises."""

from libc.stdint cimport uint32_t, uint64_t

from mainspring.wheel.hash cimport xxh64_i64
from mainspring.wheel.index cimport index_settle
from mainspring.wheel.memory cimport DONE, NO_MEMORY
from mainspring.wheel.records cimport record_at
from mainspring.wheel.shard cimport NEVER, Shard
from mainspring.wheel.slab cimport NONE
from mainspring.wheel.wave cimport (
    Errand, Order, Wave, order_give, order_sort, order_take, wave_ask_index, wave_ask_records, wave_gather,
    wave_lock, wave_unlock,
)


cdef inline void answer(const Question* question, const Errand* errand) noexcept nogil:
    cdef const Shard* shard = errand.shard
    cdef uint32_t number = index_settle(
        shard.index, &shard.records, question.ids[errand.row], errand.hash, errand.guess,
    )
    if question.known != NULL:
        question.known[errand.row] = number != NONE
    if question.dues == NULL:
        return
    question.dues[errand.row] = NEVER
    if number != NONE:
        question.dues[errand.row] = armed_instant(shard, record_at(&shard.records, number))


cdef void answer_wave(const Question* question, Wave* wave) noexcept nogil:
    cdef uint32_t i
    wave_lock(wave)
    wave_ask_index(wave)
    wave_ask_records(wave)
    for i in range(wave.count):
        answer(question, &wave.errands[i])
    wave_unlock(wave)


cdef int look_up(const Question* question, Shard* shards) noexcept nogil:
    cdef uint64_t start = 0
    cdef Order order
    cdef Wave wave
    cdef uint64_t i
    if order_take(&order, question.count) == NO_MEMORY:
        return NO_MEMORY
    for i in range(question.count):
        order.hashes[i] = xxh64_i64(question.ids[i])
    order_sort(&order)
    while start < order.count:
        wave_gather(&wave, shards, &order.tickets[start], order.count - start)
        answer_wave(question, &wave)
        start += wave.count
    order_give(&order)
    return DONE
