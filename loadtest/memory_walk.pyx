"""Random reads of a large area, one after the other or side by side; described in memory_walk.pyi."""

from libc.stdint cimport uint64_t

cdef enum:
    LINE_WORDS = 8          # of 8 bytes in a cache line


# The high bits of Knuth's MMIX generator are random enough to outwit any prefetcher of a processor.
cdef inline uint64_t step(uint64_t state) noexcept nogil:
    return state * 6364136223846793005ULL + 1442695040888963407ULL


cdef inline uint64_t word_at(const uint64_t* words, int bits, uint64_t state) noexcept nogil:
    return words[(state >> (64 - bits)) * LINE_WORDS]


# The area holds zeros, which the compiler does not know: where to read next depends on what was read.
cdef uint64_t walk_chained(const uint64_t* words, int bits, uint64_t reads) noexcept nogil:
    cdef uint64_t state = 1
    cdef uint64_t i
    for i in range(reads):
        state = step(state + word_at(words, bits, state))
    return state


cdef uint64_t walk_scattered(const uint64_t* words, int bits, uint64_t reads) noexcept nogil:
    cdef uint64_t state = 1
    cdef uint64_t total = 0
    cdef uint64_t i
    for i in range(reads):
        state = step(state)
        total += word_at(words, bits, state)
    return state + total


cdef int bits_of(const uint64_t[::1] area) except -1:
    cdef int bits = 0
    while (2 << bits) * LINE_WORDS <= area.shape[0]:
        bits += 1
    if bits == 0:
        raise ValueError(f"area: give two lines of 64 bytes or more, not {area.shape[0]} words")
    return bits


def chained(const uint64_t[::1] area, uint64_t reads):
    cdef int bits = bits_of(area)
    cdef uint64_t end
    with nogil:
        end = walk_chained(&area[0], bits, reads)
    return end


def scattered(const uint64_t[::1] area, uint64_t reads):
    cdef int bits = bits_of(area)
    cdef uint64_t end
    with nogil:
        end = walk_scattered(&area[0], bits, reads)
    return end
