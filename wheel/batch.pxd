"""A batch of changes: judged whole, sorted by shard, and applied in waves of 32 rows.

    refusal = batch_refusal(&batch, &row)               # before anything: REFUSED_... and the row it is about
    code = batch_apply(&batch, shards, source, &evacuations)    # NO_MEMORY: `applied` says how far it came

What an edit costs is waiting for memory: the index, the record, its entry, its blob, one after the other.
The rows are sorted by shard and go in waves; a wave goes over its rows once for each of these and only asks
for the lines, so that the waits of its rows overlap; then it applies them, all under one hold of its shards'
locks (wave.pxd, foresee.pxd). Rows of one job keep their order. A retry after NO_MEMORY is safe: what was
applied is not newer the second time.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from mainspring.wheel.edit cimport Definition_t
from mainspring.wheel.evacuate cimport Evacuations
from mainspring.wheel.memory cimport PageSource
from mainspring.wheel.shard cimport Shard


cdef enum:
    SIZED_FROM = 512        # rows; a smaller batch is no load, for which indexes would be sized beforehand


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
    uint32_t first_shard    # the batch begins with; threads that begin apart do not wait for each other
    Evacuations* evacuations
    uint64_t applied
    uint64_t changed


cdef int batch_refusal(const Batch* batch, uint64_t* row) noexcept nogil
cdef int batch_apply(
    Batch* batch, Shard* shards, PageSource* source, Evacuations* evacuations,
) noexcept nogil
