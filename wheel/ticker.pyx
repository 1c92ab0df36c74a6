"""Ticker: what Python sees of the tick thread. ticker.pxd and ticker.pyi say what it promises."""

cimport cython
from libc.errno cimport errno
from libc.stdint cimport int64_t, uint64_t

import math
import os

from mainspring.wheel.core cimport WRONG_SECOND
from mainspring.wheel.frames cimport Frames
from mainspring.wheel.memory cimport DONE, NO_MEMORY, memory_give, memory_take
from mainspring.wheel.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from mainspring.wheel.ticking cimport (
    MEMORY_TRIES, NOTHING, SECOND_NS, Buffer, Clock, Reading, Ticking, look, obstacle, set_by_hand, thread_join,
    thread_start, ticking_close, ticking_open, unlock_and_wake,
)
from mainspring.wheel.wheel cimport Wheel


cdef extern from "<sys/eventfd.h>" nogil:
    int eventfd_read(int bell, uint64_t* count)

# By the number of the obstacle.
OBSTACLES = ("", "clock", "permit", "room", "memory", "gate", "step")


# Exact for whole seconds, which one division of so many nanoseconds would not be.
cdef inline double seconds(int64_t ns) noexcept:
    return <double>(ns // SECOND_NS) + <double>(ns % SECOND_NS) / SECOND_NS


cdef int64_t nanoseconds(double at):
    cdef int64_t whole = math.floor(at)
    return whole * SECOND_NS + <int64_t>round((at - whole) * SECOND_NS)


cdef object failure_of(const Ticking* t):
    if t.failure == NO_MEMORY:
        return MemoryError(f"no memory to drain second {t.second}, tried {MEMORY_TRIES} times")
    if t.failure == WRONG_SECOND:
        return RuntimeError(f"second {t.second} is not the wheel's next: somebody else drains it as well")
    return None


cdef class ManualClock:
    def __cinit__(self, at: float):
        self.set(at)

    def __repr__(self) -> str:
        return f"<ManualClock at {self.now()}>"

    def set(self, at: float) -> None:
        set_by_hand(&self.clock, nanoseconds(at), self.clock.offset)

    def step(self, by_s: float) -> None:
        cdef int64_t by_ns = nanoseconds(by_s)
        set_by_hand(&self.clock, self.clock.at + by_ns, self.clock.offset + by_ns)

    def now(self) -> float:
        return seconds(look(&self.clock).wall)

    def monotonic(self) -> float:
        return self.boot()

    def boot(self) -> float:
        cdef Reading seen = look(&self.clock)
        return seconds(seen.wall - seen.offset)


cdef class Piece(Frames):
    def __cinit__(self, capacity: int = 262_144, max_frames: int = 4096):
        self.buffer.output = &self.output

    @property
    def mark(self) -> int:
        return self.buffer.mark

    @property
    def whole(self) -> bool:
        return self.buffer.whole

    @property
    def took_s(self) -> float:
        return seconds(self.buffer.took_ns)

    @property
    def late_s(self) -> float:
        return seconds(self.buffer.late_ns)


# The thread reads what the attributes point to, so the garbage collector may not clear them before
# __dealloc__ has ended it. What is done under the lock is a few instructions: for that nobody gives up the
# GIL, which would cost more to have back.
@cython.no_gc_clear
cdef class Ticker:
    def __cinit__(
        self,
        Wheel wheel not None,
        *,
        late_after_s: int,
        first: int = 0,
        buffers: int = 32,
        capacity: int = 262_144,
        max_frames: int = 4096,
        ManualClock clock = None,
    ):
        cdef const Clock* read = &self.machine if clock is None else &clock.clock
        cdef Piece piece
        self.ticking.bell = -1
        if not 0 < buffers < 2**16 or late_after_s < 1:
            raise ValueError(f"buffers={buffers}, late_after_s={late_after_s}: give 1 or more of each")
        self.wheel, self.clock = wheel, clock
        self.pieces = tuple(Piece(capacity, max_frames) for _ in range(buffers))
        self.ring = <Buffer**>memory_take(buffers * sizeof(Buffer*))
        if self.ring == NULL:
            raise MemoryError(f"no memory for a ring of {buffers} buffers")
        for i, piece in enumerate(self.pieces):
            self.ring[i] = &piece.buffer
            piece.reset(first + i * max_frames)
        self.first, self.step = first, max_frames
        if ticking_open(&self.ticking, &wheel.core, read, self.ring, buffers) < 0:
            raise OSError(errno, f"no eventfd for the tick thread: {os.strerror(errno)}")
        self.ticking.late_after = late_after_s

    def __dealloc__(self):
        if self.ring == NULL:
            return
        self.end()
        ticking_close(&self.ticking)
        memory_give(self.ring)

    def __repr__(self) -> str:
        return f"<Ticker of {self.wheel!r}: {'ended' if self.ended else self.waits_for or 'at work'}>"

    def start(self) -> None:
        if self.started:
            raise RuntimeError("a tick thread is started once: make another Ticker on the same wheel")
        code = thread_start(&self.thread, &self.ticking)
        if code != DONE:
            raise OSError(code, f"no tick thread: {os.strerror(code)}")
        self.started = True

    def stop(self) -> None:
        pthread_mutex_lock(&self.ticking.lock)
        self.ticking.stopping = True
        unlock_and_wake(&self.ticking)

    def close(self) -> None:
        self.end()

    cdef void end(self) noexcept:
        pthread_mutex_lock(&self.ticking.lock)
        self.ticking.stopping = True
        unlock_and_wake(&self.ticking)
        if self.started and self.ticking.bell >= 0:
            with nogil:
                thread_join(self.thread, &self.ticking)

    def fileno(self) -> int:
        return self.ticking.bell

    def hear(self) -> None:
        cdef uint64_t rung
        eventfd_read(self.ticking.bell, &rung)

    def take(self) -> Piece | None:
        cdef Piece piece = None
        pthread_mutex_lock(&self.ticking.lock)
        if self.ticking.taken < self.ticking.filled:
            piece = self.pieces[self.ticking.taken % self.ticking.size]
            self.ticking.taken += 1
        pthread_mutex_unlock(&self.ticking.lock)
        return piece

    def give_back(self, Piece piece not None) -> None:
        cdef uint64_t given = self.ticking.given
        if given == self.ticking.taken or piece is not self.pieces[given % self.ticking.size]:
            raise ValueError(f"{piece!r} is not the oldest piece taken: give them back in their order")
        piece.reset(self.first + (given + self.ticking.size) * self.step)
        pthread_mutex_lock(&self.ticking.lock)
        self.ticking.given += 1
        unlock_and_wake(&self.ticking)

    def leap(self, second: int, now: int) -> bool:
        if self.waits_for != "permit":
            return False
        self.wheel.leap(second, now)
        pthread_mutex_lock(&self.ticking.lock)
        self.ticking.second = self.wheel.core.now + 1
        unlock_and_wake(&self.ticking)
        return True

    def permit(self, second: int) -> None:
        cdef int64_t last = second
        pthread_mutex_lock(&self.ticking.lock)
        self.ticking.permitted = max(self.ticking.permitted, last)
        unlock_and_wake(&self.ticking)

    @property
    def gate(self) -> int:
        return self.ticking.gate

    @gate.setter
    def gate(self, second: int) -> None:
        cdef int64_t last = second
        pthread_mutex_lock(&self.ticking.lock)
        self.ticking.gate = last
        unlock_and_wake(&self.ticking)

    def trust(self, offset_s: float) -> None:
        cdef int64_t offset = nanoseconds(offset_s)
        pthread_mutex_lock(&self.ticking.lock)
        self.ticking.trusted = offset
        unlock_and_wake(&self.ticking)

    @property
    def mark(self) -> int:
        return self.ticking.mark

    @mark.setter
    def mark(self, mark: int) -> None:
        cdef int64_t number = mark
        pthread_mutex_lock(&self.ticking.lock)
        self.ticking.mark = number
        pthread_mutex_unlock(&self.ticking.lock)

    @property
    def waits_for(self) -> str:
        cdef Reading seen
        cdef int reason
        pthread_mutex_lock(&self.ticking.lock)
        reason, seen = self.ticking.waits_for, look(self.ticking.clock)
        # Where it is something else by now, the thread is about to see that.
        if reason != obstacle(&self.ticking, &seen):
            reason = NOTHING
        pthread_mutex_unlock(&self.ticking.lock)
        return OBSTACLES[reason]

    @property
    def refused(self) -> int:
        return self.ticking.refused

    @property
    def ended(self) -> bool:
        pthread_mutex_lock(&self.ticking.lock)
        ended = self.ticking.ended
        pthread_mutex_unlock(&self.ticking.lock)
        return ended

    @property
    def error(self) -> Exception | None:
        return failure_of(&self.ticking) if self.ended else None
