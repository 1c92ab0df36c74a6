"""Building a shard. build.pxd says what it promises."""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from mainspring.wheel.blobs cimport (
    blob_at, blobs_adopt, blobs_cut, blobs_give, blobs_reserve, blobs_take, tail_room, units_of,
)
from mainspring.wheel.far cimport far_reserve
from mainspring.wheel.hash cimport xxh64_i64
from mainspring.wheel.index cimport index_add, index_fit, index_foresee, table_number
from mainspring.wheel.memory cimport (
    DONE, NO_MEMORY, memory_give, memory_take_blocks, prefetch, prefetch_write, unlikely,
)
from mainspring.wheel.records cimport (
    ENABLED, IS_RARE, KIND_MASK, Rare, Record, blob_lines, head_blob_bytes, kind_of, record_at,
)
from mainspring.wheel.schedule cimport KIND_CRON, KIND_INTERVAL, grid_next
from mainspring.wheel.shard cimport (
    HORIZON, NEVER, Shard, arm, due_of, hour_of, is_near, next_of, owed_after,
)
from mainspring.wheel.slab cimport NONE, slab_at, slab_give, slab_reserve, slab_take
from mainspring.wheel.stage cimport (
    UNCOMMON, Stage, Staged, Uncommon, Walk, Writer, came_after, is_large, large_of, seq_of, texts_of,
    uncommon_of, walk_begin, walk_next,
)


cdef int builder_open(Builder* builder, uint32_t rows) noexcept nogil:
    memset(builder, 0, sizeof(Builder))
    builder.room = rows
    builder.items = <Item*>memory_take_blocks(<size_t>rows * sizeof(Item))
    builder.sorted = <Item*>memory_take_blocks(<size_t>rows * sizeof(Item))
    if builder.items != NULL and builder.sorted != NULL:
        return DONE
    builder_close(builder)
    return NO_MEMORY


cdef void builder_close(Builder* builder) noexcept nogil:
    memory_give(builder.items)
    memory_give(builder.sorted)
    builder.items = builder.sorted = NULL


# ------------------------------------------------------------------------------------------ surveying


# A Rare is put into its place at once: the schedule of its job is told from there.
cdef int place_rare(Shard* shard, Staged* staged) noexcept nogil:
    cdef Uncommon* uncommon = uncommon_of(staged)
    if not uncommon.is_rare:
        return DONE
    if slab_reserve(&shard.rares, 1) == NO_MEMORY:
        return NO_MEMORY
    staged.schedule = slab_take(&shard.rares)
    staged.flags |= IS_RARE
    (<Rare*>slab_at(&shard.rares, staged.schedule))[0] = uncommon.rare
    return DONE


cdef int64_t any_due(const Shard* shard, const Staged* staged) noexcept nogil:
    cdef Record record
    record.id, record.schedule, record.flags = staged.id, staged.schedule, staged.flags
    return owed_after(shard, &record, shard.begun)


cdef inline uint32_t next_for(const Shard* shard, const Staged* staged, uint64_t hash) noexcept nogil:
    cdef int64_t due
    if staged.flags & (KIND_MASK | IS_RARE | ENABLED) == KIND_INTERVAL | ENABLED:
        due = grid_next(staged.schedule, <int64_t>(hash % staged.schedule), shard.begun)
    else:
        due = any_due(shard, staged)
    return 0 if due == NEVER else next_of(shard, due)


# Jobs of one class that differ are only less well together.
cdef inline uint32_t class_of(const Staged* staged, uint32_t next) noexcept nogil:
    cdef uint32_t schedule = uncommon_of(staged).rare.schedule if staged.flags & UNCOMMON else staged.schedule
    cdef int kind = staged.flags & KIND_MASK
    if next == 0:
        return CLASSES - 1
    if kind == KIND_INTERVAL:
        return schedule % (CLASSES - CRON_CLASSES)
    if kind == KIND_CRON:
        return CLASSES - CRON_CLASSES + schedule % (CRON_CLASSES - 2)
    return CLASSES - 2


cdef inline uint32_t due_key(const Shard* shard, uint32_t next) noexcept nogil:
    cdef uint32_t begun = <uint32_t>(shard.begun - shard.base)
    if next <= <uint64_t>begun + HORIZON:
        return next - begun if next else 0
    return min(HORIZON + hour_of(shard, next) - hour_of(shard, begun), <uint32_t>(DUES - 1))


cdef inline int survey_row(Shard* shard, Staged* staged, Builder* builder) noexcept nogil:
    cdef uint64_t hash = xxh64_i64(staged.id)
    cdef Item* item = &builder.items[builder.count]
    if unlikely(staged.flags & UNCOMMON) and place_rare(shard, staged) == NO_MEMORY:
        return NO_MEMORY
    item.staged = staged
    item.next = next_for(shard, staged, hash)
    item.key = class_of(staged, item.next) * DUES + due_key(shard, item.next)
    builder.tables[table_number(hash)] += 1
    builder.count += 1
    return DONE


