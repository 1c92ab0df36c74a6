"""The id index. index.pxd says what it promises.

The count of what passed a full line, instead of tombstones or entries that move back, is that of F14 (Bronson
and Shi, Facebook, 2019).
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from mainspring.wheel.hash cimport xxh64_i64
from mainspring.wheel.memory cimport (
    DONE, NO_MEMORY, memory_give, memory_take_lines, prefetch,
)
from mainspring.wheel.records cimport LIVE, record_at
from mainspring.wheel.slab cimport NONE, Slab


cdef extern from "native.h" nogil:
    uint32_t equal_bytes "ms_equal_bytes"(const void* sixteen, uint8_t value)
    uint32_t lowest_bit "ms_lowest_bit"(uint32_t bits)
    uint32_t bits_in "__builtin_popcount"(uint32_t bits)


# ----------------------------------------------------------------------------------------- a line


# A bit for each place with the tag; 0 asks for the free ones. The four bytes behind the tags are left out.
cdef inline uint32_t places_of(const IndexLine* line, uint8_t tag) noexcept nogil:
    return equal_bytes(line.tags, tag) & ((1 << LINE_PLACES) - 1)


cdef inline uint8_t tag_of(uint64_t hash) noexcept nogil:
    cdef uint8_t tag = <uint8_t>(hash & 0xFF)
    return tag if tag else 1


cdef inline uint32_t find_in_line(
    const IndexLine* line, const Slab* records, int64_t id, uint8_t tag,
) noexcept nogil:
    cdef uint32_t places = places_of(line, tag)
    cdef uint32_t number
    while places:
        number = line.records[lowest_bit(places)]
        if record_at(records, number).id == id:
            return number
        places &= places - 1
    return NONE


cdef inline uint32_t place_in_line(const IndexLine* line, uint32_t record, uint8_t tag) noexcept nogil:
    cdef uint32_t places = places_of(line, tag)
    while places:
        if line.records[lowest_bit(places)] == record:
            return lowest_bit(places)
        places &= places - 1
    return NONE


# ---------------------------------------------------------------------------------------- a table


cdef inline uint32_t step(uint32_t line, uint32_t size) noexcept nogil:
    return 0 if line + 1 == size else line + 1


cdef void index_open(IndexTable* tables) noexcept nogil:
    memset(tables, 0, INDEX_TABLES * sizeof(IndexTable))


cdef void index_close(IndexTable* tables) noexcept nogil:
    cdef int i
    for i in range(INDEX_TABLES):
        memory_give(tables[i].lines)
    index_open(tables)


# Every line may have been passed, so the end of the way round ends a search too.
cdef uint32_t index_find(
    const IndexTable* tables, const Slab* records, int64_t id, uint64_t hash,
) noexcept nogil:
    cdef const IndexTable* table = table_of(tables, hash)
    cdef uint32_t at = home_of(hash, table.size)
    cdef uint32_t number, i
    for i in range(table.size):
        number = find_in_line(&table.lines[at], records, id, tag_of(hash))
        if number != NONE or table.lines[at].passed == 0:
            return number
        at = step(at, table.size)
    return NONE


cdef uint32_t index_guess(const IndexTable* tables, uint64_t hash) noexcept nogil:
    cdef const IndexTable* table = table_of(tables, hash)
    cdef uint32_t at = home_of(hash, table.size)
    cdef uint32_t places, i
    for i in range(table.size):
        places = places_of(&table.lines[at], tag_of(hash))
        if places:
            return table.lines[at].records[lowest_bit(places)]
        if table.lines[at].passed == 0:
            break
        at = step(at, table.size)
    return NONE


cdef inline void fill(IndexTable* table, IndexLine* line, uint8_t tag, uint32_t record) noexcept nogil:
    cdef uint32_t place = lowest_bit(places_of(line, 0))
    line.tags[place] = tag
    line.records[place] = record
    table.used += 1


cdef void put(IndexTable* table, uint64_t hash, uint32_t record) noexcept nogil:
    cdef uint32_t at = home_of(hash, table.size)
    while places_of(&table.lines[at], 0) == 0:
        table.lines[at].passed += 1
        at = step(at, table.size)
    fill(table, &table.lines[at], tag_of(hash), record)


cdef void index_insert(IndexTable* tables, uint64_t hash, uint32_t record) noexcept nogil:
    put(table_of(tables, hash), hash, record)


# A line that nothing passed tells all of its own jobs, and mostly has room for one more.
cdef uint32_t index_add(
    IndexTable* tables, const Slab* records, int64_t id, uint64_t hash, uint32_t record,
) noexcept nogil:
    cdef IndexTable* table = table_of(tables, hash)
    cdef IndexLine* line = &table.lines[home_of(hash, table.size)]
    cdef uint32_t known
    if line.passed == 0 and places_of(line, 0):
        known = find_in_line(line, records, id, tag_of(hash))
        if known == NONE:
            fill(table, line, tag_of(hash), record)
        return known
    known = index_find(tables, records, id, hash)
    if known == NONE:
        put(table, hash, record)
    return known


# Lines from `home` on; how many of them the entry passed on its way.
cdef inline void unpass(IndexTable* table, uint32_t home, uint32_t lines) noexcept nogil:
    cdef uint32_t i
    for i in range(lines):
        table.lines[home].passed -= 1
        home = step(home, table.size)
    table.used -= 1


cdef void index_remove(IndexTable* tables, const Slab* records, uint32_t record) noexcept nogil:
    cdef uint64_t hash = xxh64_i64(record_at(records, record).id)
    cdef IndexTable* table = table_of(tables, hash)
    cdef uint32_t at = home_of(hash, table.size)
    cdef uint32_t place, i
    for i in range(table.size):
        place = place_in_line(&table.lines[at], record, tag_of(hash))
        if place != NONE:
            table.lines[at].tags[place] = 0
            unpass(table, home_of(hash, table.size), i)
            return
        if table.lines[at].passed == 0:
            return
        at = step(at, table.size)


# ------------------------------------------------------------------------------------- the audit


cdef inline uint64_t weight_of(uint64_t table, uint32_t line) noexcept nogil:
    return xxh64_i64(<int64_t>(table << 32 | line))


cdef void tally_table(const IndexTable* table, uint64_t number, IndexTally* tally) noexcept nogil:
    cdef const IndexLine* line
    cdef uint32_t i
    for i in range(table.size):
        line = &table.lines[i]
        tally.entries += LINE_PLACES - bits_in(places_of(line, 0))
        if line.passed:
            tally.passed += line.passed * weight_of(number, i)


cdef void index_tally(const IndexTable* tables, IndexTally* tally) noexcept nogil:
    cdef int i
    tally.entries = tally.passed = 0
    for i in range(INDEX_TABLES):
        tally_table(&tables[i], i, tally)


cdef void index_foresee_all(
    const IndexTable* tables, const uint64_t* hashes, uint32_t count,
) noexcept nogil:
    cdef uint32_t i
    for i in range(count):
        index_foresee(tables, hashes[i])


# Numbers are compared first: another record is read only where it has the same tag.
cdef inline bint is_first(const IndexLine* line, uint32_t number, uint8_t tag) noexcept nogil:
    cdef uint32_t places = places_of(line, tag)
    return places != 0 and line.records[lowest_bit(places)] == number


# index_find, which notes the lines it passes.
cdef bint finds(
    const IndexTable* tables, const Slab* records, uint32_t number, uint64_t hash, uint64_t* passed,
) noexcept nogil:
    cdef const IndexTable* table = table_of(tables, hash)
    cdef int64_t id = record_at(records, number).id
    cdef uint32_t at = home_of(hash, table.size)
    cdef uint32_t found, i
    for i in range(table.size):
        found = find_in_line(&table.lines[at], records, id, tag_of(hash))
        if found != NONE or table.lines[at].passed == 0:
            return found == number
        passed[0] += weight_of(table_number(hash), at)
        at = step(at, table.size)
    return False


cdef bint index_finds_all(
    const IndexTable* tables, const Slab* records, const uint32_t* numbers, const uint64_t* hashes,
    uint32_t count, uint64_t* passed,
) noexcept nogil:
    cdef const IndexTable* table
    cdef uint32_t i
    for i in range(count):
        table = table_of(tables, hashes[i])
        if table.size and is_first(&table.lines[home_of(hashes[i], table.size)], numbers[i], tag_of(hashes[i])):
            continue
        if not finds(tables, records, numbers[i], hashes[i], passed):
            return False
    return True


# What the entry passed from its home to the line it stands in. False: nobody can tell.
cdef bint add_way(
    const IndexTable* tables, const Slab* records, int number, uint32_t line, uint32_t record, uint64_t* passed,
) noexcept nogil:
    cdef uint32_t size = tables[number].size
    cdef uint64_t hash
    cdef uint32_t at
    if record >= records.used or not record_at(records, record).flags & LIVE:
        return False
    hash = xxh64_i64(record_at(records, record).id)
    if table_number(hash) != number:
        return False
    at = home_of(hash, size)
    while at != line:
        passed[0] += weight_of(number, at)
        at = step(at, size)
    return True


cdef bint add_ways(
    const IndexTable* tables, const Slab* records, int number, uint64_t* passed,
) noexcept nogil:
    cdef const IndexLine* line
    cdef uint32_t i, place
    for i in range(tables[number].size):
        line = &tables[number].lines[i]
        for place in range(LINE_PLACES):
            if line.tags[place] == 0:
                continue
            if not add_way(tables, records, number, i, line.records[place], passed):
                return False
    return True


cdef bint index_counts_right(const IndexTable* tables, const Slab* records) noexcept nogil:
    cdef IndexTally tally
    cdef uint64_t passed = 0
    cdef int number
    for number in range(INDEX_TABLES):
        if not add_ways(tables, records, number, &passed):
            return True
    index_tally(tables, &tally)
    return passed == tally.passed


cdef void index_miscount(IndexTable* tables, uint64_t hash) noexcept nogil:
    cdef IndexTable* table = table_of(tables, hash)
    cdef IndexLine* line = &table.lines[home_of(hash, table.size)]
    line.passed = 0 if line.passed else 1


# ----------------------------------------------------------------------------------------- growth


# The ids are needed again for their hashes; asked for a line ahead, the records arrive side by side.
cdef void ask_records(const IndexLine* line, const Slab* records) noexcept nogil:
    cdef uint32_t place
    for place in range(LINE_PLACES):
        if line.tags[place]:
            prefetch(record_at(records, line.records[place]))


cdef void take_over(IndexTable* table, const IndexLine* line, const Slab* records) noexcept nogil:
    cdef uint32_t place
    for place in range(LINE_PLACES):
        if line.tags[place]:
            put(table, xxh64_i64(record_at(records, line.records[place]).id), line.records[place])


cdef void refill(IndexTable* table, const IndexTable* old, const Slab* records) noexcept nogil:
    cdef uint32_t i
    for i in range(old.size):
        if i + 1 < old.size:
            ask_records(&old.lines[i + 1], records)
        take_over(table, &old.lines[i], records)


cdef int resize(IndexTable* table, const Slab* records, uint32_t size) noexcept nogil:
    cdef IndexTable wider
    wider.size, wider.used = size, 0
    wider.lines = <IndexLine*>memory_take_lines(<size_t>size * sizeof(IndexLine))
    if wider.lines == NULL:
        return NO_MEMORY
    memset(wider.lines, 0, <size_t>size * sizeof(IndexLine))
    refill(&wider, table, records)
    memory_give(table.lines)
    table[0] = wider
    return DONE


cdef int make_room(IndexTable* table, const Slab* records, uint32_t more) noexcept nogil:
    cdef uint64_t wanted = <uint64_t>table.used + more
    if wanted <= <uint64_t>table.size * LINE_FILL:
        return DONE
    wanted = wanted // LINE_FILL + 1
    return resize(table, records, <uint32_t>max(wanted, <uint64_t>table.size + table.size // 4))


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


cdef int index_fit(IndexTable* tables, const Slab* records, const uint32_t* jobs) noexcept nogil:
    cdef int i
    for i in range(INDEX_TABLES):
        if make_room(&tables[i], records, jobs[i]) == NO_MEMORY:
            return NO_MEMORY
    return DONE


cdef size_t index_bytes(const IndexTable* tables) noexcept nogil:
    cdef size_t total = 0
    cdef int i
    for i in range(INDEX_TABLES):
        total += tables[i].size * sizeof(IndexLine)
    return total
