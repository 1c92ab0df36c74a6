"""Evacuation of blob pages. evacuate.pxd says what it promises."""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memset

from mainspring.wheel.blobs cimport (
    blob_at, blobs_age, blobs_give, blobs_is_aged, blobs_reserve, blobs_take,
)
from mainspring.wheel.memory cimport DONE, NO_MEMORY, PageSource, prefetch, source_prepare
from mainspring.wheel.pthread cimport (
    pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock,
)
from mainspring.wheel.records cimport (
    LINES_MASK, LIVE, Record, blob_lines, head_blob_bytes, record_at,
)
from mainspring.wheel.shard cimport Shard, shard_lock, shard_unlock
from mainspring.wheel.slab cimport NONE


cdef enum:
    AHEAD = 16              # records between asking for a blob and moving it
    PAGES_A_SLICE = 4       # prepared before the lock; what blobs of the usual size can need


# ------------------------------------------------------------------------------- one shard, locked


cdef int move_blob(Shard* shard, Record* record) noexcept nogil:
    cdef char* old_at = blob_at(&shard.blobs, record.blob)
    cdef uint32_t size = head_blob_bytes((<uint32_t*>old_at)[0])
    cdef uint32_t blob
    if blobs_reserve(&shard.blobs, size) == NO_MEMORY:
        return NO_MEMORY
    blob = blobs_take(&shard.blobs, size)
    memcpy(blob_at(&shard.blobs, blob), old_at, size)
    blobs_give(&shard.blobs, record.blob, size)
    record.blob = blob
    record.flags = record.flags & ~<int>LINES_MASK | blob_lines(blob_at(&shard.blobs, blob), size)
    return DONE


cdef inline bint must_move(const Shard* shard, const Record* record) noexcept nogil:
    return record.flags & LIVE and record.blob != NONE and blobs_is_aged(&shard.blobs, record.blob)


cdef inline void ask_blob(const Shard* shard, uint32_t number) noexcept nogil:
    cdef const Record* record
    if number >= shard.records.used:
        return
    record = record_at(&shard.records, number)
    if must_move(shard, record):
        prefetch(blob_at(&shard.blobs, record.blob))
        prefetch(blob_at(&shard.blobs, record.blob) + 63)


# Records made meanwhile have their blobs on new pages, so one pass over the numbers is enough.
cdef int move_slice(Shard* shard) noexcept nogil:
    cdef uint32_t stop = min(shard.evacuated + SLICE, shard.records.used)
    cdef Record* record
    while shard.evacuated < stop:
        ask_blob(shard, shard.evacuated + AHEAD)
        record = record_at(&shard.records, shard.evacuated)
        if must_move(shard, record) and move_blob(shard, record) == NO_MEMORY:
            return NO_MEMORY
        shard.evacuated += 1
    if stop == shard.records.used:
        shard.evacuated = NONE
    return DONE


# ------------------------------------------------------------------------------------- all shards


cdef void evacuations_open(Evacuations* evacuations) noexcept nogil:
    memset(evacuations, 0, sizeof(Evacuations))
    pthread_mutex_init(&evacuations.lock, NULL)


cdef void evacuations_close(Evacuations* evacuations) noexcept nogil:
    pthread_mutex_destroy(&evacuations.lock)


cdef void evacuation_begin(Evacuations* evacuations, Shard* shard) noexcept nogil:
    pthread_mutex_lock(&evacuations.lock)
    if evacuations.count < MOVING_MAX:
        evacuations.shards[evacuations.count] = shard.number
        evacuations.count += 1
        shard.evacuated = 0
        blobs_age(&shard.blobs)
    pthread_mutex_unlock(&evacuations.lock)


# The number of a shard whose slice is owed, or NONE.
cdef uint32_t next_owed(Evacuations* evacuations) noexcept nogil:
    cdef uint32_t number = NONE
    pthread_mutex_lock(&evacuations.lock)
    if evacuations.count == 0:
        evacuations.owed = 0
    elif evacuations.owed >= SLICE:
        evacuations.owed -= SLICE
        evacuations.turn += 1
        number = evacuations.shards[evacuations.turn % evacuations.count]
    pthread_mutex_unlock(&evacuations.lock)
    return number


cdef void finish(Evacuations* evacuations, uint32_t number) noexcept nogil:
    cdef uint32_t i
    pthread_mutex_lock(&evacuations.lock)
    for i in range(evacuations.count):
        if evacuations.shards[i] == number:
            evacuations.count -= 1
            evacuations.shards[i] = evacuations.shards[evacuations.count]
            break
    pthread_mutex_unlock(&evacuations.lock)


# Leaving the list stays within the shard's lock, lest it begin anew in between and be struck off for that.
cdef int work_on(Evacuations* evacuations, Shard* shard) noexcept nogil:
    cdef int code = DONE
    shard_lock(shard)
    if shard.evacuated != NONE:
        code = move_slice(shard)
    if shard.evacuated == NONE:
        finish(evacuations, shard.number)
    shard_unlock(shard)
    return code


cdef void owe(Evacuations* evacuations, uint64_t rows) noexcept nogil:
    pthread_mutex_lock(&evacuations.lock)
    evacuations.owed += rows * RECORDS_A_ROW
    pthread_mutex_unlock(&evacuations.lock)


cdef void evacuation_work(
    Evacuations* evacuations, Shard* shards, PageSource* source, uint64_t rows,
) noexcept nogil:
    cdef uint32_t number
    # Read without the lock: mostly there is nothing to do, and a row more or less is no matter.
    if evacuations.count == 0:
        return
    owe(evacuations, rows)
    number = next_owed(evacuations)
    while number != NONE:
        if source_prepare(source, PAGES_A_SLICE) == NO_MEMORY:
            return
        if work_on(evacuations, &shards[number]) == NO_MEMORY:
            return
        number = next_owed(evacuations)
