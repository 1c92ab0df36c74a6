"""The tick thread as Python has it: the border between its methods and ticking.pxd. ticker.pyi describes them."""

from libc.stdint cimport uint64_t

from mainspring.wheel.frames cimport Frames
from mainspring.wheel.ticking cimport Buffer, Clock, Ticking, pthread_t
from mainspring.wheel.wheel cimport Wheel


cdef class ManualClock:
    cdef Clock clock


cdef class Piece(Frames):
    cdef Buffer buffer


cdef class Ticker:
    cdef Ticking ticking
    cdef Buffer** ring
    cdef Clock machine
    cdef ManualClock clock
    cdef Wheel wheel
    cdef tuple pieces
    cdef uint64_t first
    cdef uint64_t step
    cdef pthread_t thread
    cdef bint started
    cdef object __weakref__
    cdef void end(self) noexcept
