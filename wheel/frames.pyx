"""Frames: the buffer a drain fills. frames.pxd and frames.pyi say what it promises."""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

import numpy as np

from cpython.bytearray cimport PyByteArray_AS_STRING

from mainspring.wheel.memory cimport unlikely
from mainspring.wheel.text cimport NUMBER_MAX, UUID_TEXT, write_number, write_time, write_uuid

SKIP_REASONS = ("window", "latest", "none")

cdef const char* HEADERS = b"\r\nNATS/1.0\r\nNats-Msg-Id: "
cdef const char* HEADERS_END = b"\r\nContent-Type: application/cloudevents+json\r\n\r\n"
cdef const char* SUBJECT = b'","subject":"'
cdef const char* TIME = b'","time":"'
cdef const char* DATA = b'","data":'

cdef enum:
    HEADERS_BYTES = 25      # two of them end the line before, and are no headers
    HEADERS_END_BYTES = 48
    SUBJECT_BYTES = 13
    TIME_BYTES = 10
    DATA_BYTES = 9


cdef inline char* put(char* to, const void* text, size_t size) noexcept nogil:
    memcpy(to, text, size)
    return to + size


# Nearly all runs of a drain share their instant, so its two texts are written once a second.
cdef void write_instant(Output* output, int64_t instant) noexcept nogil:
    output.written_at = instant
    output.time_bytes = <uint32_t>(write_time(output.time, instant) - output.time)
    output.epoch[0] = c"@"
    output.epoch_bytes = <uint32_t>(write_number(output.epoch + 1, instant) - output.epoch)


cdef inline char* write_subject(
    char* to, const Run* run, const char* id_text, uint32_t id_bytes,
) noexcept nogil:
    if run.key == NULL:
        return put(to, id_text, id_bytes)
    if run.uuid_key:
        return write_uuid(to, run.key)
    return put(to, run.key, run.key_bytes)


cdef inline uint32_t body_bytes(
    const Output* output, const Envelope* envelope, const Run* run, uint32_t id_bytes,
) noexcept nogil:
    cdef uint32_t subject = id_bytes if run.key == NULL else (UUID_TEXT if run.uuid_key else run.key_bytes)
    cdef uint32_t data = DATA_BYTES + run.data_bytes + 1 if run.data != NULL else 2
    return (
        envelope.opening_bytes + id_bytes + output.epoch_bytes + SUBJECT_BYTES + subject + TIME_BYTES
        + output.time_bytes + data
    )


cdef inline char* write_body(
    char* to, const Output* output, const Envelope* envelope, const Run* run, const char* id_text,
    uint32_t id_bytes,
) noexcept nogil:
    to = put(to, envelope.opening, envelope.opening_bytes)
    to = put(to, id_text, id_bytes)
    to = put(to, output.epoch, output.epoch_bytes)
    to = put(to, SUBJECT, SUBJECT_BYTES)
    to = write_subject(to, run, id_text, id_bytes)
    to = put(to, TIME, TIME_BYTES)
    to = put(to, output.time, output.time_bytes)
    if run.data == NULL:
        return put(to, b'"}', 2)
    to = put(to, DATA, DATA_BYTES)
    to = put(to, run.data, run.data_bytes)
    return put(to, b"}", 1)


cdef inline void note_run(Output* output, const Run* run, char* end) noexcept nogil:
    output.used = <uint64_t>(end - output.bytes)
    output.ids[output.count] = run.id
    output.scheduled[output.count] = run.scheduled_at
    output.ends[output.count] = <uint32_t>output.used
    output.count += 1


