"""Publish acknowledgements, read from the socket's bytes without an object each.

    acks = Acks(b"_INBOX.abc")              # replies come to <inbox>.<n>
    at = acks.read(buffer, 0, end)          # those at the front; stops at the first of anything else
    size = frame_bytes(buffer, at, end)     # of what stopped it: 0 while more of it is to come

One of them, as the server spells it:

    MSG <inbox>.<n> <sid> <bytes>␍␊{"stream":"RUNS", "seq":7,"duplicate": true}␍␊

Only that spelling is read here. A refusal, and whatever else a server may send, is left to a full parser.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t

cdef enum:
    ACKS_MAX = 4096         # of one `read`; what follows is left to the next one
    DIGITS_MAX = 18         # so many cannot overflow


# What is still to be read.
ctypedef struct Text:
    const char* at
    const char* end


# In the order in which they came.
ctypedef struct AckList:
    int64_t numbers[ACKS_MAX]
    uint8_t duplicates[ACKS_MAX]
    Py_ssize_t count


# What one batch lost of its open runs.
ctypedef struct Crossed:
    uint16_t indices[ACKS_MAX]
    Py_ssize_t runs
    Py_ssize_t duplicates


# The runs of a batch, a byte each: not 0 while open.
ctypedef struct OpenRuns:
    char* open
    Py_ssize_t runs


# `opening` is "MSG <inbox>.". Gives where it stopped: at `text.end`, or at the first frame that is no plain,
# complete acknowledgement, or behind the last that `acks` had room for.
cdef const char* read_acks(Text text, Text opening, AckList* acks) noexcept nogil

# Crosses off those from `first` on that are of one batch; gives the first of another batch.
cdef Py_ssize_t cross_off_batch(
    const AckList* acks, Py_ssize_t first, OpenRuns batch, Crossed* crossed,
) noexcept nogil


cdef class Acks:
    cdef bytes opening
    cdef AckList acks
    cdef Crossed crossed
    cdef Py_ssize_t check(self, Py_ssize_t i) except -1
    cdef list newest(self)
