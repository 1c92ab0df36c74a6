"""The leap of a shard. leap.pxd says what it promises.

A first pass works out where each job goes and notes what the stretch owes, and changes nothing that a failed
allocation would leave half done. Then the lists are emptied and every job is put into its new one.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from mainspring.wheel.arrears cimport arrears_add, arrears_reserve, arrears_skip
from mainspring.wheel.catch_up cimport CATCH_UP_ALL, CATCH_UP_NONE, MISSED_AFTER_S, OWED, skip_reason
from mainspring.wheel.core cimport WRONG_SECOND, Core
from mainspring.wheel.edit cimport settle_extra
from mainspring.wheel.far cimport far_empty, far_reserve
from mainspring.wheel.frames cimport SKIP_LATEST, SKIP_NONE, SKIP_WINDOW, Skips
from mainspring.wheel.lists cimport CHUNK_ENTRIES
from mainspring.wheel.memory cimport DONE, NO_MEMORY, memory_give, memory_take
from mainspring.wheel.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from mainspring.wheel.records cimport FAR, IS_RARE, LIVE, Record, catch_up_of, record_at
from mainspring.wheel.schedule cimport Schedule_t, schedule_next
from mainspring.wheel.shard cimport (
    HORIZON, NEVER, NO_EXTRA, SHARDS, Shard, arm, due_of, hour_of, next_of, owed_after, rare_of, schedule_of,
    shard_lock, shard_unlock,
)
from mainspring.wheel.slab cimport NONE, slab_empty, slab_fit
from mainspring.wheel.stretch cimport Stretch, Tallies, stretch_of, tallies_close, tallies_open


# What the first pass brings; `nexts` by record, as in a record.
ctypedef struct Survey:
    uint32_t* nexts
    uint32_t armed
    uint32_t far
    uint32_t last_hour      # of any far one


# -------------------------------------------------------------------------------- counting one job


cdef int judge(
    Shard* shard, const Record* record, int64_t instant, int64_t following, const Leap* leap,
) noexcept nogil:
    cdef int reason = skip_reason(shard, record, instant, following, leap.now, leap.window)
    if reason != OWED:
        arrears_skip(&shard.arrears, reason, 1, instant, instant)
        return DONE
    if arrears_reserve(&shard.arrears, 1) == NO_MEMORY:
        return NO_MEMORY
    arrears_add(&shard.arrears, record.id, instant, instant, following)
    return DONE


# All but the newest run of the stretch: another came after each, and none lies within the window.
cdef void skip_older(Shard* shard, const Record* record, const Stretch* stretch, int64_t first) noexcept nogil:
    cdef int reason = SKIP_LATEST
    if catch_up_of(record) == CATCH_UP_NONE:
        reason = SKIP_NONE
    elif catch_up_of(record) == CATCH_UP_ALL:
        reason = SKIP_WINDOW
    arrears_skip(&shard.arrears, reason, stretch.count - 1, first, stretch.older)


# The instant of a run beside the schedule in the stretch, or NO_EXTRA: one that the schedule gives too is no more.
cdef int64_t extra_within(
    const Shard* shard, const Record* record, const Schedule_t* schedule, int64_t last,
) noexcept nogil:
    cdef int64_t extra_at = rare_of(shard, record).extra_at if record.flags & IS_RARE else NO_EXTRA
    if not shard.begun < extra_at <= last or schedule_next(schedule, extra_at - 1) == extra_at:
        return NO_EXTRA
    return extra_at


# By the schedule alone; a run beside it may come between the newest and the following one.
cdef int judge_stretch(
    Shard* shard, const Record* record, const Stretch* stretch, int64_t first, const Leap* leap,
) noexcept nogil:
    if stretch.count > 1:
        skip_older(shard, record, stretch, first)
    if stretch.count == 0:
        return DONE
    return judge(shard, record, stretch.newest, owed_after(shard, record, stretch.newest), leap)


# `due`: the first instant after `begun`, in the stretch; becomes the first after it.
cdef int pass_over(Shard* shard, const Record* record, const Leap* leap, int64_t* due) noexcept nogil:
    cdef int64_t extra_at, first
    cdef Schedule_t schedule
    cdef Stretch stretch
    schedule_of(shard, record, &schedule)
    extra_at = extra_within(shard, record, &schedule, leap.tallies.last)
    first = due[0] if extra_at == NO_EXTRA else schedule_next(&schedule, shard.begun)
    stretch = stretch_of(leap.tallies, &schedule, first)
    due[0] = owed_after(shard, record, leap.tallies.last)
    if extra_at != NO_EXTRA and judge(shard, record, extra_at, owed_after(shard, record, extra_at), leap):
        return NO_MEMORY
    return judge_stretch(shard, record, &stretch, first, leap)


# ------------------------------------------------------------------------------------ the first pass


# What a record is armed for is the pure function's answer; only where a fault left it behind is that asked.
cdef inline int64_t first_after(const Shard* shard, const Record* record) noexcept nogil:
    if record.next and due_of(shard, record) > shard.begun:
        return due_of(shard, record)
    return owed_after(shard, record, shard.begun)


cdef inline void note_next(
    const Shard* shard, Survey* survey, uint32_t number, int64_t due, int64_t last,
) noexcept nogil:
    survey.nexts[number] = 0 if due == NEVER else next_of(shard, due)
    survey.armed += due != NEVER
    if last + HORIZON < due != NEVER:
        survey.far += 1
        survey.last_hour = max(survey.last_hour, hour_of(shard, survey.nexts[number]))


cdef int survey_shard(Shard* shard, const Leap* leap, Survey* survey) noexcept nogil:
    cdef const Record* record
    cdef int64_t due
    cdef uint32_t number
    for number in range(shard.records.used):
        record = record_at(&shard.records, number)
        survey.nexts[number] = 0
        if not record.flags & LIVE:
            continue
        due = first_after(shard, record)
        if due <= leap.tallies.last and pass_over(shard, record, leap, &due) == NO_MEMORY:
            return NO_MEMORY
        note_next(shard, survey, number, due, leap.tallies.last)
    return DONE


# Chunks are full but for the newest of each list.
cdef int reserve_lists(Shard* shard, const Survey* survey, int64_t last) noexcept nogil:
    cdef uint32_t hours = 0
    cdef uint32_t lists
    if survey.far:
        hours = min(survey.far, survey.last_hour - hour_of(shard, <uint32_t>(last - shard.base)) + 1)
    lists = min(survey.armed, <uint32_t>HORIZON) + hours
    if slab_fit(&shard.chunks, survey.armed // CHUNK_ENTRIES + lists) == NO_MEMORY:
        return NO_MEMORY
    return far_reserve(&shard.far, hours)


# ----------------------------------------------------------------------------------- the second pass


cdef void list_anew(Shard* shard, uint32_t number, Record* record, int64_t due) noexcept nogil:
    record.next, record.position = 0, NONE
    record.flags &= ~<int>FAR
    if record.flags & IS_RARE and NO_EXTRA < rare_of(shard, record).extra_at <= shard.begun:
        settle_extra(shard, number)
    if due != NEVER:
        arm(shard, number, due)


cdef void list_all(Shard* shard, const Survey* survey, int64_t last) noexcept nogil:
    cdef Record* record
    cdef uint32_t number
    slab_empty(&shard.chunks)
    far_empty(&shard.far)
    memset(shard.slots, 0, sizeof(shard.slots))
    shard.draining = 0
    shard.armed = 0
    shard.begun = shard.drained = last
    for number in range(shard.records.used):
        record = record_at(&shard.records, number)
        if record.flags & LIVE:
            list_anew(shard, number, record, shard.base + survey.nexts[number] if survey.nexts[number] else NEVER)


cdef int leap_surveyed(Shard* shard, const Leap* leap, Survey* survey) noexcept nogil:
    cdef Skips skips = shard.arrears.skipped
    cdef uint32_t count = shard.arrears.count
    cdef int code = survey_shard(shard, leap, survey)
    if code == DONE:
        code = reserve_lists(shard, survey, leap.tallies.last)
    if code == NO_MEMORY:
        shard.arrears.skipped, shard.arrears.count = skips, count
        return NO_MEMORY
    list_all(shard, survey, leap.tallies.last)
    shard.in_arrears = True
    return DONE


cdef int leap_shard(Shard* shard, const Leap* leap) noexcept nogil:
    cdef Survey survey
    cdef int code
    memset(&survey, 0, sizeof(Survey))
    survey.nexts = <uint32_t*>memory_take((<size_t>shard.records.used + 1) * sizeof(uint32_t))
    if survey.nexts == NULL:
        return NO_MEMORY
    code = leap_surveyed(shard, leap, &survey)
    memory_give(survey.nexts)
    return code


# ------------------------------------------------------------------------------------------ all shards


# Between two seconds alone. `leaping` stays set after a failure, so that nobody drains before the call is repeated.
cdef bint begin_leap(Core* core, int64_t last, int64_t now) noexcept nogil:
    cdef bint right
    pthread_mutex_lock(&core.claims.lock)
    right = core.claims.fresh == 0 and core.claims.busy == 0 and core.claims.left_count == 0
    right = right and core.now < last < now - max(core.window, <int64_t>MISSED_AFTER_S)
    core.leaping = core.leaping or right
    pthread_mutex_unlock(&core.claims.lock)
    return right


cdef void end_leap(Core* core, int64_t last) noexcept nogil:
    pthread_mutex_lock(&core.claims.lock)
    core.leaping, core.now = False, last
    pthread_mutex_unlock(&core.claims.lock)


# A shard that an earlier call brought further than the others has less to pass over, and tallies of its own.
cdef int leap_one(Shard* shard, Leap* leap, int64_t last) noexcept nogil:
    cdef int code = DONE
    shard_lock(shard)
    if shard.begun != leap.tallies.begun:
        tallies_close(leap.tallies)
        tallies_open(leap.tallies, shard.begun, last)
    if shard.begun < last:
        code = leap_shard(shard, leap)
    shard_unlock(shard)
    return code


cdef int leap_all(Core* core, int64_t last, int64_t now) noexcept nogil:
    cdef Tallies tallies
    cdef Leap leap
    cdef int code = DONE
    cdef int s
    if not begin_leap(core, last, now):
        return WRONG_SECOND
    tallies_open(&tallies, core.now, last)
    leap.now, leap.window, leap.tallies = now, core.window, &tallies
    for s in range(SHARDS):
        code = leap_one(&core.shards[s], &leap, last)
        if code == NO_MEMORY:
            break
    tallies_close(&tallies)
    if code == DONE:
        end_leap(core, last)
    return code
