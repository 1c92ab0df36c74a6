"""The memo over a rule, and the object that owns both."""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint64_t
from libc.stdlib cimport calloc, free

from mainspring.wheel.cron_draw cimport CronDraw, draw_into
from mainspring.wheel.cron_rule cimport (
    EDGE_BITS, CronRule, ZoneTable, cron_last, cron_next, rule_tune, set_rule,
)
from mainspring.wheel.pthread cimport (
    pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock,
)

from mainspring.wheel.cron import parse_cron
from mainspring.wheel.errors import ScheduleError
from mainspring.wheel.zones import load_zone


# Names of gcc and clang that Cython has no word for.
cdef extern from *:
    """
    #define read_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
    #define read_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
    #define write_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
    #define write_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
    #define add_relaxed(p, v) ((void)__atomic_fetch_add((p), (v), __ATOMIC_RELAXED))
    #define claim(p, seen) \
        __sync_bool_compare_and_swap((p), (seen), (seen) + 1)
    #define fence_acquire() __atomic_thread_fence(__ATOMIC_ACQUIRE)
    #define fence_release() __atomic_thread_fence(__ATOMIC_RELEASE)
    """
    int64_t read_relaxed(const int64_t* p) noexcept nogil
    uint64_t read_relaxed_u64 "read_relaxed"(const uint64_t* p) noexcept nogil
    uint64_t read_acquire(const uint64_t* p) noexcept nogil
    void write_relaxed(int64_t* p, int64_t value) noexcept nogil
    void write_relaxed_u64 "write_relaxed"(uint64_t* p, uint64_t value) noexcept nogil
    void write_release(uint64_t* p, uint64_t value) noexcept nogil
    void add_relaxed(uint64_t* p, uint64_t value) noexcept nogil
    bint claim(uint64_t* version, uint64_t seen) noexcept nogil
    void fence_acquire() noexcept nogil
    void fence_release() noexcept nogil


cdef enum:
    SHARED_BITS = 16                # 4 MB, of which only what is used is ever touched
    SHARED_MEMOS = 65_536
    LINE = 64                       # bytes of a cache line

# The first cache line that begins within: a memo that lay on two would be waited for twice.
cdef inline void* line_from(void* room) noexcept nogil:
    return <void*>((<uint64_t>room + LINE - 1) & ~<uint64_t>(LINE - 1))

cdef Memo shared_room[SHARED_MEMOS + 1]
cdef Memo* shared_memos = <Memo*>line_from(shared_room)
cdef uint64_t groups_made = 0       # numbers groups, with the GIL held: an address may be given out again


# -------------------------------------------------------------------------------------------- one memo


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
cdef inline bint unchanged(const Memo* memo, uint64_t version) noexcept nogil:
    fence_acquire()
    return version & 1 == 0 and read_relaxed_u64(&memo.version) == version


# The bracket that a memo holds, without a copy of the rest: what a fire costs while it is there.
cdef inline bint memo_bracket(const Memo* memo, int64_t after, Bracket* found) noexcept nogil:
    cdef uint64_t version = read_acquire(&memo.version)
    cdef int64_t around[4]
    cdef int i
    for i in range(4):
        around[i] = read_relaxed(&memo.around[i])
    return unchanged(memo, version) and bracket_from(around, after, found)


# A copy of the memo as one writer left it.
cdef inline bint memo_copy(const Memo* memo, Memo* copy) noexcept nogil:
    cdef int i
    copy.version = read_acquire(&memo.version)
    copy.group = read_relaxed_u64(&memo.group)
    copy.outcome = read_relaxed_u64(&memo.outcome)
    for i in range(4):
        copy.around[i] = read_relaxed(&memo.around[i])
    return unchanged(memo, copy.version)


# Writes if nobody else has since the version was seen, and is not about to: a memo may be left as it is.
cdef void memo_write(Memo* memo, const Memo* new) noexcept nogil:
    cdef int i
    if new.version & 1 or not claim(&memo.version, new.version):
        return
    fence_release()
    write_relaxed_u64(&memo.group, new.group)
    write_relaxed_u64(&memo.outcome, new.outcome)
    for i in range(4):
        write_relaxed(&memo.around[i], new.around[i])
    write_release(&memo.version, new.version + 2)


