"""The drain of a shard. drain.pxd says what it promises.

Entries pass through in a row, each in three steps some entries apart: its record is asked for; its next
instant and the digits of its id are worked out, and the list and blob it will touch are asked for; its run is
given and it moves on.
So the waits for memory of some dozens of entries overlap. What an entry may need is reserved in the second
step; the third cannot fail, but for want of room in the output, or of memory to note what a stray entry
lost, and then nothing has changed.
"""

from libc.stdint cimport INT64_MIN, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from mainspring.wheel.arrears cimport (
    Arrear, Arrears, arrears_given, arrears_next, arrears_reserve, arrears_waiting,
)
from mainspring.wheel.audit cimport FAULT_DOUBLED, FAULT_ORPHAN, FAULT_WRONG_SLOT
from mainspring.wheel.blobs cimport blob_at
from mainspring.wheel.catch_up cimport (
    CATCH_UP_LATEST, CATCH_UP_NONE, MISSED_AFTER_S, OWED, skip_reason,
)
from mainspring.wheel.cron_ahead cimport MEMO_AHEAD, ask_memo
from mainspring.wheel.far cimport far_head, far_reserve
from mainspring.wheel.edit cimport settle_extra
from mainspring.wheel.frames cimport (
    SKIPS, Output, RouteText, Run, Skips, skips_add, skips_any, write_run,
)
from mainspring.wheel.hash cimport xxh64_i64
from mainspring.wheel.index cimport index_find
from mainspring.wheel.lists cimport Chunk, chunk_at, list_below, list_pop, list_push, list_top
from mainspring.wheel.lost cimport lost_note, lost_owed
from mainspring.wheel.memory cimport DONE, NO_MEMORY, prefetch, prefetch_write, unlikely
from mainspring.wheel.promote cimport promote
from mainspring.wheel.records cimport (
    ENABLED, FAR, HAS_DATA, HAS_KEY, IS_RARE, KEY_IS_UUID, LINES_MASK, LINES_SHIFT, LIVE, ROUTE_WIDE, Record,
    catch_up_of, head_data_bytes, head_key_bytes, kind_of, record_at,
)
from mainspring.wheel.registry cimport registry_get
from mainspring.wheel.schedule cimport KIND_INTERVAL, KIND_ONCE
from mainspring.wheel.shard cimport (
    HORIZON, NEVER, NO_EXTRA, Shard, arm, due_of, hour_of, is_home, is_near, next_of, once_at, owed_after,
    rare_of, shard_try, shard_unlock,
)
from mainspring.wheel.slab cimport NONE, slab_reserve
from mainspring.wheel.text cimport NumberText, number_text


cdef extern from *:
    """
    #define MAINSPRING_STRAY INT64_MIN
    """
    const int64_t STRAY "MAINSPRING_STRAY"      # as a next instant: the entry should not stand here


ctypedef struct Entry:
    Record* record
    const uint8_t* blob     # NULL: there is none, or nobody will read it
    int64_t next
    uint32_t number
    uint32_t position
    NumberText id           # its text is worked out well before the frame that would wait for it


# The entries on their way; each count says how many have come past that step.
ctypedef struct Flow:
    Shard* shard
    DrainOrder* order
    uint32_t position       # of the next entry to be asked for, NONE at the end of the list
    uint32_t asked
    uint32_t judged
    uint32_t given
    Entry entries[64]


# ------------------------------------------------------------------------------- beginning a second


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


# ----------------------------------------------------------------------------- first step: asking


cdef inline Entry* entry_of(Flow* flow, uint32_t count) noexcept nogil:
    return &flow.entries[count % ON_THE_WAY]


# Asks for the record of the next entry, and at the first entry of a chunk for the chunk below.
cdef inline void ask(Flow* flow) noexcept nogil:
    cdef Shard* shard = flow.shard
    cdef Entry* entry = entry_of(flow, flow.asked)
    cdef const Chunk* chunk
    if flow.position == NONE:
        return
    chunk = chunk_at(&shard.chunks, flow.position >> 4)
    entry.position, entry.number = flow.position, chunk.entries[flow.position & 15]
    entry.record = record_at(&shard.records, entry.number)
    prefetch_write(entry.record)
    flow.position = list_below(&shard.chunks, flow.position)
    flow.asked += 1
    if entry.position & 15 == 0 and flow.position != NONE:
        ask_below(shard, flow.position)


