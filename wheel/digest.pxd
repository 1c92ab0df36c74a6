"""One definition as a number, so that what the wheel holds can be held against what Postgres holds.

    told.id, told.kind, ... = ...                       # every field, see Told
    digest = digest_of(&told)

Two definitions that say the same have one digest, whether they lie in a record or in a row and in whatever
process; any difference gives another one, but for one chance in 2**64. A shard's digest is the sum over its
jobs, so that it can be added up in any order and mended by what an edit takes away and brings. Numbers of
routes and expressions differ from process to process: their names stand in for them (digest_of_text).

digest_walk.pxd adds up a shard.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from mainspring.wheel.registry cimport Registry


# What a definition says. Absent: starts_at INT64_MIN, ends_at INT64_MAX, boost_every 0, phase and jitter -1.
# What has no bearing is as if absent: the end of a boost that is none.
ctypedef struct Told:
    int64_t id
    uint8_t kind
    uint8_t enabled
    uint8_t catch_up
    bint uuid_key
    uint64_t schedule       # every_s, the expression's name, or run_at
    uint64_t route          # its name
    int64_t starts_at
    int64_t ends_at
    int64_t boost_until
    int64_t boost_every
    int64_t phase
    int64_t jitter
    const uint8_t* key      # as a blob holds it
    uint32_t key_bytes
    const uint8_t* data
    uint32_t data_bytes


# By the numbers of routes and expressions: what digest_of_text gave, in the place of a pointer.
ctypedef struct Names:
    Registry routes
    Registry crons


# Of a shard; zero where nobody asks for it. Read and written under the shard's lock.
ctypedef struct Digest:
    uint32_t upto           # records below it are in the sum, and stay in it through every edit
    uint64_t sum
    const Names* names


cdef uint64_t digest_of(const Told* told) noexcept nogil
cdef uint64_t digest_of_text(const uint8_t* text, uint32_t size) noexcept nogil
