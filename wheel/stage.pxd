"""Rows on their way into an empty wheel: each judged and written once, side by side with others of its shard.

    code = stage_add(&stage, &batch, &row)              # ACCEPTED, REFUSED_..., NO_MEMORY; any thread
    walk_begin(&walk, &writer.tails[shard])             # then, when no thread adds any more
    staged = walk_next(&walk)                           # NULL at the end
    stage_give(&stage, shard)                           # its pages go back to the source, what they hold is moved

A row is read where it lies, in order, and appended to the pages of its shard in the form its record and its
blob will have: no sorting, no gathering, no lock a row. Each call has a writer of its own, which has a page
under way for each shard; a writer serves one call after the other. A call that is refused or finds no memory
takes back all that it has written.
"""

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

from mainspring.wheel.batch cimport Batch
from mainspring.wheel.blobs cimport SMALL_UNITS, units_of
from mainspring.wheel.memory cimport PAGE_BYTES, PageSource
from mainspring.wheel.pthread cimport pthread_mutex_t
from mainspring.wheel.records cimport SEEN, Rare, head_data_bytes, head_key_bytes
from mainspring.wheel.shard cimport SHARDS, Shard


cdef enum:
    REFUSED_NO_LOAD = 100   # an op other than OP_LOAD; beside the refusals of batch.pxd
    JUDGED = 256            # rows judged before the first of them is written: they stay in the cache
    UNCOMMON = SEEN         # flag of a staged row: an Uncommon follows it
    HEAD_BYTES = 64         # of a page: rows of a line's size then lie in one line each
    STAGGERS = 64           # shards whose first pages begin at different bytes,
    STAGGER_BYTES = 128     # so far apart: else all tails would ask for the same few sets of a cache


# Follows: an Uncommon, where flagged; then key and payload as a blob holds them, or a pointer to the whole
# blob where that is one of those that lie on no page. A multiple of eight bytes in all.
ctypedef struct Staged:
    int64_t id
    uint32_t call           # that brought it: of two rows of one job the later holds
    uint32_t schedule       # this and the rest as in a record
    uint32_t head           # of its blob; 0: has none
    uint16_t route
    uint16_t flags


ctypedef struct Uncommon:
    Rare rare
    uint32_t seq
    uint32_t is_rare        # has more to it than a seq


ctypedef struct StagePage:
    StagePage* next
    uint32_t number         # in its list, from 0
    uint32_t used           # bytes, once there is a next page
    uint32_t begin          # where its rows begin


# Where a writer stands in the pages of one shard; both NULL before the first.
ctypedef struct Tail:
    char* at
    char* end               # of the newest page
    StagePage* first


ctypedef struct Writer:
    Writer* next
    bint busy
    uint32_t call
    uint32_t rows[256]      # by shard
    uint32_t rows_before[256]   # this call
    Tail tails[256]
    Tail tails_before[256]


ctypedef struct Stage:
    pthread_mutex_t lock    # of the list of writers alone
    PageSource* source
    const Shard* shards
    Writer* writers
    uint32_t calls


ctypedef struct Walk:
    const Tail* tail
    StagePage* page
    char* at
    char* end


cdef void stage_open(Stage* stage, PageSource* source, const Shard* shards) noexcept nogil
cdef void stage_close(Stage* stage) noexcept nogil       # with all that is still in it

# All of the batch or nothing. `row` is told where a row is refused.
cdef int stage_add(Stage* stage, Batch* batch, uint64_t* row) noexcept nogil
cdef uint32_t stage_rows(const Stage* stage, uint32_t shard) noexcept nogil
cdef uint64_t stage_bytes(const Stage* stage, uint32_t shard) noexcept nogil
cdef void stage_give(Stage* stage, uint32_t shard) noexcept nogil

cdef void walk_begin(Walk* walk, const Tail* tail) noexcept nogil


cdef inline bint is_large(uint32_t head) noexcept nogil:
    return head != 0 and units_of(4 + head_key_bytes(head) + head_data_bytes(head)) > SMALL_UNITS


cdef inline uint32_t staged_bytes(uint32_t head, uint16_t flags) noexcept nogil:
    cdef uint32_t texts = head_key_bytes(head) + head_data_bytes(head)
    if is_large(head):
        texts = sizeof(void*)
    if flags & UNCOMMON:
        texts += sizeof(Uncommon)
    return (<uint32_t>sizeof(Staged) + texts + 7) & ~<uint32_t>7


cdef inline Uncommon* uncommon_of(const Staged* staged) noexcept nogil:
    return <Uncommon*>(staged + 1) if staged.flags & UNCOMMON else NULL


cdef inline uint32_t seq_of(const Staged* staged) noexcept nogil:
    return uncommon_of(staged).seq if staged.flags & UNCOMMON else 0


cdef inline char* texts_of(const Staged* staged) noexcept nogil:
    return <char*>(staged + 1) + (sizeof(Uncommon) if staged.flags & UNCOMMON else 0)


# Of a row with a large blob; NULL once the blob has found its place.
cdef inline void** large_of(const Staged* staged) noexcept nogil:
    return <void**>texts_of(staged)


cdef inline char* first_of(const StagePage* page) noexcept nogil:
    return <char*>page + page.begin


cdef inline StagePage* page_of(const void* staged) noexcept nogil:
    return <StagePage*>(<size_t>staged & ~<size_t>(PAGE_BYTES - 1))


# Whether one row came after another, both of one shard.
cdef inline bint came_after(const Staged* staged, const Staged* other) noexcept nogil:
    if staged.call != other.call:
        return staged.call > other.call
    if page_of(staged) != page_of(other):
        return page_of(staged).number > page_of(other).number
    return staged > other


cdef inline void turn_page(Walk* walk) noexcept nogil:
    walk.page = walk.page.next
    walk.at = first_of(walk.page)
    walk.end = walk.tail.at if walk.page.next == NULL else <char*>walk.page + walk.page.used


cdef inline Staged* walk_next(Walk* walk) noexcept nogil:
    cdef Staged* staged
    while walk.at == walk.end:
        if walk.page == NULL or walk.page.next == NULL:
            return NULL
        turn_page(walk)
    staged = <Staged*>walk.at
    walk.at += staged_bytes(staged.head, staged.flags)
    return staged