cdef inline void ask_below(const Shard* shard, uint32_t position) noexcept nogil:
    cdef uint32_t below = chunk_at(&shard.chunks, position >> 4).next
    if below != NONE:
        prefetch(chunk_at(&shard.chunks, below))


# ---------------------------------------------------------------------------- second step: judging


cdef inline bint is_due(const Shard* shard, const Record* record, uint32_t position) noexcept nogil:
    return is_home(record, position) and not record.flags & FAR and due_of(shard, record) == shard.begun


# A plain job that runs now moves on by its interval; everything else asks its schedule.
cdef inline int64_t next_after(const Shard* shard, const Record* record) noexcept nogil:
    if unlikely(record.flags & IS_RARE or kind_of(record) != KIND_INTERVAL):
        return owed_after(shard, record, shard.begun)
    return shard.begun + record.schedule


# A missed second's run of which the policy alone says that nobody reads its blob.
cdef inline bint surely_skipped(const Record* record, int64_t next, const DrainOrder* order) noexcept nogil:
    if not order.missed:
        return False
    if catch_up_of(record) == CATCH_UP_LATEST:
        return next < order.now - MISSED_AFTER_S
    return catch_up_of(record) == CATCH_UP_NONE


# A small blob lies on one line or on two, as it happens; asking for one twice costs less than a wrong guess.
cdef inline const uint8_t* ask_blob(const Shard* shard, const Record* record) noexcept nogil:
    cdef uint32_t last = ((record.flags & LINES_MASK) >> LINES_SHIFT) - 1
    cdef const uint8_t* at
    cdef uint32_t i
    if record.blob == NONE:
        return NULL
    at = <const uint8_t*>blob_at(&shard.blobs, record.blob)
    prefetch(at)
    for i in range(1, last):
        prefetch(at + (i << 6))
    prefetch(at + (last << 6))
    return at


cdef inline void ask_target(const Shard* shard, DrainOrder* order, int64_t next) noexcept nogil:
    cdef uint32_t slot
    if is_near(shard, next):
        slot = <uint32_t>(next - shard.base) % HORIZON
        order.targets[slot % RECENT] = slot
        prefetch_write(chunk_at(&shard.chunks, shard.slots[slot] >> 4))


# Room for the moves of all entries between here and the third step.
cdef inline int reserve_moves(Shard* shard, int64_t next) noexcept nogil:
    if slab_reserve(&shard.chunks, SOON + 1) == NO_MEMORY:
        return NO_MEMORY
    return DONE if is_near(shard, next) else far_reserve(&shard.far, SOON + 1)


# Works out where the next entry goes, and asks for what that takes.
cdef inline int judge(Flow* flow) noexcept nogil:
    cdef Shard* shard = flow.shard
    cdef Entry* entry = entry_of(flow, flow.judged)
    if flow.judged == flow.asked:
        return DONE
    if flow.judged + MEMO_AHEAD < flow.asked:
        ask_memo(shard.crons, entry_of(flow, flow.judged + MEMO_AHEAD).record)
    flow.judged += 1
    entry.next, entry.blob = STRAY, NULL
    if unlikely(not is_due(shard, entry.record, entry.position)):
        return reserve_moves(shard, NEVER)
    entry.next = next_after(shard, entry.record)
    if not surely_skipped(entry.record, entry.next, flow.order):
        number_text(&entry.id, entry.record.id)
        entry.blob = ask_blob(shard, entry.record)
    ask_target(shard, flow.order, entry.next)
    return reserve_moves(shard, entry.next)


# ------------------------------------------------------------------------------ third step: giving


cdef inline void describe(
    const Shard* shard, const Entry* entry, const DrainOrder* order, Run* run,
) noexcept nogil:
    cdef const Record* record = entry.record
    cdef uint32_t route = record.route
    cdef uint32_t head = 0
    if unlikely(route == ROUTE_WIDE):
        route = rare_of(shard, record).route
    if entry.blob != NULL:
        head = (<const uint32_t*>entry.blob)[0]
    run.id, run.id_text = record.id, &entry.id
    run.scheduled_at = once_at(shard, record) if kind_of(record) == KIND_ONCE else order.second
    run.route = <const RouteText*>registry_get(order.routes, route)
    run.key_bytes, run.data_bytes = head_key_bytes(head), head_data_bytes(head)
    run.uuid_key = (record.flags & KEY_IS_UUID) != 0
    run.key = entry.blob + 4 if record.flags & HAS_KEY else NULL
    run.data = entry.blob + 4 + run.key_bytes if record.flags & HAS_DATA else NULL


