"""Frames: the buffer a drain fills. frames.pxd and frames.pyi say what it promises."""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint32_t
from libc.string cimport memcpy, memset

import numpy as np

from cpython.bytearray cimport PyByteArray_AS_STRING

from mainspring.wheel.text cimport SLACK, write_number, write_time

SKIP_REASONS = ("window", "latest", "none")

cdef const char* START = b"\r\nNATS/1.0\r\nNats-Msg-Id: "
cdef const char* HEADERS_END = b"\r\nContent-Type: application/cloudevents+json\r\n\r\n"
cdef const char* SUBJECT = b'","subject":"'
cdef const char* TIME = b'","time":"'
cdef const char* DATA = b'","data":'

cdef enum:
    START_BYTES = 25
    LINE_END_BYTES = 2      # of them, which end the line before and are no headers
    HEADERS_END_BYTES = 48
    SUBJECT_BYTES = 13
    TIME_BYTES = 10


cdef inline char* put(char* to, const void* text, size_t size) noexcept nogil:
    memcpy(to, text, size)
    return to + size


cdef inline char* put_epoch(char* to, int64_t instant) noexcept nogil:
    to[0] = c"@"
    return write_number(to + 1, instant)


cdef char* lay_out_middle(char* to, const Envelope* envelope, int64_t instant) noexcept nogil:
    to = put_epoch(to, instant)
    to = put(to, HEADERS_END, HEADERS_END_BYTES)
    return put(to, envelope.opening, envelope.opening_bytes)


cdef char* lay_out_time(char* to, int64_t instant) noexcept nogil:
    to = write_time(put(to, TIME, TIME_BYTES), instant)
    return put(to, DATA, DATA_BYTES)


cdef void lay_out(Template* template, const Envelope* envelope, int64_t instant) noexcept nogil:
    cdef uint32_t epoch = <uint32_t>(put_epoch(template.subject, instant) - template.subject)
    put(template.start, START, START_BYTES)
    template.instant, template.start_bytes = instant, START_BYTES
    template.middle_bytes = <uint32_t>(lay_out_middle(template.middle, envelope, instant) - template.middle)
    put(template.subject + epoch, SUBJECT, SUBJECT_BYTES)
    template.subject_bytes = epoch + SUBJECT_BYTES
    template.time_bytes = <uint32_t>(lay_out_time(template.time, instant) - template.time)
    template.header_bytes = START_BYTES - LINE_END_BYTES + epoch + HEADERS_END_BYTES
    # The brace that ends the body is the last one.
    template.body_bytes = envelope.opening_bytes + template.subject_bytes + template.time_bytes + 1


cdef class Frames:
    def __cinit__(self, capacity: int = 262_144, max_frames: int = 4096):
        cdef int64_t[::1] instants
        cdef uint32_t[::1] offsets
        if capacity < FRAME_MAX or capacity >= 2**32:
            raise ValueError(f"capacity={capacity}: give {FRAME_MAX} bytes (the largest frame) or more")
        if not 0 < max_frames < 2**31:
            raise ValueError(f"max_frames={max_frames}: give a count from 1 to 2**31 - 1")
        memset(&self.output, 0, sizeof(Output))
        self.store = bytearray(capacity + SLACK)
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
        memset(&self.output.skipped, 0, sizeof(Skips))
        self.output.second = self.output.template.instant = INT64_MIN
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
        return {SKIP_REASONS[i]: self.output.skipped.by_reason[i] for i in range(SKIPS)}

    @property
    def skipped_span(self) -> tuple[int, int]:
        return self.output.skipped.first, self.output.skipped.last

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
