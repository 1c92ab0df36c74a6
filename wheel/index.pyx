"""The id index. index.pxd says what it promises.

Removal shifts the entries behind the hole back instead of leaving a tombstone: the table looks as if the
removed id had never been there, however long it lives (Knuth, TAOCP vol. 3, 6.4, algorithm R).
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from mainspring.wheel.hash cimport xxh64_i64
from mainspring.wheel.memory cimport DONE, NO_MEMORY, memory_give, memory_take, prefetch
from mainspring.wheel.records cimport record_at
from mainspring.wheel.slab cimport NONE, Slab


cdef extern from *:
    """
    #define MAINSPRING_EACH_BYTE 0x0101010101010101ULL
    """
    const uint64_t EACH_BYTE "MAINSPRING_EACH_BYTE"
    int lowest_bit "__builtin_ctzll"(unsigned long long word) nogil


# A product instead of a remainder lets a table have any size and keeps the order of hashes.
cdef inline uint32_t home_of(uint64_t hash, uint32_t size) noexcept nogil:
    return <uint32_t>((hash >> 8 & 0xFFFFFFFFULL) * size >> 32)


cdef inline uint8_t tag_of(uint64_t hash) noexcept nogil:
    cdef uint8_t tag = <uint8_t>(hash & 0xFF)
    return tag if tag else 1


cdef inline uint32_t step(uint32_t place, uint32_t size) noexcept nogil:
    return 0 if place + 1 == size else place + 1


cdef void index_open(IndexTable* tables) noexcept nogil:
    memset(tables, 0, INDEX_TABLES * sizeof(IndexTable))


cdef void index_close(IndexTable* tables) noexcept nogil:
    cdef int i
    for i in range(INDEX_TABLES):
        memory_give(tables[i].records)
        memory_give(tables[i].tags)
    index_open(tables)


cdef uint32_t index_find(
    const IndexTable* tables, const Slab* records, int64_t id, uint64_t hash,
) noexcept nogil:
    cdef const IndexTable* table = table_of(tables, hash)
    cdef uint8_t tag = tag_of(hash)
    cdef uint32_t place
    if table.used == 0:
        return NONE
    place = home_of(hash, table.size)
    while table.tags[place]:
        if table.tags[place] == tag and record_at(records, table.records[place]).id == id:
            return table.records[place]
        place = step(place, table.size)
    return NONE


cdef uint32_t index_guess(const IndexTable* tables, uint64_t hash) noexcept nogil:
    cdef const IndexTable* table = table_of(tables, hash)
    cdef uint8_t tag = tag_of(hash)
    cdef uint32_t place
    if table.used == 0:
        return NONE
    place = home_of(hash, table.size)
    while table.tags[place]:
        if table.tags[place] == tag:
            return table.records[place]
        place = step(place, table.size)
    return NONE


cdef void index_foresee(const IndexTable* tables, uint64_t hash) noexcept nogil:
    cdef const IndexTable* table = table_of(tables, hash)
    cdef uint32_t place = home_of(hash, table.size)
    if table.used:
        prefetch(&table.tags[place])
        prefetch(&table.records[place])


cdef void index_foresee_all(
    const IndexTable* tables, const uint64_t* hashes, uint32_t count,
) noexcept nogil:
    cdef uint32_t i
    for i in range(count):
        index_foresee(tables, hashes[i])


# The highest bit of each byte that is zero, exact up to the first such byte.
cdef inline uint64_t zero_bytes(uint64_t word) noexcept nogil:
    return (word - EACH_BYTE) & ~word & EACH_BYTE << 7


# Eight places at a time, in the byte order of a small machine: without a branch for each there is none to be
# guessed wrong. False: it takes a closer look.
cdef inline bint is_near_home(const IndexTable* table, uint32_t number, uint64_t hash) noexcept nogil:
    cdef uint32_t place = home_of(hash, table.size)
    cdef uint64_t tags, same
    if place + 8 > table.size:
        return False
    memcpy(&tags, &table.tags[place], 8)
    same = zero_bytes(tags ^ tag_of(hash) * EACH_BYTE)
    same &= ~same + 1
    if same == 0 or zero_bytes(tags) & (same - 1):
        return False
    return table.records[place + (lowest_bit(same) >> 3)] == number


# Compares numbers first: the record itself is read only where another one has the same tag.
cdef inline bint finds(
    const IndexTable* table, const Slab* records, uint32_t number, uint64_t hash,
) noexcept nogil:
    cdef uint8_t tag = tag_of(hash)
    cdef uint32_t place
    if table.used == 0:
        return False
    place = home_of(hash, table.size)
    while table.tags[place]:
        if table.tags[place] == tag:
            if table.records[place] == number:
                return True
            if record_at(records, table.records[place]).id == record_at(records, number).id:
                return False
        place = step(place, table.size)
    return False


cdef bint index_finds_all(
    const IndexTable* tables, const Slab* records, const uint32_t* numbers, const uint64_t* hashes,
    uint32_t count,
) noexcept nogil:
    cdef const IndexTable* table
    cdef uint32_t i
    for i in range(count):
        table = table_of(tables, hashes[i])
        if not is_near_home(table, numbers[i], hashes[i]) and not finds(table, records, numbers[i], hashes[i]):
            return False
    return True


cdef uint64_t index_entries(const IndexTable* tables) noexcept nogil:
    cdef uint64_t entries = 0
    cdef uint32_t place
    cdef int i
    for i in range(INDEX_TABLES):
        for place in range(0, tables[i].size, 16):      # numbers a line
            prefetch(&tables[i].records[place])
        for place in range(tables[i].size):
            entries += tables[i].tags[place] != 0
    return entries


cdef void put(IndexTable* table, uint64_t hash, uint32_t record) noexcept nogil:
    cdef uint32_t place = home_of(hash, table.size)
    while table.tags[place]:
        place = step(place, table.size)
    table.tags[place] = tag_of(hash)
    table.records[place] = record
    table.used += 1


cdef void refill(IndexTable* table, const IndexTable* old, const Slab* records) noexcept nogil:
    cdef uint32_t i
    for i in range(old.size):
        # The ids are needed again for their hashes; asked for ahead, their lines arrive side by side.
        if i + 16 < old.size and old.tags[i + 16]:
            prefetch(record_at(records, old.records[i + 16]))
        if old.tags[i]:
            put(table, xxh64_i64(record_at(records, old.records[i]).id), old.records[i])


cdef int resize(IndexTable* table, const Slab* records, uint32_t size) noexcept nogil:
    cdef IndexTable wider
    wider.size, wider.used = size, 0
    wider.records = <uint32_t*>memory_take(size * sizeof(uint32_t))
    wider.tags = <uint8_t*>memory_take(size)
    if wider.records == NULL or wider.tags == NULL:
        memory_give(wider.records)
        memory_give(wider.tags)
        return NO_MEMORY
    memset(wider.tags, 0, size)
    refill(&wider, table, records)
    memory_give(table.records)
    memory_give(table.tags)
    table[0] = wider
    return DONE


cdef int make_room(IndexTable* table, const Slab* records, uint32_t more) noexcept nogil:
    cdef uint64_t wanted = <uint64_t>table.used + more
    if wanted * 4 <= <uint64_t>table.size * 3:
        return DONE
    return resize(table, records, <uint32_t>max(wanted * 4 // 3 + 2, <uint64_t>table.size + table.size // 4))


cdef int index_reserve(IndexTable* tables, const Slab* records, uint64_t hash) noexcept nogil:
    return make_room(table_of(tables, hash), records, 1)


# The hash spreads the ids unevenly by a root of the count; without the margin most tables would grow at once.
cdef int index_presize(IndexTable* tables, const Slab* records, uint32_t jobs) noexcept nogil:
    cdef uint32_t each = jobs // INDEX_TABLES
    cdef uint32_t margin = 0
    cdef int i
    while margin * margin < each * 9:
        margin += 1
    for i in range(INDEX_TABLES):
        if make_room(&tables[i], records, each + margin) == NO_MEMORY:
            return NO_MEMORY
    return DONE


cdef void index_insert(IndexTable* tables, uint64_t hash, uint32_t record) noexcept nogil:
    put(table_of(tables, hash), hash, record)


cdef uint32_t place_of(const IndexTable* table, uint64_t hash, uint32_t record) noexcept nogil:
    cdef uint32_t place = home_of(hash, table.size)
    while table.tags[place]:
        if table.records[place] == record:
            return place
        place = step(place, table.size)
    return NONE


# Whether an entry whose home is `home` may move from `place` back to `hole`: only if its home is not
# between the two, going round.
cdef inline bint may_move(uint32_t home, uint32_t hole, uint32_t place) noexcept nogil:
    if hole <= place:
        return home <= hole or home > place
    return place < home <= hole


# Whether an entry may move is asked of its record. All that may be asked are named by the table, so their
# lines are sent for before the first is read.
cdef void foresee_run(const IndexTable* table, const Slab* records, uint32_t place) noexcept nogil:
    while table.tags[place]:
        prefetch(record_at(records, table.records[place]))
        place = step(place, table.size)


cdef void close_hole(IndexTable* table, const Slab* records, uint32_t hole) noexcept nogil:
    cdef uint32_t place = step(hole, table.size)
    cdef uint64_t hash
    foresee_run(table, records, place)
    while table.tags[place]:
        hash = xxh64_i64(record_at(records, table.records[place]).id)
        if may_move(home_of(hash, table.size), hole, place):
            table.tags[hole], table.records[hole] = table.tags[place], table.records[place]
            hole = place
        place = step(place, table.size)
    table.tags[hole] = 0


cdef void index_remove(IndexTable* tables, const Slab* records, uint32_t record) noexcept nogil:
    cdef uint64_t hash = xxh64_i64(record_at(records, record).id)
    cdef IndexTable* table = table_of(tables, hash)
    cdef uint32_t place = place_of(table, hash, record) if table.used else <uint32_t>NONE
    if place == NONE:
        return
    table.used -= 1
    close_hole(table, records, place)


cdef size_t index_bytes(const IndexTable* tables) noexcept nogil:
    cdef size_t total = 0
    cdef int i
    for i in range(INDEX_TABLES):
        total += <size_t>tables[i].size * 5
    return total
