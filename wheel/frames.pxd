"""Runs as the broker wants them: protocol frames back to back in one buffer.

    HPUB <instance>.run.<route> <reply prefix>.<n> <header bytes> <total bytes>␍␊
    NATS/1.0␍␊Nats-Msg-Id: 42@1764500000␍␊Content-Type: application/cloudevents+json␍␊␍␊
    {"specversion":"1.0","type":"mainspring.run","source":"<instance>","id":"42@1764500000",
     "subject":"<key or id>","time":"2025-11-30T10:53:20Z","data":<payload>}␍␊

`write_run` is one pass with lengths known before; it writes nothing where the frame has no room.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    # No frame is longer: 64 KiB of payload, an escaped key of 1,530, route and reply of 128, instance of 64.
    FRAME_MAX = 69632
    SKIP_WINDOW = 0
    SKIP_LATEST = 1
    SKIP_NONE = 2
    SKIPS = 3


# The parts that do not change: per wheel, and per route.
ctypedef struct Envelope:
    char opening[256]       # the body up to the run id
    uint32_t opening_bytes


ctypedef struct RouteText:
    uint32_t bytes
    char text[448]          # "HPUB ", subject and reply prefix, up to the reply number


ctypedef struct Run:
    int64_t id
    int64_t scheduled_at
    const RouteText* route
    const uint8_t* key      # escaped, or 16 bytes of a UUID; NULL: the id stands for it
    uint32_t key_bytes
    bint uuid_key
    const uint8_t* data     # NULL: left out
    uint32_t data_bytes


ctypedef struct Output:
    char* bytes
    uint64_t used
    uint64_t capacity
    uint32_t count
    uint32_t count_max
    uint64_t first
    int64_t second
    int64_t due_since       # the earliest second a lost run in it was due in; INT64_MAX where it has none
    uint64_t due
    uint64_t skipped[3]
    int64_t* ids
    int64_t* scheduled
    uint32_t* ends          # of each frame in `bytes`
    int64_t written_at      # the instant that the two texts below show
    char time[32]
    uint32_t time_bytes
    char epoch[24]          # "@1764500000"
    uint32_t epoch_bytes


cdef bint write_run(Output* output, const Envelope* envelope, const Run* run) noexcept nogil


cdef class Frames:
    cdef Output output
    cdef bytearray store
    cdef object ids
    cdef object scheduled
    cdef object ends
    cdef int check(self, Py_ssize_t i) except -1
