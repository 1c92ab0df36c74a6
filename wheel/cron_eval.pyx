"""The memo over a rule, and the object that owns both."""

from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from libc.stdlib cimport calloc, free

from mainspring.wheel.cron_rule cimport EDGE_BITS, CronRule, ZoneTable, cron_last, cron_next, lowest_bit

from mainspring.wheel.cron import parse_cron
from mainspring.wheel.zones import load_zone


cdef extern from "<pthread.h>" nogil:
    int pthread_mutex_init(pthread_mutex_t* mutex, const void* attributes)
    int pthread_mutex_destroy(pthread_mutex_t* mutex)
    int pthread_mutex_lock(pthread_mutex_t* mutex)
    int pthread_mutex_unlock(pthread_mutex_t* mutex)


# Names of gcc and clang that Cython has no word for.
cdef extern from *:
    """
    #define read_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
    #define read_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
    #define write_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
    #define write_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
    #define fence_acquire() __atomic_thread_fence(__ATOMIC_ACQUIRE)
    #define fence_release() __atomic_thread_fence(__ATOMIC_RELEASE)
    """
    int64_t read_relaxed(const int64_t* p) noexcept nogil
    uint64_t read_acquire(const uint64_t* p) noexcept nogil
    void write_relaxed(int64_t* p, int64_t value) noexcept nogil
    void write_release(uint64_t* p, uint64_t value) noexcept nogil
    void fence_acquire() noexcept nogil
    void fence_release() noexcept nogil


# -------------------------------------------------------------------------------------------- the memo


# Four instants hold two brackets: around a fire, questions from before and from after it are both at home.
cdef inline bint bracket_from(const int64_t* around, int64_t after, Bracket* found) noexcept nogil:
    cdef int i
    for i in range(2):
        if around[i] <= after < around[i + 1]:
            found.floor = around[i]
            found.first = around[i + 1]
            found.second = around[i + 2]
            return True
    return False


# A reader that sees the same even version before and after has seen one writer's work whole.
cdef bint memo_read(const CronGroup* group, int64_t after, Bracket* found) noexcept nogil:
    cdef int64_t around[4]
    cdef uint64_t version = read_acquire(&group.version)
    cdef int i
    for i in range(4):
        around[i] = read_relaxed(&group.around[i])
    fence_acquire()
    if version & 1 or read_acquire(&group.version) != version:
        return False
    return bracket_from(around, after, found)


# Called with the mutex held, which makes this the only writer.
cdef void memo_write(CronGroup* group, const int64_t* around) noexcept nogil:
    cdef uint64_t version = group.version
    cdef int i
    write_release(&group.version, version + 1)
    fence_release()
    for i in range(4):
        write_relaxed(&group.around[i], around[i])
    write_release(&group.version, version + 2)


# In the steady state time has moved on by one base instant: one evaluation brings the next one. Readers go on
# with what stands there until it is replaced; those whose moment is not covered wait for the mutex.
cdef void memo_step(CronGroup* group) noexcept nogil:
    cdef int64_t around[4]
    around[0] = group.around[1]
    around[1] = group.around[2]
    around[2] = group.around[3]
    around[3] = cron_next(&group.rule, around[2])
    group.evaluations += 1
    memo_write(group, around)


# The first question, or one from far away. The base instant before counts: its spread run may be to come.
cdef void memo_start(CronGroup* group, int64_t after) noexcept nogil:
    cdef int64_t around[4]
    cdef int i
    around[0] = cron_last(&group.rule, after)
    around[1] = cron_next(&group.rule, after)
    for i in range(2, 4):
        around[i] = cron_next(&group.rule, around[i - 1])
    group.evaluations += 4
    memo_write(group, around)


cdef Bracket group_bracket(CronGroup* group, int64_t after) noexcept nogil:
    cdef Bracket found
    found.floor = after
    found.first = INT64_MAX
    found.second = INT64_MAX
    if after >= <int64_t>1 << EDGE_BITS:
        return found
    after = max(after, -(<int64_t>1 << EDGE_BITS))
    if memo_read(group, after, &found):
        return found
    pthread_mutex_lock(&group.mutex)
    # Another thread may have brought the memo here while this one waited.
    if not bracket_from(group.around, after, &found):
        if group.around[2] <= after < group.around[3]:
            memo_step(group)
        else:
            memo_start(group, after)
        bracket_from(group.around, after, &found)
    pthread_mutex_unlock(&group.mutex)
    return found


cdef int64_t group_next(CronGroup* group, int64_t after) noexcept nogil:
    return group_bracket(group, after).first


# ------------------------------------------------------------------------------------------ for Python


cdef class CompiledCron:
    """An expression in a zone, ready for any thread. Raises ScheduleError where either is not good."""

    def __cinit__(self, str expression not None, str tz not None):
        spec = parse_cron(expression)
        self.expression = expression
        self.tz = tz
        self.zone = load_zone(tz)
        self.group = <CronGroup*>calloc(1, sizeof(CronGroup))
        if self.group == NULL:
            raise MemoryError
        pthread_mutex_init(&self.group.mutex, NULL)
        set_rule(&self.group.rule, spec)
        set_zone(&self.group.rule.zone, self.zone)

    def __dealloc__(self):
        if self.group != NULL:
            pthread_mutex_destroy(&self.group.mutex)
            free(self.group)

    @property
    def evaluations(self):
        """How often the rule had to be evaluated: about once a fire, however many jobs ask."""
        return self.group.evaluations

    def next(self, int64_t after):
        """The smallest base instant > after, in epoch seconds, through the memo; NEVER when there is none."""
        cdef int64_t due
        with nogil:
            due = group_next(self.group, after)
        return due

    def next_unremembered(self, int64_t after):
        """The same by the bare rule, which neither reads nor moves the memo."""
        cdef int64_t due
        with nogil:
            due = cron_next(&self.group.rule, after)
        return due


cdef set_rule(CronRule* rule, spec):
    rule.seconds = spec.seconds
    rule.minutes = spec.minutes
    rule.hours = spec.hours
    rule.days = spec.days
    rule.months = spec.months
    rule.weekdays = spec.weekdays
    rule.window_s = spec.window_s
    rule.both_days = spec.both_days
    rule.every_real_minute = spec.every_real_minute
    rule.first_clock = (
        lowest_bit(rule.hours) * 3600 + lowest_bit(rule.minutes) * 60 + lowest_bit(rule.seconds)
    )


# The zone's arrays are read-only and kept alive by the CompiledCron.
cdef set_zone(ZoneTable* table, zone):
    cdef const int64_t[::1] starts = zone.starts
    cdef const int64_t[::1] offsets = zone.offsets
    cdef const int64_t[::1] reached = zone.reached
    table.starts = &starts[0]
    table.offsets = &offsets[0]
    table.reached = &reached[0]
    table.stretches = starts.shape[0]
    table.cycle_from = zone.cycle_from
