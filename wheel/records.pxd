"""What the wheel keeps of a job: 32 bytes each, and 64 more for the few that use a rare field.

Instants in a record are relative: `next` counts seconds from the wheel's base, one second before the
first it can drain. That reaches 136 years from the start of the process; what lies beyond is listed at the
last such second and is told exactly from the schedule.
"""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t

from mainspring.wheel.slab cimport NONE, Slab


ctypedef struct Record:
    int64_t id
    uint32_t next           # armed for base + next; 0: not armed
    uint32_t schedule       # interval in seconds, cron number, one-shot (ONCE_BIAS), or number of its Rare
    uint32_t position       # of its entry in the list that `next` names
    uint32_t blob           # key and payload; NONE when it has neither
    uint32_t seq            # low half of the newest change applied; 0: unknown, accept any
    uint16_t route          # or ROUTE_WIDE: in the Rare
    uint16_t flags


ctypedef struct Rare:
    int64_t run_at
    int64_t starts_at
    int64_t ends_at
    int64_t boost_until
    int64_t extra_at        # pending run beside the schedule: first run soon, late one-shot. Or NO_EXTRA
    uint32_t schedule
    int32_t phase
    int32_t jitter
    int32_t boost_every
    uint32_t route
    uint32_t padding


cdef enum:
    KIND_MASK = 0x0003
    LIVE = 0x0004
    FAR = 0x0008            # listed by hour, not by second
    ENABLED = 0x0010
    HAS_KEY = 0x0020
    KEY_IS_UUID = 0x0040    # stored in 16 bytes
    HAS_DATA = 0x0080
    CATCH_UP_SHIFT = 8      # two bits
    CATCH_UP_MASK = 0x0300
    LINES_SHIFT = 10        # three bits: cache lines of the blob worth a prefetch
    LINES_MASK = 0x1C00
    IS_RARE = 0x2000
    SEEN = 0x4000           # scratch of the audit, clear outside it: stands where it should
    ASTRAY = 0x8000         # likewise: its entry was found in a wrong place


cdef enum:
    ROUTE_WIDE = 0xFFFF
    ONCE_BIAS = 1048576     # a plain one-shot is stored as run_at - base + 12 days, room for late ones
    LAST_NEXT = 0xFFFFFFFF


cdef inline Record* record_at(const Slab* records, uint32_t record) noexcept nogil:
    # 512 records to a page, spelled out: a constant shift is what the drain can afford.
    return <Record*>records.pages[record >> 9] + (record & 511)


cdef inline int kind_of(const Record* record) noexcept nogil:
    return record.flags & KIND_MASK


cdef inline int catch_up_of(const Record* record) noexcept nogil:
    return (record.flags & CATCH_UP_MASK) >> CATCH_UP_SHIFT


# What the drain reads of a blob, as flags.
cdef inline uint16_t blob_lines(const void* at, uint32_t size) noexcept nogil:
    cdef uint64_t lines = ((<uint64_t>at & 63) + size + 63) >> 6
    return <uint16_t>(min(lines, <uint64_t>7) << LINES_SHIFT)


# A blob begins with both of its lengths in 32 bits: an escaped key stays below 2**11 bytes, a payload below
# 2**17.
cdef inline uint32_t blob_head(uint32_t key_bytes, uint32_t data_bytes) noexcept nogil:
    return key_bytes | data_bytes << 11


cdef inline uint32_t head_key_bytes(uint32_t head) noexcept nogil:
    return head & 0x7FF


cdef inline uint32_t head_data_bytes(uint32_t head) noexcept nogil:
    return head >> 11


cdef inline uint32_t head_blob_bytes(uint32_t head) noexcept nogil:
    return 4 + head_key_bytes(head) + head_data_bytes(head)
