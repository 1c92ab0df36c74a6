"""The proof of a shard. proof.pxd says what it promises.

The shard has lain untouched for minutes. Records go in blocks: while one is judged, the chunks and the places
in the index that the next will ask for are on their way.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from mainspring.wheel.far cimport Far, FarHour, far_find
from mainspring.wheel.hash cimport xxh64_i64
from mainspring.wheel.index cimport IndexTally, index_finds_all, index_foresee_all, index_tally
from mainspring.wheel.lists cimport CHUNK_ENTRIES, chunk_at, entry_at
from mainspring.wheel.memory cimport PAGE_BYTES, memory_give, memory_take, prefetch, unlikely
from mainspring.wheel.records cimport ENABLED, FAR, IS_RARE, KIND_MASK, LIVE, Record, record_at
from mainspring.wheel.schedule cimport KIND_INTERVAL
from mainspring.wheel.shard cimport (
    HORIZON, NEVER, Shard, due_of, free_list_is_right, hour_is_over, hour_of, next_of, owed,
)
from mainspring.wheel.slab cimport NONE, Slab


cdef enum:
    BLOCK = 32
    FAR_AHEAD = 256         # records between asking for one and hashing it
    RESTS = 64              # intervals whose remainder is kept, by their low bits
    FILL_BITS = 4
    FILL_MASK = 15


# Lists by number: a second's slot plus one, then what is being drained, then the hours by their place.
cdef enum:
    DRAINING = 3601
    HOURS = 3602


ctypedef struct Block:
    uint32_t count
    uint32_t numbers[32]
    uint64_t hashes[32]


ctypedef struct Proof:
    const Shard* shard
    uint32_t* owners        # of each chunk: list << FILL_BITS | entries in it; 0 in no list
    uint64_t entries        # in all lists
    IndexTally index        # as its lines say
    uint64_t passed         # as its entries say
    uint64_t armed
    uint64_t enabled_by_kind[4]
    uint64_t paused
    uint32_t rest_every[64]
    uint32_t rests[64]      # of the newest begun second by that interval


# ------------------------------------------------------------------------------------------- lists


# In a row, as the chains do not go.
cdef void bring_in(const Slab* slab) noexcept nogil:
    cdef size_t end = <size_t>slab.used * slab.item_bytes
    cdef size_t at
    for at in range(0, end, 64):
        prefetch(slab.pages[at // PAGE_BYTES] + at % PAGE_BYTES)


# False for a chunk that is none, or in two lists.
cdef bint own_list(Proof* proof, uint32_t head, uint32_t number) noexcept nogil:
    cdef const Slab* chunks = &proof.shard.chunks
    cdef uint32_t chunk = head >> FILL_BITS
    cdef uint32_t fill = head & FILL_MASK
    while chunk != NONE:
        if chunk >= chunks.used or proof.owners[chunk]:
            return False
        proof.owners[chunk] = number << FILL_BITS | fill
        proof.entries += fill
        chunk = chunk_at(chunks, chunk).next
        fill = CHUNK_ENTRIES
    return True


cdef bint own_hours(Proof* proof) noexcept nogil:
    cdef const Shard* shard = proof.shard
    cdef uint32_t i
    cdef FarHour hour
    for i in range(shard.far.size):
        hour = shard.far.hours[i]
        if hour.hour and hour.head and hour_is_over(shard, hour.hour):
            return False
        if hour.hour and hour.head and not own_list(proof, hour.head, HOURS + i):
            return False
    return True


cdef bint own_lists(Proof* proof) noexcept nogil:
    cdef const Shard* shard = proof.shard
    cdef int slot
    if shard.draining and not own_list(proof, shard.draining, DRAINING):
        return False
    for slot in range(HORIZON):
        if shard.slots[slot] and not own_list(proof, shard.slots[slot], slot + 1):
            return False
    return own_hours(proof)


# ------------------------------------------------------------------------------------------ records


# The number of the list that a record's `next` and flag name; 0 for none.
cdef inline uint32_t list_number(const Shard* shard, const Record* record) noexcept nogil:
    cdef uint32_t ahead = record.next - <uint32_t>(shard.begun - shard.base)
    cdef const uint32_t* head
    if record.flags & FAR:
        head = far_find(<Far*>&shard.far, hour_of(shard, record.next))
        return 0 if head == NULL else HOURS + <uint32_t>(<const FarHour*>(head - 1) - shard.far.hours)
    if ahead == 0:
        return DRAINING
    return record.next % HORIZON + 1 if ahead <= HORIZON else 0


cdef inline bint stands(const Proof* proof, const Record* record, uint32_t number) noexcept nogil:
    cdef uint32_t chunk = record.position >> FILL_BITS
    cdef uint32_t owner
    if chunk >= proof.shard.chunks.used:
        return False
    owner = proof.owners[chunk]
    if owner == 0 or owner >> FILL_BITS != list_number(proof.shard, record):
        return False
    return (
        (record.position & FILL_MASK) < (owner & FILL_MASK)
        and entry_at(&proof.shard.chunks, record.position) == number
    )


# begun modulo the interval, which all jobs of one interval share: a division less for each.
cdef inline int64_t rest_of(Proof* proof, uint32_t every) noexcept nogil:
    cdef uint32_t place = every % RESTS
    cdef int64_t rest
    if unlikely(proof.rest_every[place] != every):
        rest = proof.shard.begun % <int64_t>every
        proof.rest_every[place] = every
        proof.rests[place] = <uint32_t>(rest + every if rest < 0 else rest)
    return proof.rests[place]


# shard.owed, with a short way for a plain interval that does not wait amid a drain.
cdef inline int64_t owed_now(Proof* proof, const Record* record, uint64_t hash) noexcept nogil:
    cdef const Shard* shard = proof.shard
    cdef int64_t past
    if (
        record.flags & (KIND_MASK | IS_RARE | ENABLED) != KIND_INTERVAL | ENABLED
        or due_of(shard, record) == shard.begun
    ):
        return owed(shard, record)
    past = rest_of(proof, record.schedule) - <int64_t>(hash % record.schedule)
    # No branch: half of all jobs would mislead it.
    return shard.begun - past + (record.schedule & ~(past >> 63))


cdef inline bint is_right(Proof* proof, uint32_t number, uint64_t hash) noexcept nogil:
    cdef const Record* record = record_at(&proof.shard.records, number)
    cdef int64_t due = owed_now(proof, record, hash)
    if record.flags & ENABLED:
        proof.enabled_by_kind[record.flags & KIND_MASK] += 1
    else:
        proof.paused += 1
    if due == NEVER:
        return record.next == 0
    proof.armed += 1
    return record.next == next_of(proof.shard, due) and stands(proof, record, number)


# ------------------------------------------------------------------------------------------- blocks


# The live records from one on, with the chunks they will look into asked for; gives where to go on.
cdef uint32_t fill_block(const Shard* shard, uint32_t number, Block* block) noexcept nogil:
    cdef uint32_t end = min(number + BLOCK, shard.records.used)
    cdef const Record* record
    block.count = 0
    while number < end:
        if number + FAR_AHEAD < shard.records.used:
            prefetch(record_at(&shard.records, number + FAR_AHEAD))
        record = record_at(&shard.records, number)
        if record.flags & LIVE:
            block.numbers[block.count] = number
            block.hashes[block.count] = xxh64_i64(record.id)
            block.count += 1
            if record.position >> FILL_BITS < shard.chunks.used:
                prefetch(chunk_at(&shard.chunks, record.position >> FILL_BITS))
        number += 1
    index_foresee_all(shard.index, block.hashes, block.count)
    return end


cdef bint judge_block(Proof* proof, const Block* block) noexcept nogil:
    cdef const Shard* shard = proof.shard
    cdef uint32_t i
    for i in range(block.count):
        if not is_right(proof, block.numbers[i], block.hashes[i]):
            return False
    return index_finds_all(
        shard.index, &shard.records, block.numbers, block.hashes, block.count, &proof.passed,
    )


cdef bint judge_blocks(Proof* proof) noexcept nogil:
    cdef const Shard* shard = proof.shard
    cdef Block blocks[2]
    cdef uint32_t turn = 0
    cdef uint32_t number = fill_block(shard, 0, &blocks[0])
    while blocks[turn].count or number < shard.records.used:
        number = fill_block(shard, number, &blocks[turn ^ 1])
        if not judge_block(proof, &blocks[turn]):
            return False
        turn ^= 1
    return True


# ---------------------------------------------------------------------------------------- the whole


cdef bint counts_agree(const Proof* proof) noexcept nogil:
    cdef const Shard* shard = proof.shard
    cdef uint64_t jobs = proof.paused
    cdef int kind
    for kind in range(4):
        jobs += proof.enabled_by_kind[kind]
        if shard.enabled_by_kind[kind] != proof.enabled_by_kind[kind]:
            return False
    return (
        shard.jobs == jobs == proof.index.entries and proof.passed == proof.index.passed
        and shard.paused == proof.paused and shard.armed == proof.armed == proof.entries
        and free_list_is_right(&shard.records, shard.records.used - <uint32_t>jobs)
    )


cdef bint prove(const Shard* shard) noexcept nogil:
    cdef Proof proof
    cdef size_t size = (shard.chunks.used + 1) * sizeof(uint32_t)
    cdef bint right
    memset(&proof, 0, sizeof(Proof))
    proof.shard = shard
    proof.owners = <uint32_t*>memory_take(size)
    if proof.owners == NULL:
        return False
    memset(proof.owners, 0, size)
    bring_in(&shard.chunks)
    index_tally(shard.index, &proof.index)
    right = own_lists(&proof) and judge_blocks(&proof) and counts_agree(&proof)
    memory_give(proof.owners)
    return right
