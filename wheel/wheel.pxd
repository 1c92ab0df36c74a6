"""The wheel as Python has it: the border between its methods and the core.

Any thread may call any method. Each enters `nogil` once, and the code it comes back with becomes a result or
an error here. The methods are described in wheel.pyi.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from mainspring.wheel.core cimport Core
from mainspring.wheel.digest cimport Names
from mainspring.wheel.load cimport Load


cdef class Wheel:
    cdef Core core
    cdef Names names                # of the routes and expressions, for digests
    cdef dict route_numbers
    cdef dict cron_numbers
    cdef list compiled
    cdef uint32_t first_shard       # where the newest batch began
    cdef str subject
    cdef str reply_prefix
    cdef bint loading               # a Loader is open
    cdef uint32_t applying          # calls of apply under way
    cdef bint digesting             # a Digester is open

    cdef int require_whole(self) except -1


cdef class Loader:
    cdef Load load
    cdef Wheel wheel
    cdef bint open
    cdef bint building              # finish has been called
    cdef int calls                  # under way
    cdef int code                   # of the build, once it is over

    cdef void end(self)
