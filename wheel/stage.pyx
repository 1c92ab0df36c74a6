"""Rows set aside by shard. stage.pxd says what it promises."""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from mainspring.wheel.batch cimport ACCEPTED, Batch, batch_refusal
from mainspring.wheel.edit cimport OP_LOAD, Definition_t, flags_of, is_rare, plain_schedule
from mainspring.wheel.hash cimport shard_of_hash, xxh64_i64
from mainspring.wheel.memory cimport (
    DONE, NO_MEMORY, memory_give, memory_take, page_give, page_take, prefetch, prefetch_write,
    source_prepare, unlikely,
)
from mainspring.wheel.pthread cimport (
    pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock,
)
from mainspring.wheel.records cimport ROUTE_WIDE, blob_head
from mainspring.wheel.schedule cimport KIND_INTERVAL
from mainspring.wheel.shard cimport NO_EXTRA
from mainspring.wheel.text cimport UUID_BYTES, escaped_length, pack_uuid, write_escaped


# What a row comes to, worked out before a byte of it is written.
ctypedef struct Shape:
    uint32_t head
    uint32_t schedule
    uint32_t bytes
    uint16_t flags
    bint uuid_key
    char uuid[16]           # where the key is one
    Uncommon uncommon


# ------------------------------------------------------------------------------------------- one row


# Most rows: an interval and nothing else. What they need no look at is their Rare.
cdef inline bint is_ordinary(const Definition_t* row) noexcept nogil:
    return (
        row.kind == KIND_INTERVAL and row.seq == 0 and row.starts_at == INT64_MIN
        and row.ends_at == INT64_MAX and row.boost_every_s == 0 and row.phase_s < 0 and row.jitter_s < 0
        and row.route < ROUTE_WIDE
    )


# A load brings no run beside the schedule.
cdef void shape_rare(const Shard* shard, const Definition_t* row, Uncommon* uncommon) noexcept nogil:
    cdef Rare* rare = &uncommon.rare
    rare.run_at = row.run_at
    rare.starts_at, rare.ends_at = row.starts_at, row.ends_at
    rare.boost_until, rare.boost_every = row.boost_until, row.boost_every_s
    rare.extra_at = NO_EXTRA
    rare.schedule = plain_schedule(shard, row)
    rare.phase, rare.jitter = row.phase_s, row.jitter_s
    rare.route, rare.padding = row.route, 0
    uncommon.seq = <uint32_t>row.seq
    uncommon.is_rare = is_rare(shard, row.kind, rare)


cdef inline uint32_t key_bytes_of(const Definition_t* row, const uint8_t* texts, Shape* shape) noexcept nogil:
    shape.uuid_key = False
    if row.key_len == 0:
        return 0
    shape.uuid_key = pack_uuid(shape.uuid, texts + row.key_at, row.key_len)
    return UUID_BYTES if shape.uuid_key else escaped_length(texts + row.key_at, row.key_len)


cdef inline void shape_row(
    const Shard* shard, const Definition_t* row, const uint8_t* texts, Shape* shape,
) noexcept nogil:
    shape.head = blob_head(key_bytes_of(row, texts, shape), row.data_len)
    shape.flags = flags_of(row, shape.uuid_key)
    shape.schedule = <uint32_t>row.every_s
    if unlikely(not is_ordinary(row)):
        shape_rare(shard, row, &shape.uncommon)
        shape.schedule = shape.uncommon.rare.schedule
        if shape.uncommon.is_rare or shape.uncommon.seq:
            shape.flags |= UNCOMMON
    shape.bytes = staged_bytes(shape.head, shape.flags)


cdef void write_texts(
    char* to, const Definition_t* row, const uint8_t* texts, const Shape* shape,
) noexcept nogil:
    if shape.uuid_key:
        memcpy(to, shape.uuid, UUID_BYTES)
        to += UUID_BYTES
    elif row.key_len:
        to = write_escaped(to, texts + row.key_at, row.key_len)
    memcpy(to, texts + row.data_at, row.data_len)


# The blob as it will stand, on no page already.
cdef int write_large(
    void** to, const Definition_t* row, const uint8_t* texts, const Shape* shape,
) noexcept nogil:
    to[0] = memory_take(4 + head_key_bytes(shape.head) + head_data_bytes(shape.head))
    if to[0] == NULL:
        return NO_MEMORY
    (<uint32_t*>to[0])[0] = shape.head
    write_texts(<char*>to[0] + 4, row, texts, shape)
    return DONE