cdef int survey(Shard* shard, const Stage* stage, Builder* builder) noexcept nogil:
    cdef const Writer* writer = stage.writers
    cdef Walk walk
    cdef Staged* staged
    builder.count, builder.contested = 0, False
    memset(builder.tables, 0, sizeof(builder.tables))
    while writer != NULL:
        walk_begin(&walk, &writer.tails[shard.number])
        staged = walk_next(&walk)
        while staged != NULL:
            prefetch(<const char*>staged + SURVEYED_AHEAD)
            if survey_row(shard, staged, builder) == NO_MEMORY:
                return NO_MEMORY
            staged = walk_next(&walk)
        writer = writer.next
    return DONE


# ------------------------------------------------------------------------------------------- sorting


# A stable counting sort by those bits of the key from `shift` on that count `keys`.
cdef void sort_pass(
    const Item* items, Item* to, uint32_t count, uint32_t shift, uint32_t keys,
) noexcept nogil:
    cdef uint32_t starts[4096]
    cdef uint32_t at = 0
    cdef uint32_t i, size
    memset(starts, 0, keys * sizeof(uint32_t))
    for i in range(count):
        starts[items[i].key >> shift & (keys - 1)] += 1
    for i in range(keys):
        size = starts[i]
        starts[i] = at
        at += size
    for i in range(count):
        size = items[i].key >> shift & (keys - 1)
        to[starts[size]] = items[i]
        starts[size] += 1


cdef void sort(Builder* builder) noexcept nogil:
    sort_pass(builder.items, builder.sorted, builder.count, 0, DUES)
    sort_pass(builder.sorted, builder.items, builder.count, DUE_BITS, CLASSES)


# -------------------------------------------------------------------------------------------- laying


cdef int lay_large(Shard* shard, Record* record, const Staged* staged) noexcept nogil:
    cdef uint32_t size = head_blob_bytes(staged.head)
    if slab_reserve(&shard.blobs.large, 1) == NO_MEMORY:
        return NO_MEMORY
    record.blob = blobs_adopt(&shard.blobs, large_of(staged)[0], size)
    record.flags |= blob_lines(large_of(staged)[0], size)
    large_of(staged)[0] = NULL
    return DONE


# Up to a page's end there is nothing to ask for.
cdef inline int take_blob(Shard* shard, Record* record, uint32_t size) noexcept nogil:
    if tail_room(&shard.blobs) >= units_of(size):
        record.blob = blobs_cut(&shard.blobs, units_of(size))
        return DONE
    if blobs_reserve(&shard.blobs, size) == NO_MEMORY:
        return NO_MEMORY
    record.blob = blobs_take(&shard.blobs, size)
    return DONE


cdef int lay_blob(Shard* shard, Record* record, const Staged* staged) noexcept nogil:
    cdef uint32_t size = head_blob_bytes(staged.head)
    cdef char* at
    record.blob = NONE
    if staged.head == 0:
        return DONE
    if unlikely(is_large(staged.head)):
        return lay_large(shard, record, staged)
    if take_blob(shard, record, size) == NO_MEMORY:
        return NO_MEMORY
    at = blob_at(&shard.blobs, record.blob)
    prefetch_write(at + WRITTEN_AHEAD)
    (<uint32_t*>at)[0] = staged.head
    memcpy(at + 4, texts_of(staged), size - 4)
    record.flags |= blob_lines(at, size)
    return DONE


# Not armed yet: until then `position` tells the item it was laid from.
cdef int lay_row(Shard* shard, Record* record, const Builder* builder, uint32_t i) noexcept nogil:
    cdef const Staged* staged = builder.items[i].staged
    record.id, record.next, record.schedule = staged.id, builder.items[i].next, staged.schedule
    record.position, record.seq = i, seq_of(staged)
    record.route, record.flags = staged.route, staged.flags & ~<int>UNCOMMON
    return lay_blob(shard, record, staged)


cdef int lay_item(Shard* shard, Builder* builder, uint32_t i) noexcept nogil:
    cdef int64_t id = builder.items[i].staged.id
    cdef uint32_t number = shard.records.used
    cdef uint32_t known = index_add(shard.index, &shard.records, id, builder.hashes[i % SOON], number)
    builder.items[i].key = NONE
    if unlikely(known != NONE):
        contest(builder, record_at(&shard.records, known), i)
        return DONE
    slab_take(&shard.records)
    return lay_row(shard, record_at(&shard.records, number), builder, i)


cdef inline void ask_row(const Builder* builder, uint32_t i) noexcept nogil:
    cdef const char* staged
    if i < builder.count:
        staged = <const char*>builder.items[i].staged
        prefetch(staged)
        prefetch(staged + 63)


