"""Runs as the broker wants them: protocol frames back to back in one buffer.

    HPUB <instance>.run.<route> <reply prefix>.<n> <header bytes> <total bytes>␍␊
    NATS/1.0␍␊Nats-Msg-Id: 42@1764500000␍␊Content-Type: application/cloudevents+json␍␊␍␊
    {"specversion":"1.0","type":"mainspring.run","source":"<instance>","id":"42@1764500000",
     "subject":"<key or id>","time":"2025-11-30T10:53:20Z","data":<payload>}␍␊

    output_begin(&output, second)
    if not write_run(&output, &envelope, &run): ...     # no room: nothing is written

What lies between the parts that vary is the same for all runs of an instant. It is laid out once, in a
Template, and copied in pieces of 32 bytes.
"""

from libc.stdint cimport INT64_MIN, int64_t, uint8_t, uint32_t, uint64_t

from mainspring.wheel.memory cimport prefetch_write, unlikely
from mainspring.wheel.text cimport (
    UUID_TEXT, Counter, NumberText, counter_set, counter_up, put_bytes, put_counter, put_number,
    put_32, put_64, put_pieces, put_size, put_uuid,
)


cdef enum:
    # No frame is longer: 64 KiB of payload, an escaped key of 1,530, route and reply of 128, instance of 64.
    FRAME_MAX = 69632
    LINE_MAX = 66           # of the first line without its route, and of the end of the frame; generous
    ROOM_AHEAD = 512
    ROOM_LINES = 6          # as many as a usual frame has
    SKIP_WINDOW = 0
    SKIP_LATEST = 1
    SKIP_NONE = 2
    SKIPS = 3


cdef enum:
    DATA_BYTES = 9          # of `","data":`, by which a Template's time ends


# The parts that do not change: per wheel, and per route.
ctypedef struct Envelope:
    char opening[256]       # the body up to the run id
    uint32_t opening_bytes


ctypedef struct RouteText:
    uint32_t bytes
    char text[448]          # "HPUB ", subject and reply prefix, up to the reply number


# The parts that are the same for all runs of one instant, in the order in which they are written.
ctypedef struct Template:
    int64_t instant
    uint32_t header_bytes   # without the id
    uint32_t body_bytes     # without ids, key and payload, as if there were a payload
    uint32_t start_bytes
    uint32_t middle_bytes
    uint32_t subject_bytes
    uint32_t time_bytes
    char start[32]          # from the sizes to the id
    char middle[384]        # from the id in the headers to the one in the body
    char subject[64]        # from there to the key
    char time[96]           # from there to the payload


ctypedef struct Run:
    int64_t id
    const NumberText* id_text
    int64_t scheduled_at
    const RouteText* route
    const uint8_t* key      # escaped, or 16 bytes of a UUID; NULL: the id stands for it
    uint32_t key_bytes
    bint uuid_key
    const uint8_t* data     # NULL: left out
    uint32_t data_bytes


# Runs that catch-up leaves out. first, last: their instants; while there are none, wherever.
ctypedef struct Skips:
    uint64_t by_reason[3]
    int64_t first
    int64_t last


ctypedef struct Output:
    char* bytes             # SLACK more than `capacity`
    uint64_t used
    uint64_t capacity
    uint32_t count
    uint32_t count_max
    uint64_t first
    int64_t second
    int64_t due_since       # the earliest instant of a run in arrears in it; INT64_MAX where it has none
    uint64_t due
    Skips skipped
    Counter reply           # of the next frame: first + count
    int64_t* ids
    int64_t* scheduled
    uint32_t* ends          # of each frame in `bytes`
    Template template


cdef inline bint skips_any(const Skips* skips) noexcept nogil:
    return skips.by_reason[SKIP_WINDOW] + skips.by_reason[SKIP_LATEST] + skips.by_reason[SKIP_NONE] != 0


