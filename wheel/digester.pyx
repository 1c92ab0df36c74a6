"""Digester: what Python sees of the digests of a wheel. digester.pyi says what it promises."""

import numpy as np

cimport cython
cimport numpy as cnp
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from mainspring.wheel.core cimport Core
from mainspring.wheel.digest_walk cimport (
    DIGEST_SLICE, digest_begin, digest_end, digest_list, digest_slice,
)
from mainspring.wheel.hash cimport shard_of_hash, xxh64_i64
from mainspring.wheel.shard cimport SHARDS, Shard, shard_lock, shard_unlock
from mainspring.wheel.wheel cimport Wheel

cnp.import_array()


def shards_of(cnp.ndarray ids not None) -> np.ndarray:
    cdef cnp.ndarray jobs = ids_of(ids)
    cdef cnp.ndarray shards = np.empty(len(jobs), np.uint8)
    cdef const int64_t* at = <const int64_t*>cnp.PyArray_DATA(jobs)
    cdef uint8_t* to = <uint8_t*>cnp.PyArray_DATA(shards)
    cdef int64_t i, count = len(jobs)
    with nogil:
        for i in range(count):
            to[i] = <uint8_t>shard_of_hash(xxh64_i64(at[i]))
    return shards


cdef cnp.ndarray ids_of(cnp.ndarray ids):
    if ids.dtype != np.int64 or ids.ndim != 1:
        raise TypeError(f"ids: give one dimension of int64, not {ids.ndim} of {ids.dtype}")
    return np.require(ids, np.int64, "CA")


cdef void begin_all(Wheel wheel) noexcept:
    cdef int s
    for s in range(SHARDS):
        shard_lock(&wheel.core.shards[s])
        digest_begin(&wheel.core.shards[s], &wheel.names)
        shard_unlock(&wheel.core.shards[s])


cdef void walk_shard(Shard* shard) noexcept nogil:
    cdef bint more = True
    while more:
        shard_lock(shard)
        more = digest_slice(shard)
        shard_unlock(shard)


cdef void read_sums(Core* core, uint64_t* sums, int64_t* jobs) noexcept nogil:
    cdef int s
    for s in range(SHARDS):
        shard_lock(&core.shards[s])
        sums[s], jobs[s] = core.shards[s].digest.sum, <int64_t>core.shards[s].jobs
        shard_unlock(&core.shards[s])


cdef void end_all(Core* core) noexcept nogil:
    cdef int s
    for s in range(SHARDS):
        shard_lock(&core.shards[s])
        digest_end(&core.shards[s])
        shard_unlock(&core.shards[s])


@cython.no_gc_clear
cdef class Digester:
    cdef Wheel wheel
    cdef bint open, begun, walking, walked

    def __cinit__(self, Wheel wheel not None):
        wheel.require_whole()
        if wheel.digesting:
            raise RuntimeError("another digester is open on this wheel: close it first")
        self.wheel, self.open, self.begun, wheel.digesting = wheel, True, True, True
        begin_all(wheel)

    def __dealloc__(self):
        self.end()

    def __enter__(self) -> Digester:
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    # A walk in another thread would set the shards going again, so it ends them itself.
    cdef void end(self):
        self.open = False
        if self.begun and not self.walking:
            end_all(&self.wheel.core)
            self.begun = self.wheel.digesting = False

    cdef int require_open(self) except -1:
        if not self.open:
            raise RuntimeError("this digester is closed: make another")
        return 0

    def walk(self) -> None:
        cdef int s
        self.require_open()
        if self.walking or self.walked:
            raise RuntimeError("a digester walks once: make another")
        self.walking = True
        with nogil:
            for s in range(SHARDS):
                walk_shard(&self.wheel.core.shards[s])
        self.walking, self.walked = False, True
        if not self.open:
            self.end()

    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        cdef cnp.ndarray sums = np.empty(SHARDS, np.uint64)
        cdef cnp.ndarray jobs = np.empty(SHARDS, np.int64)
        cdef uint64_t* to_sums = <uint64_t*>cnp.PyArray_DATA(sums)
        cdef int64_t* to_jobs = <int64_t*>cnp.PyArray_DATA(jobs)
        self.require_open()
        if not self.walked:
            raise RuntimeError("walk the wheel first")
        with nogil:
            read_sums(&self.wheel.core, to_sums, to_jobs)
        return sums, jobs

    def shard(self, shard: int) -> tuple[np.ndarray, np.ndarray]:
        cdef uint32_t passed = 0
        cdef Shard* at
        self.require_open()
        if not 0 <= shard < SHARDS:
            raise IndexError(f"shard={shard}: give 0 to {SHARDS - 1}")
        at = &self.wheel.core.shards[<int>shard]
        slices = [(np.empty(0, np.int64), np.empty(0, np.uint64))]
        while passed < at.records.used:
            slices.append(self.slice(at, &passed))
        ids, digests = zip(*slices)
        return np.concatenate(ids), np.concatenate(digests)

    cdef tuple slice(self, Shard* shard, uint32_t* passed):
        cdef cnp.ndarray ids = np.empty(DIGEST_SLICE, np.int64)
        cdef cnp.ndarray digests = np.empty(DIGEST_SLICE, np.uint64)
        cdef int64_t* to_ids = <int64_t*>cnp.PyArray_DATA(ids)
        cdef uint64_t* to_digests = <uint64_t*>cnp.PyArray_DATA(digests)
        cdef uint32_t count
        with nogil:
            shard_lock(shard)
            count = digest_list(shard, &self.wheel.names, passed, to_ids, to_digests)
            shard_unlock(shard)
        return ids[:count], digests[:count]

    def close(self) -> None:
        self.end()
