"""The growable list of arrears. arrears.pxd says what it promises."""

from libc.stdint cimport uint32_t

from mainspring.wheel.memory cimport DONE, NO_MEMORY, memory_give, memory_widen


cdef int arrears_reserve(Arrears* arrears, uint32_t more) noexcept nogil:
    cdef uint32_t room = max(arrears.count + more, arrears.room * 2)
    cdef Arrear* wider
    if arrears.count + more <= arrears.room:
        return DONE
    wider = <Arrear*>memory_widen(arrears.list, arrears.room * sizeof(Arrear), room * sizeof(Arrear))
    if wider == NULL:
        return NO_MEMORY
    arrears.list, arrears.room = wider, room
    return DONE


# What was skipped stays to be told.
cdef void arrears_close(Arrears* arrears) noexcept nogil:
    memory_give(arrears.list)
    arrears.list = NULL
    arrears.count = arrears.room = arrears.given = 0
