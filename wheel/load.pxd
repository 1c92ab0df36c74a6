"""Filling an empty wheel: rows are staged as they come, then each shard is built whole.

    load_open(&load, &core)
    code = load_add(&load, &batch, &row)                # any number of times, from any thread
    code = load_build(&load)                            # by one thread or several; NO_MEMORY: the wheel is empty
    load_close(&load)                                   # with what is staged still

Threads that build claim one shard after the other, and each comes back when all are built. Staged pages go
back to the source shard by shard, where the next shard's jobs find them, so a load needs hardly more memory
than it leaves. Nobody may edit the wheel or drain it meanwhile.
"""

from libc.stdint cimport uint32_t, uint64_t

from mainspring.wheel.batch cimport Batch
from mainspring.wheel.core cimport Core
from mainspring.wheel.pthread cimport pthread_cond_t, pthread_mutex_t
from mainspring.wheel.stage cimport Stage


ctypedef struct Load:
    Core* core
    Stage stage
    pthread_mutex_t lock    # of what follows
    pthread_cond_t over
    uint32_t next_shard     # that no thread has claimed yet
    uint32_t builders       # threads at work
    uint32_t most_rows      # of any shard
    int code


cdef void load_open(Load* load, Core* core) noexcept nogil
cdef void load_close(Load* load) noexcept nogil
cdef int load_add(Load* load, Batch* batch, uint64_t* row) noexcept nogil
cdef int load_build(Load* load) noexcept nogil