cdef int write_row(
    Staged* staged, uint32_t call, const Definition_t* row, const uint8_t* texts, const Shape* shape,
) noexcept nogil:
    staged.id, staged.call = row.id, call
    staged.schedule, staged.head = shape.schedule, shape.head
    staged.route = <uint16_t>min(row.route, <uint32_t>ROUTE_WIDE)
    staged.flags = shape.flags
    if unlikely(shape.flags & UNCOMMON):
        uncommon_of(staged)[0] = shape.uncommon
    if unlikely(is_large(shape.head)):
        return write_large(large_of(staged), row, texts, shape)
    write_texts(texts_of(staged), row, texts, shape)
    return DONE


# ------------------------------------------------------------------------------------------- writers


# Obtained before it is taken, so that no writer waits for another's first touch of a block.
cdef int add_page(PageSource* source, Tail* tail, int shard) noexcept nogil:
    cdef StagePage* page = NULL
    cdef StagePage* newest
    if source_prepare(source, 1) == DONE:
        page = <StagePage*>page_take(source)
    if page == NULL:
        return NO_MEMORY
    page.next, page.number, page.begin = NULL, 0, HEAD_BYTES
    if tail.end == NULL:
        page.begin += shard % STAGGERS * STAGGER_BYTES
        tail.first = page
    else:
        newest = <StagePage*>(tail.end - PAGE_BYTES)
        newest.next, newest.used = page, <uint32_t>(tail.at - <char*>newest)
        page.number = newest.number + 1
    tail.at, tail.end = first_of(page), <char*>page + PAGE_BYTES
    return DONE


# Where the row after next will begin is asked for: by the time this shard's turn comes again it has arrived.
cdef inline int append(
    Stage* stage, Writer* writer, const Definition_t* row, const uint8_t* texts,
) noexcept nogil:
    cdef int shard = shard_of_hash(xxh64_i64(row.id))
    cdef Tail* tail = &writer.tails[shard]
    cdef Shape shape
    shape_row(stage.shards, row, texts, &shape)
    if unlikely(tail.end - tail.at < <int64_t>shape.bytes):
        if add_page(stage.source, tail, shard) == NO_MEMORY:
            return NO_MEMORY
    if write_row(<Staged*>tail.at, writer.call, row, texts, &shape) == NO_MEMORY:
        return NO_MEMORY
    tail.at += shape.bytes
    prefetch_write(tail.at + shape.bytes)
    writer.rows[shard] += 1
    return DONE


cdef Writer* new_writer(Stage* stage) noexcept nogil:
    cdef Writer* writer = <Writer*>memory_take(sizeof(Writer))
    if writer != NULL:
        memset(writer, 0, sizeof(Writer))
        writer.next, stage.writers = stage.writers, writer
    return writer


cdef Writer* take_writer(Stage* stage) noexcept nogil:
    cdef Writer* writer
    pthread_mutex_lock(&stage.lock)
    writer = stage.writers
    while writer != NULL and writer.busy:
        writer = writer.next
    if writer == NULL:
        writer = new_writer(stage)
    if writer != NULL:
        stage.calls += 1
        writer.call, writer.busy = stage.calls, True
    pthread_mutex_unlock(&stage.lock)
    return writer


cdef void give_writer(Stage* stage, Writer* writer) noexcept nogil:
    pthread_mutex_lock(&stage.lock)
    writer.busy = False
    pthread_mutex_unlock(&stage.lock)


# --------------------------------------------------------------------------------------- taking back


cdef void give_pages(PageSource* source, StagePage* page) noexcept nogil:
    cdef StagePage* next
    while page != NULL:
        next = page.next
        page_give(source, page)
        page = next


cdef void free_larges(Walk* walk) noexcept nogil:
    cdef Staged* staged = walk_next(walk)
    while staged != NULL:
        if is_large(staged.head):
            memory_give(large_of(staged)[0])
        staged = walk_next(walk)


# A walk over what came after `before`, which is an earlier state of the tail.
cdef void walk_from(Walk* walk, const Tail* tail, const Tail* before) noexcept nogil:
    walk_begin(walk, tail)
    if before.end == NULL:
        return
    walk.page = <StagePage*>(before.end - PAGE_BYTES)
    walk.at = before.at
    walk.end = tail.at if walk.page.next == NULL else <char*>walk.page + walk.page.used


cdef void take_back(PageSource* source, Tail* tail, const Tail* before) noexcept nogil:
    cdef Walk walk
    cdef StagePage* kept
    walk_from(&walk, tail, before)
    free_larges(&walk)
    if before.end == NULL:
        give_pages(source, tail.first)
    else:
        kept = <StagePage*>(before.end - PAGE_BYTES)
        give_pages(source, kept.next)
        kept.next = NULL
    tail[0] = before[0]


