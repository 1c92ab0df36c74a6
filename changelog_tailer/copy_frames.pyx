from cpython.buffer cimport PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove


cdef class CopyFrames:
    """What a server sends during a COPY: the rows in pages, everything else passed on.

    page_bytes: from so many bytes of rows on a page is full; it has room for a receipt more.
    """

    def __cinit__(self, Py_ssize_t page_bytes):
        if page_bytes < 4:
            raise ValueError("a page has 4 bytes at least")
        self.page_bytes = page_bytes
        self.size = page_bytes + page_bytes // 4
        self.memory = <uint8_t*>malloc(self.size)
        self.others = <uint8_t*>malloc(self.size + HEAD_BYTES)
        if self.memory == NULL or self.others == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.memory)
        free(self.others)

    def room(self):
        """Where the next bytes belong, a quarter of a page at least; good until `take` or `cut` is called."""
        return PyMemoryView_FromMemory(
            <char*>self.memory + self.used, self.size - self.used, PyBUF_WRITE
        )

    def take(self, Py_ssize_t nbytes):
        """So many bytes have come into `room`: gives those that are of no CopyData message.

        ValueError for more than there was room for, or for a length that no message can have.
        """
        cdef Py_ssize_t count
        if not 0 <= nbytes <= self.size - self.used:
            raise ValueError("more was received than there was room for")
        with nogil:
            count = self.sort_out(self.memory + self.used, nbytes)
        if self.left < 0:
            raise ValueError("a message of the server has a length that none can have")
        return (<char*>self.others)[:count]

    @property
    def full(self):
        """Whether the page should be cut before more is received."""
        return self.used >= self.page_bytes

    def cut(self):
        """The page: what CopyData messages held since the last one, the last row perhaps cut."""
        cdef bytes page = (<char*>self.memory)[:self.used]
        self.used = 0
        return page

    cdef Py_ssize_t sort_out(self, const uint8_t* at, Py_ssize_t count) noexcept nogil:
        cdef const uint8_t* end = at + count
        cdef Py_ssize_t passed = 0
        cdef Py_ssize_t part
        while at < end and self.left >= 0:
            if self.left == 0:
                at += self.take_head(at, end - at)
                if self.head_len == HEAD_BYTES and self.head[0] != COPY_DATA:
                    memcpy(self.others + passed, self.head, HEAD_BYTES)
                    passed += HEAD_BYTES
            part = min(<int64_t>(end - at), max(self.left, <int64_t>0))
            if self.head[0] == COPY_DATA:
                memmove(self.memory + self.used, at, part)
                self.used += part
            else:
                memcpy(self.others + passed, at, part)
                passed += part
            at += part
            self.left -= part
        return passed

    # Until it is complete there is nothing left of its message: the next call goes on with the head.
    cdef Py_ssize_t take_head(self, const uint8_t* at, Py_ssize_t count) noexcept nogil:
        cdef Py_ssize_t part
        if self.head_len == HEAD_BYTES:
            self.head_len = 0
        part = min(count, <Py_ssize_t>(HEAD_BYTES - self.head_len))
        memcpy(self.head + self.head_len, at, part)
        self.head_len += <int>part
        if self.head_len == HEAD_BYTES:
            self.left = <int64_t>(
                <uint32_t>self.head[1] << 24 | <uint32_t>self.head[2] << 16
                | <uint32_t>self.head[3] << 8 | self.head[4]
            ) - 4
        return part
