"""The digest of a shard: of each definition that its records hold, whatever goes on meanwhile.

    with the shard's lock held:
        digest_begin(shard, &names)
        while digest_slice(shard): ...                  # MORE; let go of the lock between two slices
        shard.digest.sum, shard.jobs                    # true of this and of every later moment
        digest_end(shard)

Nothing is kept a job: digests are worked out from the definitions, record after record in order. An edit of a
record that has been passed takes its old digest out of the sum and adds the new one, so the sum is exact at
every moment from the end of the walk on, and an edit costs nothing while nobody walks.

    digest_lose(shard, number)      # just before a record's definition goes
    digest_gain(shard, number)      # once it has a new one

    count = digest_list(shard, &from, ids, digests, room)       # each job's, a slice a call; 0: that was all
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from mainspring.wheel.digest cimport Digest, Names
from mainspring.wheel.edit cimport Definition_t
from mainspring.wheel.memory cimport unlikely
from mainspring.wheel.shard cimport Shard


cdef enum:
    DIGEST_SLICE = 512      # records a hold of the lock


cdef void digest_begin(Shard* shard, const Names* names) noexcept nogil
cdef bint digest_slice(Shard* shard) noexcept nogil             # whether there are more
cdef void digest_end(Shard* shard) noexcept nogil
cdef uint64_t digest_of_record(const Shard* shard, const Names* names, uint32_t number) noexcept nogil

# What a row that was judged good will add to its shard's sum once it is applied.
cdef uint64_t digest_of_row(const Definition_t* row, const uint8_t* texts, const Names* names) noexcept nogil

# The live jobs among the next records after `passed`, which moves on; those of one slice fit into `ids`.
cdef uint32_t digest_list(
    const Shard* shard, const Names* names, uint32_t* passed, int64_t* ids, uint64_t* digests,
) noexcept nogil


cdef inline void digest_lose(Shard* shard, uint32_t number) noexcept nogil:
    if unlikely(number < shard.digest.upto):
        shard.digest.sum -= digest_of_record(shard, shard.digest.names, number)


cdef inline void digest_gain(Shard* shard, uint32_t number) noexcept nogil:
    if unlikely(number < shard.digest.upto):
        shard.digest.sum += digest_of_record(shard, shard.digest.names, number)
