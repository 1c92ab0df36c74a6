"""Runs that did not come in their second and are owed all the same, until the next drain gives them.

    if arrears_reserve(&arrears, 2) == NO_MEMORY: ...   # nothing has changed
    arrears_add(&arrears, job_id, instant, instant, following)  # cannot fail after the reserve
    arrears_skip(&arrears, SKIP_LATEST, 3, first, last) # such as are not owed any more
    while arrears_waiting(&arrears):                    # oldest first for each job
        arrear = arrears_next(&arrears)                 # give it, then
        arrears_given(&arrears)                         # the last one gives the memory back
    arrears_close(&arrears)

lost.pxd works out what a fault has kept, edit.pyx what was applied too late; drain.pyx gives it.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from mainspring.wheel.frames cimport Skips, skips_add


ctypedef struct Arrear:
    int64_t job_id
    int64_t instant
    int64_t due             # the first second that could give it: catch-up judges by that
    int64_t following       # the job's next instant after `due`


ctypedef struct Arrears:
    Arrear* list
    uint32_t count
    uint32_t room
    uint32_t given          # so many from the front
    Skips skipped           # until a drain tells of them


cdef int arrears_reserve(Arrears* arrears, uint32_t more) noexcept nogil
cdef void arrears_close(Arrears* arrears) noexcept nogil


cdef inline void arrears_add(
    Arrears* arrears, int64_t job_id, int64_t instant, int64_t due, int64_t following,
) noexcept nogil:
    cdef Arrear* arrear = &arrears.list[arrears.count]
    arrear.job_id, arrear.instant, arrear.due, arrear.following = job_id, instant, due, following
    arrears.count += 1


cdef inline void arrears_skip(
    Arrears* arrears, int reason, uint64_t count, int64_t first, int64_t last,
) noexcept nogil:
    skips_add(&arrears.skipped, reason, count, first, last)


cdef inline bint arrears_waiting(const Arrears* arrears) noexcept nogil:
    return arrears.given < arrears.count


cdef inline const Arrear* arrears_next(const Arrears* arrears) noexcept nogil:
    return &arrears.list[arrears.given]


cdef inline void arrears_given(Arrears* arrears) noexcept nogil:
    arrears.given += 1
    if arrears.given == arrears.count:
        arrears_close(arrears)
