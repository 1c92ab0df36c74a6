"""One shard out of its staged rows, laid in the order in which its jobs fire.

    if builder_open(&builder, rows) == NO_MEMORY: ...   # room for a shard of so many rows; one a thread
    with the shard's lock held:
        code = build_shard(shard, &stage, &builder)     # NO_MEMORY: clear the shard
    builder_close(&builder)

Jobs of one interval that are due in the same second stay so for ever. Their records lie side by side, and so
do their blobs, so that a drain reads memory in a row, where the machine reads ahead by itself. Everything a
shard needs for that fits the caches: its rows are looked at once, in order, for their instants; what
is sorted is 16 bytes a row; then records, blobs, index and lists are written in their final order and size.
"""

from libc.stdint cimport uint32_t, uint64_t

from mainspring.wheel.shard cimport Shard
from mainspring.wheel.stage cimport Stage, Staged


cdef enum:
    CLASSES = 128           # jobs are laid by class, then by when they are due
    CRON_CLASSES = 64       # the upper half of them, less the last two
    DUE_BITS = 12
    DUES = 4096             # a second each within the horizon, then an hour each
    AHEAD = 24              # rows between asking for a staged row and laying it
    SOON = 8                # likewise for its place in the index
    SURVEYED_AHEAD = 768    # bytes, of staged rows in a row
    WRITTEN_AHEAD = 256     # bytes, of blobs in a row


ctypedef struct Item:
    Staged* staged
    uint32_t next           # as in a record
    uint32_t key            # while sorting; then the place of an older row of the same job, or NONE


ctypedef struct Builder:
    Item* items
    Item* sorted            # by the first of two passes
    uint32_t room
    uint32_t count
    bint contested          # some job has several rows
    uint32_t tables[16]     # jobs by table of the index
    uint64_t hashes[8]      # of the rows ahead


cdef int builder_open(Builder* builder, uint32_t rows) noexcept nogil
cdef void builder_close(Builder* builder) noexcept nogil
cdef int build_shard(Shard* shard, Stage* stage, Builder* builder) noexcept nogil
