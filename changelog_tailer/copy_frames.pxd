"""The rows of a COPY, taken out of what a server sends.

    frames = CopyFrames(page_bytes=1 << 20)
    nbytes = socket.recv_into(frames.room())
    others = frames.take(nbytes)            # every message but CopyData, as it came
    if frames.full:
        page = frames.cut()                 # what the CopyData messages hold, back to back

A message is a letter, a 32-bit length that counts itself, and so many bytes less four. The server sends one
CopyData for each row, so their heads are taken out where they lie and the rows moved together; neither need
end where what was received ends. Source: "Message Formats" in the PostgreSQL manual.
"""

from libc.stdint cimport int64_t, uint8_t

cdef enum:
    HEAD_BYTES = 5
    COPY_DATA = 100             # 'd'

cdef class CopyFrames:
    cdef uint8_t* memory
    cdef uint8_t* others        # room for as much, of other messages
    cdef Py_ssize_t page_bytes  # from which on a page is full
    cdef Py_ssize_t size        # of memory
    cdef Py_ssize_t used        # by rows, from its start
    cdef uint8_t head[5]        # of a message, as far as it has come
    cdef int head_len
    cdef int64_t left           # bytes of the message that are still to come

    # Moves rows together and what is of other messages to `others`; gives how much that is.
    cdef Py_ssize_t sort_out(self, const uint8_t* at, Py_ssize_t count) noexcept nogil
    cdef Py_ssize_t take_head(self, const uint8_t* at, Py_ssize_t count) noexcept nogil
