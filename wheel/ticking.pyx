"""The tick thread, in C alone. ticking.pxd says what it promises."""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint32_t, uint64_t
from libc.string cimport memset
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, clockid_t, timespec

from mainspring.wheel.core cimport WRONG_SECOND, drain_second
from mainspring.wheel.drain cimport WHOLE
from mainspring.wheel.memory cimport DONE, NO_MEMORY
from mainspring.wheel.pthread cimport (
    pthread_cond_destroy, pthread_cond_init, pthread_cond_signal, pthread_cond_t, pthread_condattr_t,
    pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_t, pthread_mutex_unlock,
)


cdef extern from "<pthread.h>" nogil:
    int pthread_condattr_init(pthread_condattr_t* attributes)
    int pthread_condattr_setclock(pthread_condattr_t* attributes, clockid_t clock)
    int pthread_condattr_destroy(pthread_condattr_t* attributes)
    int pthread_cond_timedwait(pthread_cond_t* cond, pthread_mutex_t* mutex, const timespec* until)
    int pthread_create(pthread_t* thread, const void* attributes, void* (*body)(void*) noexcept nogil, void* of)
    int pthread_join(pthread_t thread, void** result)
    int pthread_setname_np(pthread_t thread, const char* name)


cdef extern from "<signal.h>" nogil:
    ctypedef struct sigset_t:
        pass
    int SIG_SETMASK
    int sigfillset(sigset_t* signals)
    int pthread_sigmask(int how, const sigset_t* signals, sigset_t* before)


cdef extern from "<sys/eventfd.h>" nogil:
    int EFD_CLOEXEC
    int EFD_NONBLOCK
    int eventfd(unsigned int start, int flags)
    int eventfd_write(int bell, uint64_t count)


cdef extern from "<time.h>" nogil:
    clockid_t CLOCK_BOOTTIME


cdef extern from "<unistd.h>" nogil:
    int close(int fd)


cdef extern from * nogil:
    int __ATOMIC_SEQ_CST
    int64_t atomic_load "__atomic_load_n"(const int64_t* at, int order)
    void atomic_store "__atomic_store_n"(int64_t* at, int64_t value, int order)


cdef enum:
    # However far the next second is: the clock may step meanwhile.
    REST_NS = 1000000000
    # A clock moved by hand is looked at this often.
    LOOK_NS = 1000000
    MEMORY_PAUSE_NS = 250000000

# ---------------------------------------------------------------------------------------- clocks


cdef int64_t read_ns(clockid_t clock) noexcept nogil:
    cdef timespec at
    clock_gettime(clock, &at)
    return <int64_t>at.tv_sec * SECOND_NS + at.tv_nsec


# In this order a step that comes between the two is seen at once, or not at all.
cdef Reading look(const Clock* clock) noexcept nogil:
    cdef Reading seen
    if clock.by_hand:
        seen.wall = atomic_load(&clock.at, __ATOMIC_SEQ_CST)
        seen.offset = atomic_load(&clock.offset, __ATOMIC_SEQ_CST)
    else:
        seen.wall = read_ns(CLOCK_REALTIME)
        seen.offset = seen.wall - read_ns(CLOCK_BOOTTIME)
    return seen


cdef void set_by_hand(Clock* clock, int64_t at_ns, int64_t offset_ns) noexcept nogil:
    clock.by_hand = True
    atomic_store(&clock.offset, offset_ns, __ATOMIC_SEQ_CST)
    atomic_store(&clock.at, at_ns, __ATOMIC_SEQ_CST)


cdef inline bint has_stepped(const Ticking* t, const Reading* seen) noexcept nogil:
    cdef int64_t most = <int64_t>STEP_S * SECOND_NS
    return seen.offset - t.trusted > most or t.trusted - seen.offset > most


cdef int64_t steady_ns() noexcept nogil:
    return read_ns(CLOCK_MONOTONIC)


# ------------------------------------------------------------------------------------- the thread


cdef int ticking_open(
    Ticking* t, Core* core, const Clock* clock, Buffer** ring, uint32_t size,
) noexcept nogil:
    cdef pthread_condattr_t steady
    memset(t, 0, sizeof(Ticking))
    t.core, t.clock, t.ring, t.size = core, clock, ring, size
    t.second = core.now + 1
    t.permitted = t.stalled_until = INT64_MIN
    t.gate, t.trusted = INT64_MAX, look(clock).offset
    pthread_mutex_init(&t.lock, NULL)
    # A wait on the wall clock would be drawn out by a step back.
    pthread_condattr_init(&steady)
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC)
    pthread_cond_init(&t.changed, &steady)
    pthread_condattr_destroy(&steady)
    t.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
    return t.bell


cdef void ticking_close(Ticking* t) noexcept nogil:
    if t.bell >= 0:
        close(t.bell)
    t.bell = -1
    pthread_cond_destroy(&t.changed)
    pthread_mutex_destroy(&t.lock)


cdef void unlock_and_wake(Ticking* t) noexcept nogil:
    pthread_cond_signal(&t.changed)
    pthread_mutex_unlock(&t.lock)


cdef int obstacle(const Ticking* t, const Reading* seen) noexcept nogil:
    if t.retry_ns > steady_ns():
        return MEMORY
    if t.filled - t.given == t.size:
        return ROOM
    if t.amid:
        return NOTHING
    if has_stepped(t, seen):
        return STEP
    if seen.wall < t.second * SECOND_NS:
        return CLOCK
    if t.second > t.gate:
        return GATE
    if t.second <= t.permitted:
        return NOTHING
    if t.second <= t.stalled_until or seen.wall // SECOND_NS - t.second >= t.late_after:
        return PERMIT
    return NOTHING