cdef inline void skips_add(
    Skips* skips, int reason, uint64_t count, int64_t first, int64_t last,
) noexcept nogil:
    if not skips_any(skips):
        skips.first, skips.last = first, last
    skips.by_reason[reason] += count
    skips.first, skips.last = min(skips.first, first), max(skips.last, last)


cdef void lay_out(Template* template, const Envelope* envelope, int64_t instant) noexcept nogil


# The template may be that of another wheel.
cdef inline void output_begin(Output* output, int64_t second) noexcept nogil:
    output.second = second
    output.template.instant = INT64_MIN
    counter_set(&output.reply, output.first + output.count)


cdef inline uint32_t subject_bytes(const Run* run, const NumberText* id) noexcept nogil:
    if run.key == NULL:
        return id.bytes
    return UUID_TEXT if run.uuid_key else run.key_bytes


cdef inline uint32_t body_bytes(
    const Template* template, const Run* run, const NumberText* id,
) noexcept nogil:
    cdef uint32_t data = run.data_bytes if run.data != NULL else 1 - DATA_BYTES
    return template.body_bytes + id.bytes + subject_bytes(run, id) + data


cdef inline char* put_line(
    char* to, const RouteText* route, const Counter* reply, uint32_t headers, uint32_t total,
) noexcept nogil:
    to = put_pieces(to, route.text, route.bytes)
    to = put_counter(to, reply)
    to = put_size(to, headers)
    return put_size(to, total)


cdef inline char* put_subject(char* to, const Run* run, const NumberText* id) noexcept nogil:
    if run.key == NULL:
        return put_number(to, id)
    if run.uuid_key:
        return put_uuid(to, run.key)
    return put_bytes(to, run.key, run.key_bytes)


# The end of the body, and of the frame.
cdef inline char* put_data(char* to, const Run* run) noexcept nogil:
    if run.data == NULL:
        to[1 - DATA_BYTES], to[2 - DATA_BYTES], to[3 - DATA_BYTES] = c"}", c"\r", c"\n"
        return to + 4 - DATA_BYTES
    to = put_bytes(to, run.data, run.data_bytes)
    to[0], to[1], to[2] = c"}", c"\r", c"\n"
    return to + 3


cdef inline void note_run(Output* output, const Run* run, char* end) noexcept nogil:
    output.used = <uint64_t>(end - output.bytes)
    output.ids[output.count] = run.id
    output.scheduled[output.count] = run.scheduled_at
    output.ends[output.count] = <uint32_t>output.used
    output.count += 1
    counter_up(&output.reply)


# Writing waits for the lines of the buffer, which another frame's data has driven out of the nearest cache.
cdef inline void ask_room(const char* to) noexcept nogil:
    cdef int line
    for line in range(ROOM_LINES):
        prefetch_write(to + ROOM_AHEAD + (line << 6))


cdef inline bint write_run(Output* output, const Envelope* envelope, const Run* run) noexcept nogil:
    cdef Template* template = &output.template
    cdef char* to = output.bytes + output.used
    cdef const NumberText* id = run.id_text
    cdef uint32_t headers, total
    if unlikely(template.instant != run.scheduled_at):
        lay_out(template, envelope, run.scheduled_at)
    headers = template.header_bytes + id.bytes
    total = headers + body_bytes(template, run, id)
    if unlikely(output.count == output.count_max):
        return False
    if unlikely(output.used + run.route.bytes + LINE_MAX + total > output.capacity):
        return False
    ask_room(to)
    to = put_line(to, run.route, &output.reply, headers, total)
    to = put_32(to, template.start, template.start_bytes)
    to = put_number(to, id)
    to = put_pieces(to, template.middle, template.middle_bytes)
    to = put_number(to, id)
    to = put_64(to, template.subject, template.subject_bytes)
    to = put_subject(to, run, id)
    to = put_64(to, template.time, template.time_bytes)
    note_run(output, run, put_data(to, run))
    return True


cdef class Frames:
    cdef Output output
    cdef bytearray store
    cdef object ids
    cdef object scheduled
    cdef object ends
    cdef int check(self, Py_ssize_t i) except -1
