"""Lists of records in chunks of fifteen numbers: what is due in one second, or in one hour far ahead.

A head is `chunk << 4 | entries in it`, 0 when empty; a position is `chunk << 4 | place`. Only the head chunk
is partly filled, so the newest entry stands at position `head - 1` and every step is constant in time:

    position = list_push(&chunks, &head, record)        # needs one spare chunk
    moved = list_remove(&chunks, &head, position)       # the newest entry took its place: tell its record
    list_pop(&chunks, &head)                            # the newest entry

A linked list of records would cost a cache miss a job when drained; fifteen to a line cost one for fifteen,
and what they name can be prefetched.
"""

from libc.stdint cimport uint32_t

from mainspring.wheel.slab cimport NONE, Slab, slab_give, slab_take


cdef enum:
    CHUNK_ENTRIES = 15


ctypedef struct Chunk:
    uint32_t entries[15]
    uint32_t next           # the full chunk below, or NONE


cdef inline Chunk* chunk_at(const Slab* chunks, uint32_t chunk) noexcept nogil:
    return <Chunk*>chunks.pages[chunk >> 8] + (chunk & 255)


cdef inline uint32_t entry_at(const Slab* chunks, uint32_t position) noexcept nogil:
    return chunk_at(chunks, position >> 4).entries[position & 15]


cdef inline uint32_t list_push(Slab* chunks, uint32_t* head, uint32_t entry) noexcept nogil:
    cdef uint32_t chunk = head[0] >> 4
    cdef uint32_t place = head[0] & 15
    if place == 0 or place == CHUNK_ENTRIES:
        chunk = slab_take(chunks)
        chunk_at(chunks, chunk).next = NONE if place == 0 else head[0] >> 4
        place = 0
    chunk_at(chunks, chunk).entries[place] = entry
    head[0] = (chunk << 4 | place) + 1
    return chunk << 4 | place


cdef inline void list_pop(Slab* chunks, uint32_t* head) noexcept nogil:
    cdef uint32_t chunk = head[0] >> 4
    cdef uint32_t below
    head[0] -= 1
    if head[0] & 15:
        return
    below = chunk_at(chunks, chunk).next
    head[0] = 0 if below == NONE else below << 4 | CHUNK_ENTRIES
    slab_give(chunks, chunk)


# The record that now stands at `position`, or NONE when the removed entry was the newest.
cdef inline uint32_t list_remove(Slab* chunks, uint32_t* head, uint32_t position) noexcept nogil:
    cdef uint32_t newest = head[0] - 1
    cdef uint32_t moved = NONE
    if position != newest:
        moved = entry_at(chunks, newest)
        chunk_at(chunks, position >> 4).entries[position & 15] = moved
    list_pop(chunks, head)
    return moved


# The position below, NONE at the end of the list. A walk from `head - 1` down may remove where it stands.
cdef inline uint32_t list_below(const Slab* chunks, uint32_t position) noexcept nogil:
    cdef uint32_t below
    if position & 15:
        return position - 1
    below = chunk_at(chunks, position >> 4).next
    return NONE if below == NONE else below << 4 | (CHUNK_ENTRIES - 1)


cdef inline uint32_t list_top(uint32_t head) noexcept nogil:
    return NONE if head == 0 else head - 1
