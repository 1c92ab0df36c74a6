"""The digest of a definition. digest.pxd says what it promises.

The steps are those of XXH64 for inputs of whole words; a text is its length and its words, the last one
filled up with zeros.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from mainspring.wheel.hash cimport avalanche, rotate_left


cdef enum:
    ENABLED_AT = 2          # bits of the first word: kind in two, then these
    CATCH_UP_AT = 3
    UUID_AT = 5
    BENT_AT = 6             # whether the six words of `bends` follow
    KEY_AT = 16
    DATA_AT = 32


cdef inline uint64_t with_word(uint64_t h, uint64_t word) noexcept nogil:
    h ^= rotate_left(word * 0xC2B2AE3D27D4EB4FULL, 31) * 0x9E3779B185EBCA87ULL
    return rotate_left(h, 27) * 0x9E3779B185EBCA87ULL + 0x85EBCA77C2B2AE63ULL


cdef inline uint64_t with_text(uint64_t h, const uint8_t* text, uint32_t size) noexcept nogil:
    cdef uint32_t at = 0
    cdef uint64_t word
    while at + 8 <= size:
        memcpy(&word, text + at, 8)
        h = with_word(h, word)
        at += 8
    if at < size:
        word = 0
        memcpy(&word, text + at, size - at)
        h = with_word(h, word)
    return h


# Few jobs are: for all others six words need not be mixed.
cdef inline bint is_bent(const Told* told) noexcept nogil:
    return (
        told.starts_at != INT64_MIN or told.ends_at != INT64_MAX or told.boost_every != 0
        or told.phase >= 0 or told.jitter >= 0
    )


cdef inline uint64_t head_of(const Told* told) noexcept nogil:
    return (
        told.kind | <uint64_t>(told.enabled != 0) << ENABLED_AT | <uint64_t>told.catch_up << CATCH_UP_AT
        | <uint64_t>told.uuid_key << UUID_AT | <uint64_t>is_bent(told) << BENT_AT
        | <uint64_t>told.key_bytes << KEY_AT | <uint64_t>told.data_bytes << DATA_AT
    )


cdef uint64_t with_bends(uint64_t h, const Told* told) noexcept nogil:
    h = with_word(h, <uint64_t>told.starts_at)
    h = with_word(h, <uint64_t>told.ends_at)
    h = with_word(h, <uint64_t>told.boost_every)
    h = with_word(h, <uint64_t>told.boost_until if told.boost_every else 0)
    h = with_word(h, <uint64_t>max(told.phase, -1))
    return with_word(h, <uint64_t>max(told.jitter, -1))


cdef uint64_t digest_of(const Told* told) noexcept nogil:
    cdef uint64_t h = with_word(with_word(0, <uint64_t>told.id), head_of(told))
    h = with_word(with_word(h, told.schedule), told.route)
    if is_bent(told):
        h = with_bends(h, told)
    h = with_text(h, told.key, told.key_bytes)
    return avalanche(with_text(h, told.data, told.data_bytes))


cdef uint64_t digest_of_text(const uint8_t* text, uint32_t size) noexcept nogil:
    return avalanche(with_text(with_word(0, size), text, size))
