"""The drain of a shard. drain.pxd says what it promises.

Two passes over a piece. The first reads each record, prefetched well ahead, and works out its next instant;
then everything the piece can need is reserved; the second writes frames and moves entries, and cannot fail.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from mainspring.wheel.arrears cimport (
    Arrear, Arrears, arrears_given, arrears_next, arrears_reserve, arrears_waiting,
)
from mainspring.wheel.audit cimport FAULT_DOUBLED, FAULT_ORPHAN, FAULT_WRONG_SLOT
from mainspring.wheel.blobs cimport blob_at
from mainspring.wheel.catch_up cimport (
    CATCH_UP_LATEST, CATCH_UP_NONE, MISSED_AFTER_S, OWED, skip_reason,
)
from mainspring.wheel.far cimport far_drop, far_find
from mainspring.wheel.edit cimport settle_extra
from mainspring.wheel.frames cimport SKIPS, Output, RouteText, Run, write_run
from mainspring.wheel.hash cimport xxh64_i64
from mainspring.wheel.index cimport index_find
from mainspring.wheel.lists cimport chunk_at, entry_at, list_below, list_pop, list_top
from mainspring.wheel.lost cimport lost_note, lost_owed
from mainspring.wheel.memory cimport DONE, NO_MEMORY, prefetch, prefetch_write, unlikely
from mainspring.wheel.records cimport (
    ENABLED, FAR, HAS_DATA, HAS_KEY, IS_RARE, KEY_IS_UUID, LINES_MASK, LINES_SHIFT, LIVE, ROUTE_WIDE, Record,
    catch_up_of, head_data_bytes, head_key_bytes, kind_of, record_at,
)
from mainspring.wheel.registry cimport registry_get
from mainspring.wheel.schedule cimport KIND_INTERVAL, KIND_ONCE
from mainspring.wheel.shard cimport (
    HORIZON, HOUR, HOUR_SHIFT, NEVER, NO_EXTRA, Shard, arm, due_of, hour_of, is_near, once_at, owed_after,
    rare_of, shard_reserve,
)
from mainspring.wheel.slab cimport NONE


ctypedef struct Piece:
    uint32_t count
    uint32_t entries[512]
    uint32_t positions[512]
    int64_t nexts[512]


# ------------------------------------------------------------------------------- beginning a second


cdef void gather(const Shard* shard, uint32_t head, uint32_t most, Piece* piece) noexcept nogil:
    cdef uint32_t position = list_top(head)
    piece.count = 0
    while position != NONE and piece.count < most:
        piece.entries[piece.count] = entry_at(&shard.chunks, position)
        piece.positions[piece.count] = position
        piece.count += 1
        position = list_below(&shard.chunks, position)


# An entry is good if its record lives, stands here by its own account, and is due when the list says.
cdef inline bint is_home(const Record* record, uint32_t position) noexcept nogil:
    return (record.flags & LIVE) != 0 and record.position == position


cdef void move_near(Shard* shard, uint32_t* head, const Piece* piece) noexcept nogil:
    cdef uint32_t i
    cdef Record* record
    for i in range(piece.count):
        if i + AHEAD < piece.count:
            prefetch_write(record_at(&shard.records, piece.entries[i + AHEAD]))
        record = record_at(&shard.records, piece.entries[i])
        list_pop(&shard.chunks, head)
        if is_home(record, piece.positions[i]):
            shard.armed -= 1
            arm(shard, piece.entries[i], due_of(shard, record))


# Moves at most a piece of the hour that begins with the second to its slots; the list is near in whole by
# now.
cdef int promote_piece(Shard* shard, uint32_t hour, uint32_t* head) noexcept nogil:
    cdef Piece piece
    gather(shard, head[0], PIECE, &piece)
    if shard_reserve(shard, piece.count, 0) == NO_MEMORY:
        return NO_MEMORY
    move_near(shard, head, &piece)
    if head[0]:
        return MORE
    far_drop(&shard.far, hour)
    return WHOLE


cdef int promote(Shard* shard, int64_t second) noexcept nogil:
    cdef uint32_t next = <uint32_t>(second - shard.base)
    cdef uint32_t hour = hour_of(shard, next)
    cdef uint32_t* head
    if (<uint64_t>next + shard.number * HOUR_SHIFT) % HOUR:
        return WHOLE
    head = far_find(&shard.far, hour)
    return WHOLE if head == NULL else promote_piece(shard, hour, head)


# The slot's list becomes the draining list, which frees the slot for the second one horizon later.
cdef int begin(Shard* shard, int64_t second) noexcept nogil:
    cdef uint32_t slot = <uint32_t>(second - shard.base) % HORIZON
    cdef int code = promote(shard, second)
    if code != WHOLE:
        return code
    shard.begun = second
    shard.draining = shard.slots[slot]
    shard.slots[slot] = 0
    return WHOLE


# ------------------------------------------------------------------------------------- first pass


cdef inline bint is_due(const Shard* shard, const Record* record, uint32_t position) noexcept nogil:
    return is_home(record, position) and not record.flags & FAR and due_of(shard, record) == shard.begun


# A plain job that runs now moves on by its interval; everything else asks its schedule.
cdef inline int64_t next_after(const Shard* shard, const Record* record, uint32_t position) noexcept nogil:
    if record.flags & IS_RARE or kind_of(record) != KIND_INTERVAL or not is_due(shard, record, position):
        return owed_after(shard, record, shard.begun)
    return shard.begun + record.schedule


# How many of the piece go to far lists.
cdef uint32_t plan(const Shard* shard, Piece* piece) noexcept nogil:
    cdef uint32_t i
    cdef uint32_t far = 0
    for i in range(min(<uint32_t>AHEAD, piece.count)):
        prefetch_write(record_at(&shard.records, piece.entries[i]))
    for i in range(piece.count):
        if i + AHEAD < piece.count:
            prefetch_write(record_at(&shard.records, piece.entries[i + AHEAD]))
        piece.nexts[i] = next_after(shard, record_at(&shard.records, piece.entries[i]), piece.positions[i])
        far += not is_near(shard, piece.nexts[i])
    return far


# ------------------------------------------------------------------------------------ second pass


cdef inline void prefetch_blob(const Shard* shard, const Record* record) noexcept nogil:
    cdef uint32_t lines = (record.flags & LINES_MASK) >> LINES_SHIFT
    cdef const char* at
    cdef uint32_t i
    if lines == 0:
        return
    at = blob_at(&shard.blobs, record.blob)
    for i in range(lines):
        prefetch(at + (i << 6))


cdef inline void prefetch_target(const Shard* shard, int64_t next) noexcept nogil:
    if is_near(shard, next):
        prefetch_write(chunk_at(&shard.chunks, shard.slots[<uint32_t>(next - shard.base) % HORIZON] >> 4))


cdef inline void describe(
    const Shard* shard, const Record* record, const DrainOrder* order, Run* run,
) noexcept nogil:
    cdef uint32_t route = record.route
    cdef const uint8_t* blob
    cdef uint32_t head
    if unlikely(route == ROUTE_WIDE):
        route = rare_of(shard, record).route
    run.id = record.id
    run.scheduled_at = once_at(shard, record) if kind_of(record) == KIND_ONCE else order.second
    run.route = <const RouteText*>registry_get(order.routes, route)
    run.key = run.data = NULL
    if not record.flags & (HAS_KEY | HAS_DATA):
        return
    blob = <const uint8_t*>blob_at(&shard.blobs, record.blob)
    head = (<const uint32_t*>blob)[0]
    run.key_bytes, run.data_bytes = head_key_bytes(head), head_data_bytes(head)
    run.uuid_key = (record.flags & KEY_IS_UUID) != 0
    if record.flags & HAS_KEY:
        run.key = blob + 4
    if record.flags & HAS_DATA:
        run.data = blob + 4 + run.key_bytes


# Writes the run or counts it as skipped. False: no room left in the output, nothing has changed.
cdef inline bint give_run(
    const Shard* shard, const Record* record, int64_t next, const DrainOrder* order, Output* output,
) noexcept nogil:
    cdef Run run
    cdef int reason = OWED
    if unlikely(order.now - order.second > MISSED_AFTER_S):
        reason = skip_reason(shard, record, order.second, next, order.now, order.window)
    if reason != OWED:
        output.skipped[reason] += 1
    else:
        describe(shard, record, order, &run)
        if not write_run(output, order.envelope, &run):
            return False
    output.due += 1
    return True


cdef inline void unlist(Shard* shard, uint32_t number) noexcept nogil:
    cdef Record* record = record_at(&shard.records, number)
    list_pop(&shard.chunks, &shard.draining)
    shard.armed -= 1
    record.next, record.position = 0, NONE
    if record.flags & IS_RARE and NO_EXTRA < rare_of(shard, record).extra_at <= shard.begun:
        settle_extra(shard, number)


cdef inline void move_on(Shard* shard, uint32_t number, int64_t next) noexcept nogil:
    unlist(shard, number)
    if next != NEVER:
        arm(shard, number, next)


# What a fault left in the list: never a run by itself. A record that stands here for another second is armed
# anew, and owed what it lost.
cdef int drop_stray(Shard* shard, uint32_t number, uint32_t position, const DrainOrder* order) noexcept nogil:
    cdef Record* record = record_at(&shard.records, number)
    cdef uint32_t lost
    if not is_home(record, position):
        list_pop(&shard.chunks, &shard.draining)
        shard.met[FAULT_DOUBLED if record.flags & LIVE else FAULT_ORPHAN] += 1
        return DONE
    lost = lost_owed(shard, record, shard.begun, order.now, order.window)
    if arrears_reserve(&shard.arrears, lost) == NO_MEMORY:
        return NO_MEMORY
    shard.met[FAULT_WRONG_SLOT] += 1
    lost_note(shard, record, shard.begun, order.now, order.window)
    move_on(shard, number, owed_after(shard, record, shard.begun))
    return DONE


# A missed second's run of which the policy alone says that nobody reads its blob.
cdef inline bint surely_skipped(const Record* record, int64_t next, const DrainOrder* order) noexcept nogil:
    if order.now - order.second <= MISSED_AFTER_S:
        return False
    if catch_up_of(record) == CATCH_UP_LATEST:
        return next < order.now - MISSED_AFTER_S
    return catch_up_of(record) == CATCH_UP_NONE


cdef inline void prefetch_run(
    const Shard* shard, const Piece* piece, uint32_t i, const DrainOrder* order,
) noexcept nogil:
    cdef const Record* record = record_at(&shard.records, piece.entries[i])
    if not surely_skipped(record, piece.nexts[i], order):
        prefetch_blob(shard, record)
    prefetch_target(shard, piece.nexts[i])


cdef int run_piece(Shard* shard, const Piece* piece, const DrainOrder* order, Output* output) noexcept nogil:
    cdef uint32_t i
    cdef Record* record
    for i in range(min(<uint32_t>SOON, piece.count)):
        prefetch_run(shard, piece, i, order)
    for i in range(piece.count):
        if i + SOON < piece.count:
            prefetch_run(shard, piece, i + SOON, order)
        record = record_at(&shard.records, piece.entries[i])
        if unlikely(not is_due(shard, record, piece.positions[i])):
            if drop_stray(shard, piece.entries[i], piece.positions[i], order) == NO_MEMORY:
                return NO_MEMORY
            continue
        if not give_run(shard, record, piece.nexts[i], order, output):
            return FULL
        move_on(shard, piece.entries[i], piece.nexts[i])
    return MORE


# ---------------------------------------------------------------------------------------- arrears


cdef void tell_skipped(Arrears* arrears, Output* output) noexcept nogil:
    cdef int reason
    for reason in range(SKIPS):
        output.skipped[reason] += arrears.skipped[reason]
        output.due += arrears.skipped[reason]
        arrears.skipped[reason] = 0


# As if its own second were drained now. A job that is gone or paused by now is owed nothing.
cdef bint give_arrear(
    Shard* shard, const Arrear* arrear, const DrainOrder* order, Output* output,
) noexcept nogil:
    cdef uint32_t number = index_find(
        shard.index, &shard.records, arrear.job_id, xxh64_i64(arrear.job_id),
    )
    cdef DrainOrder late = order[0]
    if number == NONE or not record_at(&shard.records, number).flags & ENABLED:
        return True
    late.second = arrear.instant
    if not give_run(shard, record_at(&shard.records, number), arrear.following, &late, output):
        return False
    if output.count:
        output.due_since = min(output.due_since, arrear.instant)
    return True


cdef int give_arrears(Shard* shard, const DrainOrder* order, Output* output) noexcept nogil:
    if output.count:
        return FULL
    tell_skipped(&shard.arrears, output)
    while arrears_waiting(&shard.arrears):
        if not give_arrear(shard, arrears_next(&shard.arrears), order, output):
            return FULL
        arrears_given(&shard.arrears)
    shard.in_arrears = False
    return FULL if output.count else WHOLE


cdef int drain_piece(Shard* shard, const DrainOrder* order, Output* output) noexcept nogil:
    # One at least, since a run that is skipped needs no room.
    cdef uint32_t room = max(output.count_max - output.count, <uint32_t>1)
    cdef Piece piece
    cdef int code
    if shard.begun < order.second:
        code = begin(shard, order.second)
        if code != WHOLE:
            return code
    if unlikely(shard.in_arrears):
        code = give_arrears(shard, order, output)
        if code != WHOLE:
            return code
    gather(shard, shard.draining, min(<uint32_t>PIECE, room), &piece)
    if shard_reserve(shard, piece.count, plan(shard, &piece)) == NO_MEMORY:
        return NO_MEMORY
    code = run_piece(shard, &piece, order, output)
    if shard.draining == 0:
        shard.drained = order.second
        return WHOLE
    return code