# Writes the run or counts it as skipped. False: no room left in the output, nothing has changed.
cdef inline bint give_judged(
    const Shard* shard, const Entry* entry, const DrainOrder* order, int reason, Output* output,
) noexcept nogil:
    cdef Run run
    if reason != OWED:
        skips_add(&output.skipped, reason, 1, order.second, order.second)
    else:
        describe(shard, entry, order, &run)
        if not write_run(output, order.envelope, &run):
            return False
    output.due += 1
    return True


cdef inline bint give_run(
    const Shard* shard, const Entry* entry, const DrainOrder* order, Output* output,
) noexcept nogil:
    cdef int reason = OWED
    if unlikely(order.missed):
        reason = skip_reason(shard, entry.record, order.second, entry.next, order.now, order.window)
    return give_judged(shard, entry, order, reason, output)


# shard.arm for a record that was armed before and goes on: the count stays.
cdef inline void rearm(Shard* shard, const Entry* entry) noexcept nogil:
    cdef Record* record = entry.record
    cdef uint32_t* head
    record.next = next_of(shard, entry.next)
    if is_near(shard, entry.next):
        head = &shard.slots[record.next % HORIZON]
    else:
        record.flags |= FAR
        head = far_head(&shard.far, hour_of(shard, record.next))
    record.position = list_push(&shard.chunks, head, entry.number)


# An extra run that is over by now is pending no more.
cdef inline void settle(Shard* shard, const Entry* entry) noexcept nogil:
    cdef const Record* record = entry.record
    if unlikely(record.flags & IS_RARE) and NO_EXTRA < rare_of(shard, record).extra_at <= shard.begun:
        settle_extra(shard, entry.number)


cdef inline void move_on(Shard* shard, const Entry* entry) noexcept nogil:
    cdef Record* record = entry.record
    list_pop(&shard.chunks, &shard.draining)
    settle(shard, entry)
    if unlikely(entry.next == NEVER):
        record.next, record.position = 0, NONE
        shard.armed -= 1
    else:
        rearm(shard, entry)


# A record that stands here for another second, or thinks it is far: armed anew.
cdef void put_right(Shard* shard, const Entry* entry) noexcept nogil:
    cdef Record* record = entry.record
    cdef int64_t due = owed_after(shard, record, shard.begun)
    shard.met[FAULT_WRONG_SLOT] += 1
    shard.armed -= 1
    record.next, record.position = 0, NONE
    settle(shard, entry)
    if due != NEVER:
        arm(shard, entry.number, due)


# What a fault left in the list: never a run by itself. A record whose only entry it is is owed what it lost.
cdef int drop_stray(Shard* shard, const Entry* entry, const DrainOrder* order) noexcept nogil:
    cdef const Record* record = entry.record
    cdef uint32_t lost
    if not is_home(record, entry.position):
        list_pop(&shard.chunks, &shard.draining)
        shard.met[FAULT_DOUBLED if record.flags & LIVE else FAULT_ORPHAN] += 1
        return DONE
    lost = lost_owed(shard, record, shard.begun, order.now, order.window)
    if arrears_reserve(&shard.arrears, lost) == NO_MEMORY:
        return NO_MEMORY
    lost_note(shard, record, shard.begun, order.now, order.window)
    list_pop(&shard.chunks, &shard.draining)
    put_right(shard, entry)
    return DONE


cdef inline int give(Flow* flow, Output* output) noexcept nogil:
    cdef const Entry* entry = entry_of(flow, flow.given)
    if unlikely(entry.next == STRAY):
        if drop_stray(flow.shard, entry, flow.order) == NO_MEMORY:
            return NO_MEMORY
    elif give_run(flow.shard, entry, flow.order, output):
        move_on(flow.shard, entry)
    else:
        return FULL
    flow.given += 1
    return DONE


# ---------------------------------------------------------------------------------------- arrears


cdef void tell_skipped(Arrears* arrears, Output* output) noexcept nogil:
    cdef const Skips* skipped = &arrears.skipped
    cdef int reason
    if not skips_any(skipped):
        return
    for reason in range(SKIPS):
        skips_add(&output.skipped, reason, skipped.by_reason[reason], skipped.first, skipped.last)
        output.due += skipped.by_reason[reason]
    memset(&arrears.skipped, 0, sizeof(Skips))


