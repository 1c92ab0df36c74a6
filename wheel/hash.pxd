"""The hash that decides where and when a job runs: XXH64 of its id, and what is drawn from it.

Frozen for the life of a major version: shard, phase and spread of every stored job follow from it.
Algorithm: XXH64 (Yann Collet, https://xxhash.com), reduced to its only case here, one 8-byte input.
"""

from libc.stdint cimport int64_t, uint64_t


cdef inline uint64_t rotate_left(uint64_t x, int bits) noexcept nogil:
    return (x << bits) | (x >> (64 - bits))


cdef inline uint64_t avalanche(uint64_t h) noexcept nogil:
    h = (h ^ (h >> 33)) * 0xC2B2AE3D27D4EB4FULL
    h = (h ^ (h >> 29)) * 0x165667B19E3779F9ULL
    return h ^ (h >> 32)


# The seed variant gives a job a second, independent draw; reusing the plain hash would tie the two.
cdef inline uint64_t xxh64_i64_seeded(int64_t id, uint64_t seed) noexcept nogil:
    cdef uint64_t lane = rotate_left(<uint64_t>id * 0xC2B2AE3D27D4EB4FULL, 31) * 0x9E3779B185EBCA87ULL
    cdef uint64_t h = (seed + 0x27D4EB2F165667C5ULL + 8) ^ lane
    return avalanche(rotate_left(h, 27) * 0x9E3779B185EBCA87ULL + 0x85EBCA77C2B2AE63ULL)


cdef inline uint64_t xxh64_i64(int64_t id) noexcept nogil:
    return xxh64_i64_seeded(id, 0)


# The top byte: from the low bits a shard would see only a few of the phases of an interval.
cdef inline int shard_of_hash(uint64_t h) noexcept nogil:
    return <int>(h >> 56)


# floor(h * window / 2**64) without a 128-bit product; exact for window <= 2**32.
cdef inline int64_t spread_of_hash(uint64_t h, int64_t window_s) noexcept nogil:
    cdef uint64_t w = <uint64_t>window_s
    return <int64_t>(((h >> 32) * w + (((h & 0xFFFFFFFFULL) * w) >> 32)) >> 32)