cdef inline void ask_index(const Shard* shard, Builder* builder, uint32_t i) noexcept nogil:
    cdef uint64_t hash
    if i < builder.count:
        hash = xxh64_i64(builder.items[i].staged.id)
        builder.hashes[i % SOON] = hash
        index_foresee(shard.index, hash)


cdef int lay(Shard* shard, Builder* builder) noexcept nogil:
    cdef uint32_t i
    for i in range(SOON):
        ask_index(shard, builder, i)
    for i in range(builder.count):
        ask_row(builder, i + AHEAD)
        if lay_item(shard, builder, i) == NO_MEMORY:
            return NO_MEMORY
        ask_index(shard, builder, i + SOON)
    return DONE


# ---------------------------------------------------------------------------- several rows of one job


# The rows of one job are linked, the newest first; its record, laid from the first that was met, names that.
cdef void contest(Builder* builder, Record* record, uint32_t i) noexcept nogil:
    cdef Item* items = builder.items
    cdef uint32_t* link = &record.position
    while link[0] != NONE and came_after(items[link[0]].staged, items[i].staged):
        link = &items[link[0]].key
    items[i].key = link[0]
    link[0] = i
    builder.contested = True


# Which of the rows would stand if they had been applied one after the other: each that is newer by its seq,
# or has none, or meets one that has none.
cdef uint32_t holder(const Item* items, uint32_t newest) noexcept nogil:
    cdef uint32_t held = newest
    cdef uint32_t older = items[newest].key
    while older != NONE and seq_of(items[held].staged) and seq_of(items[older].staged):
        if <int32_t>(seq_of(items[held].staged) - seq_of(items[older].staged)) <= 0:
            held = older
        older = items[older].key
    return held


cdef void give_rare(Shard* shard, const Staged* staged) noexcept nogil:
    if staged.flags & IS_RARE:
        slab_give(&shard.rares, staged.schedule)


cdef void drop_large(const Staged* staged) noexcept nogil:
    if is_large(staged.head):
        memory_give(large_of(staged)[0])
        large_of(staged)[0] = NULL


# The first that was met is the one with the least place: its blob is where it belongs already.
cdef int settle_record(Shard* shard, Builder* builder, Record* record) noexcept nogil:
    cdef Item* items = builder.items
    cdef uint32_t held = holder(items, record.position)
    cdef uint32_t laid = record.position
    cdef uint32_t i = record.position
    while i != NONE:
        laid = min(laid, i)
        if i != held:
            give_rare(shard, items[i].staged)
            drop_large(items[i].staged)
        i = items[i].key
    if laid == held:
        return DONE
    if record.blob != NONE:
        blobs_give(&shard.blobs, record.blob, head_blob_bytes(items[laid].staged.head))
    return lay_row(shard, record, builder, held)


cdef int settle(Shard* shard, Builder* builder) noexcept nogil:
    cdef uint32_t number
    cdef Record* record
    if not builder.contested:
        return DONE
    for number in range(shard.records.used):
        record = record_at(&shard.records, number)
        if builder.items[record.position].key != NONE:
            if settle_record(shard, builder, record) == NO_MEMORY:
                return NO_MEMORY
    return DONE


# -------------------------------------------------------------------------------------------- arming


cdef inline void count(Shard* shard, const Record* record) noexcept nogil:
    shard.jobs += 1
    if record.flags & ENABLED:
        shard.enabled_by_kind[kind_of(record)] += 1
    else:
        shard.paused += 1


cdef inline int arm_record(Shard* shard, uint32_t number, Record* record) noexcept nogil:
    cdef int64_t due = due_of(shard, record)
    record.position = NONE
    if record.next == 0:
        return DONE
    if slab_reserve(&shard.chunks, 1) == NO_MEMORY:
        return NO_MEMORY
    if not is_near(shard, due) and far_reserve(&shard.far, 1) == NO_MEMORY:
        return NO_MEMORY
    arm(shard, number, due)
    return DONE


cdef int arm_all(Shard* shard) noexcept nogil:
    cdef uint32_t number
    cdef Record* record
    for number in range(shard.records.used):
        record = record_at(&shard.records, number)
        count(shard, record)
        if arm_record(shard, number, record) == NO_MEMORY:
            return NO_MEMORY
    return DONE


cdef int build_shard(Shard* shard, Stage* stage, Builder* builder) noexcept nogil:
    if survey(shard, stage, builder) == NO_MEMORY:
        return NO_MEMORY
    sort(builder)
    if index_fit(shard.index, &shard.records, builder.tables) == NO_MEMORY:
        return NO_MEMORY
    if slab_reserve(&shard.records, builder.count) == NO_MEMORY:
        return NO_MEMORY
    if lay(shard, builder) == NO_MEMORY or settle(shard, builder) == NO_MEMORY:
        return NO_MEMORY
    return arm_all(shard)