# As if its own second were drained now.
cdef bint give_late(
    Shard* shard, uint32_t number, const Arrear* arrear, const DrainOrder* order, Output* output,
) noexcept nogil:
    cdef DrainOrder late = order[0]
    cdef Entry entry
    cdef int reason
    entry.record, entry.number = record_at(&shard.records, number), number
    entry.next, entry.position = arrear.following, NONE
    entry.blob = ask_blob(shard, entry.record)
    number_text(&entry.id, arrear.job_id)
    late.second = arrear.instant
    reason = skip_reason(shard, entry.record, arrear.due, arrear.following, order.now, order.window)
    if not give_judged(shard, &entry, &late, reason, output):
        return False
    if output.count:
        output.due_since = min(output.due_since, arrear.instant)
    return True


# A job that is gone or paused by now is owed nothing. False: no room left in the output.
cdef bint give_arrear(
    Shard* shard, const Arrear* arrear, const DrainOrder* order, Output* output,
) noexcept nogil:
    cdef uint64_t hash = xxh64_i64(arrear.job_id)
    cdef uint32_t number = index_find(shard.index, &shard.records, arrear.job_id, hash)
    if number == NONE or not record_at(&shard.records, number).flags & ENABLED:
        return True
    return give_late(shard, number, arrear, order, output)


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


# ------------------------------------------------------------------------------- the shards that follow


# Only addresses are computed here: what lies behind them may be read under the lock alone. The jobs of one
# fleet move to the same seconds in all shards.
cdef void foresee_shard(const Shard* shard, const DrainOrder* order) noexcept nogil:
    cdef const char* head = <const char*>shard
    cdef int i
    for i in range(SHARD_LINES):
        prefetch(head + (i << 6))
    prefetch_write(&shard.draining)
    prefetch_write(&shard.slots[<uint32_t>(order.second - shard.base) % HORIZON])
    for i in range(RECENT):
        prefetch_write(&shard.slots[order.targets[i]])


cdef void foresee_list(Shard* shard, int64_t second) noexcept nogil:
    cdef uint32_t head
    if shard_try(shard):
        head = shard.slots[<uint32_t>(second - shard.base) % HORIZON]
        if head:
            prefetch(chunk_at(&shard.chunks, head >> 4))
        shard_unlock(shard)


cdef void ask_chunk(const Shard* shard, uint32_t head) noexcept nogil:
    cdef const Chunk* chunk = chunk_at(&shard.chunks, head >> 4)
    cdef uint32_t place
    for place in range(head & 15):
        prefetch_write(record_at(&shard.records, chunk.entries[place]))
    if chunk.next != NONE:
        prefetch(chunk_at(&shard.chunks, chunk.next))


cdef void foresee_entries(Shard* shard, int64_t second) noexcept nogil:
    cdef uint32_t head
    if shard_try(shard):
        head = shard.slots[<uint32_t>(second - shard.base) % HORIZON]
        if head:
            ask_chunk(shard, head)
        shard_unlock(shard)


# ------------------------------------------------------------------------------------------- a piece


cdef void flow_open(Flow* flow, Shard* shard, DrainOrder* order) noexcept nogil:
    flow.shard, flow.order = shard, order
    flow.position = list_top(shard.draining)
    flow.asked = flow.judged = flow.given = 0


# The first entries: asked for, and half of them judged.
cdef int fill(Flow* flow) noexcept nogil:
    cdef int i
    for i in range(AHEAD):
        ask(flow)
    for i in range(SOON):
        if judge(flow) == NO_MEMORY:
            return NO_MEMORY
    return DONE


cdef int run_piece(Flow* flow, Output* output) noexcept nogil:
    cdef int code = fill(flow)
    while code == DONE and flow.given < flow.asked:
        if flow.given == PIECE:
            return MORE
        if flow.position == NONE and flow.order.following != NULL:
            foresee_entries(flow.order.following, flow.order.second)
            flow.order.following = NULL
        ask(flow)
        code = judge(flow)
        if code == DONE:
            code = give(flow, output)
    return code


cdef int drain_piece(Shard* shard, DrainOrder* order, Output* output) noexcept nogil:
    cdef Flow flow
    cdef int code
    if shard.begun < order.second:
        code = begin(shard, order.second)
        if code != WHOLE:
            return code
    if unlikely(shard.in_arrears):
        code = give_arrears(shard, order, output)
        if code != WHOLE:
            return code
    flow_open(&flow, shard, order)
    code = run_piece(&flow, output)
    if code != DONE:
        return code
    shard.drained = order.second
    return WHOLE
