"""Months of the Gregorian calendar, counted in days since 1970-01-01 and before it.

    cdef Month m = month_of(day)            # the month that holds a day
    month_advance(&m)                       # the one after it

Source: Howard Hinnant, "chrono-compatible low-level date algorithms" (civil_from_days). Years that begin in
March put the leap day last, so that the lengths of the months follow one straight line.
"""

from libc.stdint cimport int64_t


cdef enum:
    CYCLE_DAYS = 146_097    # 400 years, a whole number of weeks: the calendar repeats exactly


ctypedef struct Month:
    int64_t year
    int month               # 1-12
    int days                # 28-31
    int weekday             # of the first, Sunday is 0
    int64_t first_day       # days since 1970-01-01


# C divides towards zero; the days before 1970 need the floor.
cdef inline int64_t floor_div(int64_t value, int64_t divisor) noexcept nogil:
    cdef int64_t quotient = value // divisor
    return quotient - 1 if value % divisor < 0 else quotient


cdef inline bint is_leap(int64_t year) noexcept nogil:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


cdef inline int days_in(int64_t year, int month) noexcept nogil:
    if month == 2:
        return 29 if is_leap(year) else 28
    return 30 + ((month + (month >> 3)) & 1)


cdef inline void month_measure(Month* m) noexcept nogil:
    m.days = days_in(m.year, m.month)
    m.weekday = <int>((m.first_day + 4) % 7)    # 1970-01-01 was a Thursday
    if m.weekday < 0:
        m.weekday += 7


cdef inline Month month_of(int64_t day) noexcept nogil:
    cdef Month m
    cdef int64_t era = floor_div(day + 719_468, CYCLE_DAYS)     # 719,468 days from 0000-03-01 to 1970-01-01
    cdef int64_t day_of_era = day + 719_468 - era * CYCLE_DAYS
    cdef int64_t leap_days = day_of_era // 1460 - day_of_era // 36_524 + day_of_era // 146_096
    cdef int64_t year_of_era = (day_of_era - leap_days) // 365
    cdef int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    cdef int64_t march_month = (5 * day_of_year + 2) // 153
    m.month = <int>(march_month + 3 if march_month < 10 else march_month - 9)
    m.year = era * 400 + year_of_era + (1 if m.month <= 2 else 0)
    m.first_day = day - (day_of_year - (153 * march_month + 2) // 5)
    month_measure(&m)
    return m


cdef inline void month_advance(Month* m) noexcept nogil:
    m.first_day += m.days
    m.month += 1
    if m.month > 12:
        m.month = 1
        m.year += 1
    month_measure(m)