cdef void remember(Writer* writer) noexcept nogil:
    memcpy(writer.tails_before, writer.tails, sizeof(writer.tails))
    memcpy(writer.rows_before, writer.rows, sizeof(writer.rows))


cdef void undo(Stage* stage, Writer* writer) noexcept nogil:
    cdef int shard
    for shard in range(SHARDS):
        take_back(stage.source, &writer.tails[shard], &writer.tails_before[shard])
    memcpy(writer.rows, writer.rows_before, sizeof(writer.rows))


# ------------------------------------------------------------------------------------------- a batch


cdef int judge(const Batch* piece, uint64_t* row) noexcept nogil:
    cdef uint64_t i
    for i in range(piece.count):
        if piece.rows[i].op != OP_LOAD:
            row[0] = i
            return REFUSED_NO_LOAD
    return batch_refusal(piece, row)


# Of the `left` rows of the batch those of the next piece are asked for on the way.
cdef int add_piece(Stage* stage, Writer* writer, const Batch* piece, uint64_t left) noexcept nogil:
    cdef uint64_t i
    for i in range(piece.count):
        if i + JUDGED < left:
            prefetch(&piece.rows[i + JUDGED])
            prefetch(&piece.rows[i + JUDGED].every_s)
        if append(stage, writer, &piece.rows[i], piece.texts) == NO_MEMORY:
            return NO_MEMORY
    return DONE


cdef int add_all(Stage* stage, Writer* writer, const Batch* batch, uint64_t* row) noexcept nogil:
    cdef Batch piece = batch[0]
    cdef uint64_t start = 0
    cdef int code
    while start < batch.count:
        piece.rows = batch.rows + start
        piece.count = min(batch.count - start, <uint64_t>JUDGED)
        code = judge(&piece, row)
        if code != ACCEPTED:
            row[0] += start
            return code
        if add_piece(stage, writer, &piece, batch.count - start) == NO_MEMORY:
            return NO_MEMORY
        start += piece.count
    return DONE


cdef int stage_add(Stage* stage, Batch* batch, uint64_t* row) noexcept nogil:
    cdef Writer* writer = take_writer(stage)
    cdef int code
    if writer == NULL:
        return NO_MEMORY
    remember(writer)
    code = add_all(stage, writer, batch, row)
    if code != DONE:
        undo(stage, writer)
    give_writer(stage, writer)
    return code


# ----------------------------------------------------------------------------------------- the stage


cdef void stage_open(Stage* stage, PageSource* source, const Shard* shards) noexcept nogil:
    memset(stage, 0, sizeof(Stage))
    pthread_mutex_init(&stage.lock, NULL)
    stage.source, stage.shards = source, shards


cdef void walk_begin(Walk* walk, const Tail* tail) noexcept nogil:
    walk.tail, walk.page = tail, tail.first
    walk.at = walk.end = NULL
    if tail.first != NULL:
        walk.at = first_of(tail.first)
        walk.end = tail.at if tail.first.next == NULL else <char*>tail.first + tail.first.used


cdef uint32_t stage_rows(const Stage* stage, uint32_t shard) noexcept nogil:
    cdef const Writer* writer = stage.writers
    cdef uint32_t rows = 0
    while writer != NULL:
        rows += writer.rows[shard]
        writer = writer.next
    return rows


cdef uint64_t stage_bytes(const Stage* stage, uint32_t shard) noexcept nogil:
    cdef const Writer* writer = stage.writers
    cdef uint64_t total = 0
    while writer != NULL:
        if writer.tails[shard].end != NULL:
            total += <uint64_t>(page_of(writer.tails[shard].end - 1).number + 1) * PAGE_BYTES
        writer = writer.next
    return total


cdef void stage_give(Stage* stage, uint32_t shard) noexcept nogil:
    cdef Writer* writer = stage.writers
    while writer != NULL:
        give_pages(stage.source, writer.tails[shard].first)
        memset(&writer.tails[shard], 0, sizeof(Tail))
        writer.rows[shard] = 0
        writer = writer.next


cdef void close_writer(Stage* stage, Writer* writer) noexcept nogil:
    cdef Tail nothing
    cdef int shard
    memset(&nothing, 0, sizeof(Tail))
    for shard in range(SHARDS):
        take_back(stage.source, &writer.tails[shard], &nothing)
    memory_give(writer)


cdef void stage_close(Stage* stage) noexcept nogil:
    cdef Writer* writer
    while stage.writers != NULL:
        writer = stage.writers
        stage.writers = writer.next
        close_writer(stage, writer)
    pthread_mutex_destroy(&stage.lock)
