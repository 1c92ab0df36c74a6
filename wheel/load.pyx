"""Filling an empty wheel. load.pxd says what it promises."""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

from mainspring.wheel.batch cimport Batch
from mainspring.wheel.build cimport Builder, build_shard, builder_close, builder_open
from mainspring.wheel.core cimport Core, clear_all
from mainspring.wheel.memory cimport DONE, NO_MEMORY, PAGE_BYTES, source_prepare
from mainspring.wheel.pthread cimport (
    pthread_cond_broadcast, pthread_cond_destroy, pthread_cond_init, pthread_cond_wait,
    pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock,
)
from mainspring.wheel.records cimport Record
from mainspring.wheel.shard cimport SHARDS, Shard, shard_clear, shard_lock, shard_unlock
from mainspring.wheel.slab cimport NONE
from mainspring.wheel.stage cimport stage_add, stage_bytes, stage_close, stage_give, stage_open, stage_rows


cdef void load_open(Load* load, Core* core) noexcept nogil:
    memset(load, 0, sizeof(Load))
    load.core = core
    stage_open(&load.stage, &core.source, core.shards)
    pthread_mutex_init(&load.lock, NULL)
    pthread_cond_init(&load.over, NULL)


cdef void load_close(Load* load) noexcept nogil:
    stage_close(&load.stage)
    pthread_cond_destroy(&load.over)
    pthread_mutex_destroy(&load.lock)


cdef int load_add(Load* load, Batch* batch, uint64_t* row) noexcept nogil:
    return stage_add(&load.stage, batch, row)


# The number of a shard that is this thread's to build, or NONE.
cdef uint32_t claim(Load* load) noexcept nogil:
    cdef uint32_t number = NONE
    pthread_mutex_lock(&load.lock)
    if load.code == DONE and load.next_shard < SHARDS:
        number = load.next_shard
        load.next_shard += 1
    pthread_mutex_unlock(&load.lock)
    return number


# Pages for the shard's jobs, obtained before its lock: rows as staged are never larger than as they will stand.
cdef int prepare(Load* load, uint32_t number) noexcept nogil:
    cdef uint64_t size = stage_bytes(&load.stage, number)
    size += stage_rows(&load.stage, number) * sizeof(Record)
    return source_prepare(&load.core.source, <uint32_t>(size // PAGE_BYTES))


# A shard whose jobs were all deleted still has their room: it begins anew.
cdef int build_one(Load* load, uint32_t number, Builder* builder) noexcept nogil:
    cdef Shard* shard = &load.core.shards[number]
    cdef int code
    if prepare(load, number) == NO_MEMORY:
        return NO_MEMORY
    shard_lock(shard)
    shard_clear(shard)
    code = build_shard(shard, &load.stage, builder)
    shard_unlock(shard)
    if code == DONE:
        stage_give(&load.stage, number)
    return code


cdef int build_claimed(Load* load, Builder* builder) noexcept nogil:
    cdef uint32_t number = claim(load)
    cdef int code = DONE
    while number != NONE and code == DONE:
        code = build_one(load, number, builder)
        number = claim(load)
    return code


cdef uint32_t largest(const Load* load) noexcept nogil:
    cdef uint32_t most = 0
    cdef uint32_t number
    for number in range(SHARDS):
        most = max(most, stage_rows(&load.stage, number))
    return most


cdef int build_some(Load* load, uint32_t rows) noexcept nogil:
    cdef Builder builder
    cdef int code = builder_open(&builder, rows)
    if code == DONE:
        code = build_claimed(load, &builder)
        builder_close(&builder)
    return code


# Counted among the builders; how many rows the largest shard has is told while none of them is built.
cdef uint32_t enter(Load* load) noexcept nogil:
    cdef uint32_t rows
    pthread_mutex_lock(&load.lock)
    if load.builders == 0 and load.next_shard == 0:
        load.most_rows = largest(load)
    load.builders += 1
    rows = load.most_rows
    pthread_mutex_unlock(&load.lock)
    return rows


# The last one out after a failure takes back what has been built.
cdef int leave(Load* load, int code) noexcept nogil:
    pthread_mutex_lock(&load.lock)
    load.builders -= 1
    if code != DONE:
        load.code = code
    if load.builders == 0:
        if load.code != DONE:
            clear_all(load.core)
        pthread_cond_broadcast(&load.over)
    while load.builders:
        pthread_cond_wait(&load.over, &load.lock)
    code = load.code
    pthread_mutex_unlock(&load.lock)
    return code


cdef int load_build(Load* load) noexcept nogil:
    cdef uint32_t rows = enter(load)
    return leave(load, build_some(load, rows))