cdef bint write_run(Output* output, const Envelope* envelope, const Run* run) noexcept nogil:
    cdef char id_text[24]
    cdef uint32_t id_bytes = <uint32_t>(write_number(id_text, run.id) - id_text)
    cdef uint32_t headers, body
    cdef char* to = output.bytes + output.used
    if unlikely(output.written_at != run.scheduled_at):
        write_instant(output, run.scheduled_at)
    headers = HEADERS_BYTES - 2 + id_bytes + output.epoch_bytes + HEADERS_END_BYTES
    body = body_bytes(output, envelope, run, id_bytes)
    if output.count == output.count_max:
        return False
    if output.used + run.route.bytes + 3 * NUMBER_MAX + 6 + headers + body > output.capacity:
        return False
    to = put(to, run.route.text, run.route.bytes)
    to = write_number(to, <int64_t>(output.first + output.count))
    to[0] = c" "
    to = write_number(to + 1, headers)
    to[0] = c" "
    to = write_number(to + 1, headers + body)
    to = put(to, HEADERS, HEADERS_BYTES)
    to = put(to, id_text, id_bytes)
    to = put(to, output.epoch, output.epoch_bytes)
    to = put(to, HEADERS_END, HEADERS_END_BYTES)
    to = write_body(to, output, envelope, run, id_text, id_bytes)
    note_run(output, run, put(to, b"\r\n", 2))
    return True


cdef class Frames:
    def __cinit__(self, capacity: int = 262_144, max_frames: int = 4096):
        cdef int64_t[::1] instants
        cdef uint32_t[::1] offsets
        if capacity < FRAME_MAX or capacity >= 2**32:
            raise ValueError(f"capacity={capacity}: give {FRAME_MAX} bytes (the largest frame) or more")
        if not 0 < max_frames < 2**31:
            raise ValueError(f"max_frames={max_frames}: give a count from 1 to 2**31 - 1")
        memset(&self.output, 0, sizeof(Output))
        self.store = bytearray(capacity)
        self.ids, self.scheduled = np.zeros(max_frames, np.int64), np.zeros(max_frames, np.int64)
        self.ends = np.zeros(max_frames, np.uint32)
        self.output.bytes = PyByteArray_AS_STRING(self.store)
        self.output.capacity, self.output.count_max = capacity, max_frames
        instants = self.ids
        self.output.ids = &instants[0]
        instants = self.scheduled
        self.output.scheduled = &instants[0]
        offsets = self.ends
        self.output.ends = &offsets[0]
        self.reset(0)

    def reset(self, first: int) -> None:
        if not 0 <= first < 2**63:
            raise ValueError(f"first={first}: a reply number is at least 0 and below 2**63")
        self.output.first = first
        self.output.used = self.output.count = self.output.due = 0
        memset(self.output.skipped, 0, sizeof(self.output.skipped))
        self.output.second = self.output.written_at = INT64_MIN
        self.output.due_since = INT64_MAX

    @property
    def first(self) -> int:
        return self.output.first

    @property
    def second(self) -> int:
        return self.output.second

    @property
    def due_since(self) -> int:
        return min(self.output.second, self.output.due_since)

    @property
    def nbytes(self) -> int:
        return self.output.used

    @property
    def due(self) -> int:
        return self.output.due

    @property
    def skipped(self) -> dict[str, int]:
        return {SKIP_REASONS[i]: self.output.skipped[i] for i in range(SKIPS)}

    def __len__(self) -> int:
        return self.output.count

    def __repr__(self) -> str:
        return f"<Frames of second {self.output.second}: {self.output.count} runs, {self.output.used} bytes>"

    def view(self) -> memoryview:
        return memoryview(self.store).toreadonly()[: self.output.used]

    def frame(self, i: int) -> memoryview:
        self.check(i)
        return memoryview(self.store).toreadonly()[self.output.ends[i - 1] if i else 0 : self.output.ends[i]]

    def job_id(self, i: int) -> int:
        self.check(i)
        return self.output.ids[i]

    def scheduled_at(self, i: int) -> int:
        self.check(i)
        return self.output.scheduled[i]

    def run_id(self, i: int) -> str:
        self.check(i)
        return f"{self.output.ids[i]}@{self.output.scheduled[i]}"

    def offsets(self):
        offsets = np.zeros(self.output.count + 1, np.uint32)
        offsets[1:] = self.ends[: self.output.count]
        return offsets

    def job_ids(self):
        return self.ids[: self.output.count]

    def instants(self):
        return self.scheduled[: self.output.count]

    cdef int check(self, Py_ssize_t i) except -1:
        if not 0 <= i < self.output.count:
            raise IndexError(f"frame {i} of {self.output.count}")
        return 0
