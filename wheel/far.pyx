"""The map of far-future hours. far.pxd says what it promises."""

from libc.stdint cimport uint32_t
from libc.string cimport memset

from mainspring.wheel.memory cimport DONE, NO_MEMORY, memory_give, memory_take


# Neighbouring hours land in neighbouring places, which is just right for linear probing.
cdef inline uint32_t home_of(const Far* far, uint32_t hour) noexcept nogil:
    return hour & (far.size - 1)


cdef FarHour* place_of(Far* far, uint32_t hour) noexcept nogil:
    cdef uint32_t place = home_of(far, hour)
    while far.hours[place].hour and far.hours[place].hour != hour:
        place = (place + 1) & (far.size - 1)
    return &far.hours[place]


cdef void far_close(Far* far) noexcept nogil:
    memory_give(far.hours)
    memset(far, 0, sizeof(Far))


# Drops all hours, and keeps their room.
cdef void far_empty(Far* far) noexcept nogil:
    if far.size:
        memset(far.hours, 0, far.size * sizeof(FarHour))
    far.used = 0


cdef int resize(Far* far, uint32_t size) noexcept nogil:
    cdef Far wider
    cdef uint32_t i
    wider.size, wider.used = size, far.used
    wider.hours = <FarHour*>memory_take(size * sizeof(FarHour))
    if wider.hours == NULL:
        return NO_MEMORY
    memset(wider.hours, 0, size * sizeof(FarHour))
    for i in range(far.size):
        if far.hours[i].hour:
            place_of(&wider, far.hours[i].hour)[0] = far.hours[i]
    memory_give(far.hours)
    far[0] = wider
    return DONE


cdef int far_reserve(Far* far, uint32_t more) noexcept nogil:
    cdef uint32_t size = far.size if far.size else 8
    while (far.used + more) * 4 > size * 3:
        size *= 2
    return DONE if size == far.size else resize(far, size)


cdef uint32_t* far_find(Far* far, uint32_t hour) noexcept nogil:
    cdef FarHour* place
    if far.used == 0:
        return NULL
    place = place_of(far, hour)
    return &place.head if place.hour else NULL


cdef uint32_t* far_head(Far* far, uint32_t hour) noexcept nogil:
    cdef FarHour* place = place_of(far, hour)
    if place.hour == 0:
        place.hour, place.head = hour, 0
        far.used += 1
    return &place.head


# Entries behind the hole move back where their home allows it, so that no probe ends too early.
cdef void far_drop(Far* far, uint32_t hour) noexcept nogil:
    cdef uint32_t mask = far.size - 1
    cdef uint32_t hole = <uint32_t>(place_of(far, hour) - far.hours)
    cdef uint32_t place = (hole + 1) & mask
    while far.hours[place].hour:
        if ((place - home_of(far, far.hours[place].hour)) & mask) >= ((place - hole) & mask):
            far.hours[hole] = far.hours[place]
            hole = place
        place = (place + 1) & mask
    far.hours[hole].hour = 0
    far.used -= 1
