"""A batch of changes: judged whole, sorted by shard, then applied shard by shard, 256 rows a lock hold.

    refusal = batch_refusal(&batch, &row)               # before anything: REFUSED_... and the row it is about
    code = batch_apply(&batch, shards, source)          # NO_MEMORY: `applied` says how far it came

Rows of one job keep their order. A retry after NO_MEMORY is safe: what was applied is not
newer the second time.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from mainspring.wheel.edit cimport Definition_t
from mainspring.wheel.memory cimport PageSource
from mainspring.wheel.shard cimport Shard


cdef enum:
    HOLD = 256


cdef enum:
    ACCEPTED = 0
    REFUSED_OP = 1
    REFUSED_KIND = 2
    REFUSED_EVERY = 3
    REFUSED_BOOST = 4
    REFUSED_ROUTE = 5
    REFUSED_CRON = 6
    REFUSED_KEY = 7
    REFUSED_DATA = 8
    REFUSED_CATCH_UP = 9


ctypedef struct Batch:
    const Definition_t* rows
    uint64_t count
    const uint8_t* texts
    uint64_t texts_bytes
    uint32_t routes         # numbers given out so far
    uint32_t crons
    uint64_t applied
    uint64_t changed


cdef int batch_refusal(const Batch* batch, uint64_t* row) noexcept nogil
cdef int batch_apply(Batch* batch, Shard* shards, PageSource* source) noexcept nogil
