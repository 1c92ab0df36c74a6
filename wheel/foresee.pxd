"""Asking for the memory an edit will touch, a step at a time, so that the waits of many rows overlap.

    foresee_shard(shard, hash)                  # no lock: computes addresses alone
    with the shard's lock held, for each row, and each step for all rows before the next:
        foresee_index(shard, hash)
        foresee_record(shard, hash)
        moves = foresee_lists(shard, hash, due) # its blob; if it moves, its entry, and the lists from and to
        foresee_chunks(shard, hash, due)        # if it moves: the newest chunks of both lists
        foresee_neighbour(shard, hash)          # if it moves: the record whose entry takes its place

A step reads only what the one before asked for. Nothing here changes anything, and nothing need be asked for:
an edit that finds its memory far away only takes longer.
"""

from libc.stdint cimport int64_t, uint64_t

from mainspring.wheel.shard cimport Shard


cdef void foresee_shard(const Shard* shard, uint64_t hash) noexcept nogil
cdef void foresee_index(const Shard* shard, uint64_t hash) noexcept nogil
cdef void foresee_record(const Shard* shard, uint64_t hash) noexcept nogil

# `due`: the instant it will probably be armed for, NEVER for none or unknown.
cdef bint foresee_lists(Shard* shard, uint64_t hash, int64_t due) noexcept nogil
cdef void foresee_chunks(Shard* shard, uint64_t hash, int64_t due) noexcept nogil
cdef void foresee_neighbour(Shard* shard, uint64_t hash) noexcept nogil
