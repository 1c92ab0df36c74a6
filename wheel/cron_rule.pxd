"""A cron rule in C: bit masks over a zone's table of UTC offsets, evaluated without the GIL in bounded time.

    due = cron_next(&rule, now)         # smallest base instant > now

The search goes by whole months to a matching day, then by bits to its clock, and steps from one stretch of
constant UTC offset to the next: a leap day four years ahead costs some hundred nanoseconds.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t


cdef extern from *:
    """
    #define lowest_bit(bits) __builtin_ctzll(bits)
    """
    int lowest_bit(uint64_t bits) noexcept nogil


cdef enum:
    EDGE_BITS = 62          # no instant beyond 2**62: there a sum could leave 64 bits
    WEEKS = 0x10204081      # bit 0 of each of five weeks of 7 bits


# Stretch i lasts from starts[i] up to starts[i + 1] and has the UTC offset offsets[i]; `reached[i]` is the
# latest wall time shown before it began. From `cycle_from` on, the table repeats every 400 years.
ctypedef struct ZoneTable:
    const int64_t* starts
    const int64_t* offsets
    const int64_t* reached
    int64_t stretches
    int64_t cycle_from


ctypedef struct CronRule:
    uint64_t seconds        # bit s set: second s matches; likewise below
    uint64_t minutes
    uint32_t hours
    uint32_t days           # bits 1-31
    uint32_t months         # bits 1-12
    uint64_t weekdays       # five weeks of 7 bits, Sunday first: bit 7 (k - 1) + w for the k-th weekday w
    uint32_t last_weekdays  # bits 0-6: the last such weekday of the month
    uint32_t workdays       # bit d: the Monday to Friday nearest to day d, within the month
    uint32_t from_end       # bit n: n days before the last
    int32_t first_clock     # second of day of the first match of a matching day
    bint last_workday       # the last Monday to Friday
    bint both_days          # day of month and weekday must both match, else either
    bint every_real_minute  # minute or hour starts with *: repeated hours fire twice, skipped ones not at all
    ZoneTable zone


# Smallest set bit >= `at`, -1 when there is none.
cdef inline int bit_from(uint64_t bits, int at) noexcept nogil:
    if at > 63:
        return -1
    bits = (bits >> at) << at
    return lowest_bit(bits) if bits else -1


# A CronSpec as a rule without zone: the masks that all jobs share. rule_tune afterwards, and after each change.
cdef int set_rule(CronRule* rule, object spec) except -1
cdef void rule_tune(CronRule* rule) noexcept nogil

# One weekday mask (bits 0-6) for each of the five weeks of a month.
cdef inline uint64_t every_week(uint64_t weekdays) noexcept nogil:
    return weekdays * WEEKS

# Smallest base instant > after; NEVER (2**63 - 1) when none can be told in 64 bits.
cdef int64_t cron_next(const CronRule* rule, int64_t after) noexcept nogil

# Greatest base instant <= at.
cdef int64_t cron_last(const CronRule* rule, int64_t at) noexcept nogil