# Moves a copy on until it covers a moment that it does not cover. In the steady state time has moved on by one
# base instant: one evaluation brings the next one. Else it starts afresh, and the base instant before counts:
# its spread run may be to come. Returns how many evaluations it took.
cdef int memo_move(Memo* memo, const CronRule* rule, int64_t after) noexcept nogil:
    cdef int64_t* around = memo.around
    cdef int i
    if around[2] <= after < around[3]:
        for i in range(3):
            around[i] = around[i + 1]
        around[3] = cron_next(rule, around[2])
        return 1
    around[0] = cron_last(rule, after)
    around[1] = cron_next(rule, after)
    for i in range(2, 4):
        around[i] = cron_next(rule, around[i - 1])
    return 4


# ----------------------------------------------------------------------------------------- of a group


# Readers go on with what stands there until it is replaced; those whose moment is not covered wait for the one
# that evaluates, which spares a million jobs a million evaluations.
cdef void lone_bracket(CronGroup* group, int64_t after, Bracket* found) noexcept nogil:
    cdef Memo memo
    if memo_bracket(&group.memo, after, found):
        return
    pthread_mutex_lock(&group.mutex)
    memo_copy(&group.memo, &memo)       # whole, for nobody else can be writing
    if not bracket_from(memo.around, after, found):
        group.evaluations += memo_move(&memo, &group.rule, after)
        memo_write(&group.memo, &memo)
        bracket_from(memo.around, after, found)
    pthread_mutex_unlock(&group.mutex)


# The outcomes of one group lie side by side, so that they never crowd out each other.
cdef inline Memo* shared_memo(const CronGroup* group, uint64_t outcome) noexcept nogil:
    cdef uint64_t start = group.memo.group * 0x9E3779B97F4A7C15ULL >> (64 - SHARED_BITS)
    return &shared_memos[(start + outcome) & (SHARED_MEMOS - 1)]


# As above for one of many outcomes. Two threads may evaluate at once; that is cheaper than a mutex for each.
cdef void drawn_bracket(CronGroup* group, uint64_t outcome, int64_t after, Bracket* found) noexcept nogil:
    cdef Memo* shared = shared_memo(group, outcome)
    cdef Memo memo
    cdef bint whole = memo_copy(shared, &memo)
    cdef bint ours = whole and memo.group == group.memo.group and memo.outcome == outcome
    cdef CronRule rule
    if ours and bracket_from(memo.around, after, found):
        return
    if not ours:
        memo.around[2] = memo.around[3] = INT64_MIN
        memo.group, memo.outcome = group.memo.group, outcome
    rule = group.rule
    draw_into(&group.draws, outcome, &rule)
    add_relaxed(&group.evaluations, memo_move(&memo, &rule, after))
    bracket_from(memo.around, after, found)
    if whole:
        memo_write(shared, &memo)


cdef Bracket group_bracket(CronGroup* group, uint64_t outcome, int64_t after) noexcept nogil:
    cdef Bracket found
    found.floor = after
    found.first = INT64_MAX
    found.second = INT64_MAX
    if after >= <int64_t>1 << EDGE_BITS:
        return found
    after = max(after, -(<int64_t>1 << EDGE_BITS))
    if group.memo.draws:
        drawn_bracket(group, outcome, after, &found)
    else:
        lone_bracket(group, after, &found)
    return found


cdef int64_t group_next(CronGroup* group, uint64_t outcome, int64_t after) noexcept nogil:
    return group_bracket(group, outcome, after).first


# ------------------------------------------------------------------------------------------ for Python


