from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy

cdef uint64_t FNV_OFFSET = 0xcbf29ce484222325u
cdef uint64_t FNV_PRIME = 0x100000001b3u


# FNV-1a: the texts are short and few are distinct, so starting fast counts for more than mixing well.
cdef inline uint64_t fnv1a(const uint8_t* text, uint32_t length) noexcept nogil:
    cdef uint64_t h = FNV_OFFSET
    cdef uint32_t i
    for i in range(length):
        h = (h ^ text[i]) * FNV_PRIME
    # The low bits choose the place in the table and FNV mixes those least.
    return h ^ (h >> 29)


cdef class Dictionary:
    def __cinit__(self):
        self.entries = NULL
        self.arena = NULL
        self.table_size = 64
        self.table = <uint32_t*>calloc(self.table_size, sizeof(uint32_t))
        if self.table == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.entries)
        free(self.table)
        free(self.arena)

    def __len__(self):
        return self.count

    cdef long long code(self, const uint8_t* text, uint32_t length) noexcept nogil:
        cdef uint64_t h = fnv1a(text, length)
        cdef uint32_t place = self.place_of(text, length, h)
        cdef Entry* entry
        if self.table[place]:
            return self.table[place] - 1
        # Reserve first: what follows cannot fail, so a lack of memory leaves nothing half done.
        if not self.reserve(length):
            return -1
        place = self.place_of(text, length, h)  # the table may have grown
        entry = &self.entries[self.count]
        entry.hash = h
        entry.at = <uint32_t>self.arena_used
        entry.length = length
        memcpy(self.arena + self.arena_used, text, length)
        self.arena_used += length
        self.count += 1
        self.table[place] = self.count
        return self.count - 1

    cdef uint32_t place_of(self, const uint8_t* text, uint32_t length, uint64_t h) noexcept nogil:
        cdef uint32_t place = h & (self.table_size - 1)
        cdef Entry* entry
        # Ends at a free place: the table is at most half full.
        while self.table[place]:
            entry = &self.entries[self.table[place] - 1]
            # The hash first: it keeps the bytes, which lie elsewhere, out of nearly every miss.
            if entry.hash == h and entry.length == length:
                if memcmp(self.arena + entry.at, text, length) == 0:
                    break
            place = (place + 1) & (self.table_size - 1)
        return place

    cdef bint reserve(self, uint32_t length) noexcept nogil:
        cdef void* bigger
        cdef uint64_t size
        if self.arena_used + length > 0xffffffffu:
            return False  # offsets have 32 bits
        # Doubled: the sets are small beside the rows, and a text costs its copy once.
        if self.count == self.entries_max:
            size = self.entries_max * 2 if self.entries_max else 64
            bigger = realloc(self.entries, size * sizeof(Entry))
            if bigger == NULL:
                return False
            self.entries = <Entry*>bigger
            self.entries_max = <uint32_t>size
        # One byte more than asked: an empty first entry must not leave the arena unallocated.
        if self.arena_used + length >= self.arena_size:
            size = (self.arena_size + length + 256) * 2
            bigger = realloc(self.arena, size)
            if bigger == NULL:
                return False
            self.arena = <uint8_t*>bigger
            self.arena_size = size
        if (self.count + 1) * 2 > self.table_size:
            return self.grow_table()
        return True

    cdef bint grow_table(self) noexcept nogil:
        cdef uint32_t size = self.table_size * 2
        cdef uint32_t* table = <uint32_t*>calloc(size, sizeof(uint32_t))
        cdef uint32_t number, place
        if table == NULL:
            return False
        for number in range(self.count):
            place = self.entries[number].hash & (size - 1)
            while table[place]:
                place = (place + 1) & (size - 1)
            table[place] = number + 1
        free(self.table)
        self.table = table
        self.table_size = size
        return True

    cdef bytes text(self, uint32_t code):
        cdef Entry* entry = &self.entries[code]
        return (<char*>self.arena + entry.at)[:entry.length]