# How long the obstacle can last by itself, at most.
cdef int64_t rest_ns(const Ticking* t, int64_t now_ns) noexcept nogil:
    if t.waits_for == MEMORY:
        return MEMORY_PAUSE_NS
    if t.clock.by_hand:
        return LOOK_NS
    return min(t.second * SECOND_NS - now_ns, <int64_t>REST_NS) if t.waits_for == CLOCK else REST_NS


cdef void rest(Ticking* t, int64_t now_ns) noexcept nogil:
    cdef int64_t until_ns = steady_ns() + rest_ns(t, now_ns)
    cdef timespec until
    until.tv_sec, until.tv_nsec = until_ns // SECOND_NS, until_ns % SECOND_NS
    pthread_cond_timedwait(&t.changed, &t.lock, &until)


# A stall is worked through under permits to its end, also where that is hardly late any more.
cdef void ask_for_permit(Ticking* t, int64_t now_ns) noexcept nogil:
    if t.second > t.stalled_until:
        t.stalled_until = now_ns // SECOND_NS
    eventfd_write(t.bell, 1)


# Asks whoever listens for what the thread cannot have by waiting.
cdef void ask(Ticking* t, int reason, int64_t now_ns) noexcept nogil:
    if reason == PERMIT:
        ask_for_permit(t, now_ns)
    elif reason == STEP:
        eventfd_write(t.bell, 1)


# What the clock is moved by between two looks, and is no step, is how clocks are kept right.
cdef int look_round(Ticking* t, Reading* seen) noexcept nogil:
    seen[0] = look(t.clock)
    if not has_stepped(t, seen):
        t.trusted = seen.offset
    return obstacle(t, seen)


cdef bint wait_for_work(Ticking* t, Reading* seen) noexcept nogil:
    cdef int reason = look_round(t, seen)
    while reason != NOTHING and not t.stopping:
        if reason != t.waits_for:
            ask(t, reason, seen.wall)
        t.waits_for = reason
        rest(t, seen.wall)
        reason = look_round(t, seen)
    t.waits_for = NOTHING
    return not t.stopping


# Whether a second is missed is judged once for all of it, however long its draining is held up.
cdef void begin_second(Ticking* t, const Reading* seen) noexcept nogil:
    t.amid = True
    t.now = seen.wall // SECOND_NS
    t.began_ns = steady_ns()
    t.mark_then = t.mark


cdef void end_second(Ticking* t, Buffer* buffer) noexcept nogil:
    buffer.whole = True
    buffer.took_ns = steady_ns() - t.began_ns
    buffer.late_ns = look(t.clock).wall - t.second * SECOND_NS
    t.amid = False
    t.second += 1


cdef void hand_over(Ticking* t, int code) noexcept nogil:
    cdef Buffer* buffer = t.ring[t.filled % t.size]
    buffer.mark, buffer.whole = t.mark_then, False
    if code == WHOLE:
        end_second(t, buffer)
    t.filled += 1
    eventfd_write(t.bell, 1)


# Nothing is lost by a refusal. What was drained before it is handed over at once: the next may be the last.
cdef void meet_refusal(Ticking* t) noexcept nogil:
    t.refused += 1
    t.refusals += 1
    t.retry_ns = steady_ns() + MEMORY_PAUSE_NS
    hand_over(t, NO_MEMORY)
    if t.refusals == MEMORY_TRIES:
        t.failure, t.stopping = NO_MEMORY, True


cdef void end_piece(Ticking* t, int code) noexcept nogil:
    if code == NO_MEMORY:
        meet_refusal(t)
    elif code == WRONG_SECOND:
        t.failure, t.stopping = WRONG_SECOND, True
    else:
        t.refusals = 0
        hand_over(t, code)


# A second that is over before it was begun here was given to somebody else, and its runs with it.
cdef int drain_some(Ticking* t) noexcept nogil:
    if t.core.now >= t.second:
        return WRONG_SECOND
    return drain_second(t.core, t.second, t.now, t.ring[t.filled % t.size].output)


cdef void* tick(void* ticking) noexcept nogil:
    cdef Ticking* t = <Ticking*>ticking
    cdef Reading seen
    cdef int code
    pthread_mutex_lock(&t.lock)
    while wait_for_work(t, &seen):
        if not t.amid:
            begin_second(t, &seen)
        pthread_mutex_unlock(&t.lock)
        code = drain_some(t)
        pthread_mutex_lock(&t.lock)
        end_piece(t, code)
    t.ended = True
    eventfd_write(t.bell, 1)
    pthread_mutex_unlock(&t.lock)
    return NULL


# What is owed when the thread starts is worked through as a stall is.
cdef void note_owed(Ticking* t) noexcept nogil:
    cdef Reading seen = look(t.clock)
    if not has_stepped(t, &seen) and t.second < seen.wall // SECOND_NS:
        t.stalled_until = seen.wall // SECOND_NS


# Signals are for the thread that Python handles them in.
cdef int thread_start(pthread_t* thread, Ticking* t) noexcept nogil:
    cdef sigset_t none, before
    cdef int code
    note_owed(t)
    sigfillset(&none)
    pthread_sigmask(SIG_SETMASK, &none, &before)
    code = pthread_create(thread, NULL, tick, t)
    pthread_sigmask(SIG_SETMASK, &before, NULL)
    if code == DONE:
        pthread_setname_np(thread[0], b"tick")
    return code


cdef void thread_join(pthread_t thread, Ticking* t) noexcept nogil:
    pthread_join(thread, NULL)
    close(t.bell)
    t.bell = -1