cdef class CompiledCron:
    """An expression in a zone, ready for any thread. Raises ScheduleError where either is not good."""

    def __cinit__(self, str expression not None, str tz not None):
        self.spec = parse_cron(expression)
        self.expression = expression
        self.tz = tz
        self.zone = zone_table(tz)
        self.group = new_group()
        set_rule(&self.group.rule, self.spec)
        set_draws(self.group, self.spec.draws)
        self.group.rule.zone = (<ZoneArrays>self.zone).table
        self.group.memo.window_s = self.spec.window_s

    def __dealloc__(self):
        if self.group != NULL:
            pthread_mutex_destroy(&self.group.mutex)
            free(self.group.room)

    @property
    def evaluations(self):
        """How often the rule had to be evaluated: about once a fire, however many jobs ask."""
        return self.group.evaluations

    def outcome(self, int64_t job_id):
        """What the job draws by its `H` forms, all in one number; 0 where the expression has none."""
        return group_outcome(self.group, job_id)

    def outcomes(self, int64_t job_id):
        """The same as one number for each of `spec.draws`, as `CronSpec.drawn` wants them."""
        cdef uint64_t outcome = group_outcome(self.group, job_id)
        cdef int i = self.group.draws.count - 1
        found = []
        while i >= 0:
            found.insert(0, outcome % self.group.draws.each[i].outcomes)
            outcome //= self.group.draws.each[i].outcomes
            i -= 1
        return tuple(found)

    def require_id(self, job_id):
        """ScheduleError where a job without id has no instants: there is an `H`, and nothing to draw from."""
        if job_id is None and self.group.memo.draws:
            raise ScheduleError(
                "cron expression", self.expression, "draws its H from the job's id", "give the id as well"
            )

    def next(self, int64_t after, job_id=None):
        """The smallest base instant > after, in epoch seconds, through the memo; NEVER when there is none."""
        cdef uint64_t outcome = self._outcome_of(job_id)
        cdef int64_t due
        with nogil:
            due = group_next(self.group, outcome, after)
        return due

    def next_unremembered(self, int64_t after, job_id=None):
        """The same by the bare rule, which neither reads nor moves the memo."""
        cdef CronRule rule = self._rule_of(job_id)
        cdef int64_t due
        with nogil:
            due = cron_next(&rule, after)
        return due

    def last(self, int64_t at, job_id=None):
        """The greatest base instant <= at, by the bare rule."""
        cdef CronRule rule = self._rule_of(job_id)
        cdef int64_t base
        with nogil:
            base = cron_last(&rule, at)
        return base

    cdef CronRule _rule_of(self, job_id) except *:
        cdef CronRule rule = self.group.rule
        draw_into(&self.group.draws, self._outcome_of(job_id), &rule)
        return rule

    cdef uint64_t _outcome_of(self, job_id) except? 0:
        self.require_id(job_id)
        return 0 if job_id is None else group_outcome(self.group, job_id)


cdef CronGroup* new_group() except NULL:
    global groups_made
    cdef void* room = calloc(1, sizeof(CronGroup) + LINE)
    cdef CronGroup* group = <CronGroup*>line_from(room)
    if room == NULL:
        raise MemoryError
    group.room = room
    pthread_mutex_init(&group.mutex, NULL)
    groups_made += 1
    group.memo.group = groups_made
    return group


cdef int set_draws(CronGroup* group, draws) except -1:
    cdef CronDraw* draw
    for each in draws:
        draw = &group.draws.each[group.draws.count]
        draw.field, draw.first, draw.last = each.field, each.first, each.last
        draw.step, draw.outcomes = each.step, each.outcomes
        group.draws.count += 1
    group.memo.draws = group.draws.count
    if group.draws.count == 0:
        rule_tune(&group.rule)
    return 0


# The arrays of a Zone as C sees them, looked up once; the object keeps them alive.
cdef class ZoneArrays:
    cdef ZoneTable table
    cdef object zone

    def __cinit__(self, zone):
        cdef const int64_t[::1] starts = zone.starts
        cdef const int64_t[::1] offsets = zone.offsets
        cdef const int64_t[::1] reached = zone.reached
        self.zone = zone
        self.table.starts = &starts[0]
        self.table.offsets = &offsets[0]
        self.table.reached = &reached[0]
        self.table.stretches = starts.shape[0]
        self.table.cycle_from = zone.cycle_from


cdef dict tables = {}


cdef ZoneArrays zone_table(str tz):
    found = tables.get(tz)
    if found is None:
        found = tables.setdefault(tz, ZoneArrays(load_zone(tz)))
    return found
