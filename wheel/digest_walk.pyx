"""Adding up a shard's digest. digest_walk.pxd says what it promises."""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from mainspring.wheel.blobs cimport blob_at
from mainspring.wheel.digest cimport Told, digest_of
from mainspring.wheel.memory cimport prefetch
from mainspring.wheel.records cimport (
    ENABLED, KEY_IS_UUID, LIVE, ROUTE_WIDE, Rare, Record, catch_up_of, head_data_bytes, head_key_bytes,
    kind_of, record_at,
)
from mainspring.wheel.registry cimport Registry, registry_get
from mainspring.wheel.schedule cimport KIND_CRON, KIND_INTERVAL
from mainspring.wheel.shard cimport once_at, rare_of
from mainspring.wheel.slab cimport NONE
from mainspring.wheel.text cimport UUID_BYTES, escaped_length, pack_uuid, write_escaped


cdef enum:
    AHEAD = 16              # records between asking for a blob and reading it
    ESCAPED_MAX = 1536      # a key of 255 bytes, each as \u0000


cdef inline uint64_t name_at(const Registry* names, uint32_t number) noexcept nogil:
    return <uint64_t>registry_get(names, number)


# ------------------------------------------------------------------------------------ from a record


cdef inline uint32_t schedule_number(const Record* record, const Rare* rare) noexcept nogil:
    return record.schedule if rare == NULL else rare.schedule


cdef void tell_schedule(
    const Shard* shard, const Names* names, const Record* record, const Rare* rare, Told* told,
) noexcept nogil:
    if told.kind == KIND_INTERVAL:
        told.schedule = schedule_number(record, rare)
    elif told.kind == KIND_CRON:
        told.schedule = name_at(&names.crons, schedule_number(record, rare))
    else:
        told.schedule = <uint64_t>once_at(shard, record)


cdef inline void tell_bends(const Rare* rare, Told* told) noexcept nogil:
    told.starts_at, told.ends_at = INT64_MIN, INT64_MAX
    told.phase = told.jitter = -1
    if rare == NULL:
        return
    told.starts_at, told.ends_at = rare.starts_at, rare.ends_at
    told.boost_until, told.boost_every = rare.boost_until, rare.boost_every
    told.phase, told.jitter = rare.phase, rare.jitter


cdef inline void tell_texts(const Shard* shard, const Record* record, Told* told) noexcept nogil:
    cdef const uint8_t* at
    cdef uint32_t head
    if record.blob == NONE:
        return
    at = <const uint8_t*>blob_at(&shard.blobs, record.blob)
    head = (<const uint32_t*>at)[0]
    told.uuid_key = (record.flags & KEY_IS_UUID) != 0
    told.key, told.key_bytes = at + 4, head_key_bytes(head)
    told.data, told.data_bytes = told.key + told.key_bytes, head_data_bytes(head)


cdef uint64_t digest_of_record(const Shard* shard, const Names* names, uint32_t number) noexcept nogil:
    cdef const Record* record = record_at(&shard.records, number)
    cdef const Rare* rare = rare_of(shard, record)
    cdef bint wide = rare != NULL and record.route == ROUTE_WIDE
    cdef Told told
    memset(&told, 0, sizeof(Told))
    told.id, told.kind, told.catch_up = record.id, kind_of(record), catch_up_of(record)
    told.enabled = (record.flags & ENABLED) != 0
    told.route = name_at(&names.routes, rare.route if wide else record.route)
    tell_schedule(shard, names, record, rare, &told)
    tell_bends(rare, &told)
    tell_texts(shard, record, &told)
    return digest_of(&told)


# --------------------------------------------------------------------------------------- from a row


cdef inline uint64_t row_schedule(const Definition_t* row, const Names* names) noexcept nogil:
    if row.kind == KIND_INTERVAL:
        return <uint64_t>row.every_s
    return name_at(&names.crons, row.cron) if row.kind == KIND_CRON else <uint64_t>row.run_at


# In the form in which a blob will hold it.
cdef inline void tell_key(const uint8_t* key, uint32_t size, uint8_t* form, Told* told) noexcept nogil:
    told.uuid_key = pack_uuid(<char*>form, key, size)
    told.key = form
    if told.uuid_key:
        told.key_bytes = UUID_BYTES
    else:
        told.key_bytes = escaped_length(key, size)
        write_escaped(<char*>form, key, size)


cdef uint64_t digest_of_row(const Definition_t* row, const uint8_t* texts, const Names* names) noexcept nogil:
    cdef uint8_t form[ESCAPED_MAX]
    cdef Told told
    told.id, told.kind, told.catch_up, told.enabled = row.id, row.kind, row.catch_up, row.enabled
    told.schedule, told.route = row_schedule(row, names), name_at(&names.routes, row.route)
    told.starts_at, told.ends_at = row.starts_at, row.ends_at
    told.boost_until, told.boost_every = row.boost_until, row.boost_every_s
    told.phase, told.jitter = row.phase_s, row.jitter_s
    tell_key(texts + row.key_at, row.key_len, form, &told)
    told.data, told.data_bytes = texts + row.data_at, row.data_len
    return digest_of(&told)


# ---------------------------------------------------------------------------------- a shard, locked


cdef inline void ask_blob(const Shard* shard, uint32_t number) noexcept nogil:
    cdef const Record* record
    if number >= shard.records.used:
        return
    record = record_at(&shard.records, number)
    if record.flags & LIVE and record.blob != NONE:
        prefetch(blob_at(&shard.blobs, record.blob))
        prefetch(blob_at(&shard.blobs, record.blob) + 63)


cdef void digest_begin(Shard* shard, const Names* names) noexcept nogil:
    shard.digest.names = names
    shard.digest.upto, shard.digest.sum = 0, 0


cdef void digest_end(Shard* shard) noexcept nogil:
    shard.digest.upto = 0


cdef bint digest_slice(Shard* shard) noexcept nogil:
    cdef Digest* digest = &shard.digest
    cdef uint32_t number = digest.upto
    cdef uint32_t stop = min(<uint64_t>number + DIGEST_SLICE, shard.records.used)
    while number < stop:
        ask_blob(shard, number + AHEAD)
        if record_at(&shard.records, number).flags & LIVE:
            digest.sum += digest_of_record(shard, digest.names, number)
        number += 1
    # Records made from now on are in the sum as they are made.
    digest.upto = <uint32_t>NONE if stop == shard.records.used else stop
    return digest.upto != NONE


cdef uint32_t digest_list(
    const Shard* shard, const Names* names, uint32_t* passed, int64_t* ids, uint64_t* digests,
) noexcept nogil:
    cdef uint32_t number = passed[0]
    cdef uint32_t stop = min(<uint64_t>number + DIGEST_SLICE, shard.records.used)
    cdef uint32_t count = 0
    while number < stop:
        ask_blob(shard, number + AHEAD)
        if record_at(&shard.records, number).flags & LIVE:
            ids[count] = record_at(&shard.records, number).id
            digests[count] = digest_of_record(shard, names, number)
            count += 1
        number += 1
    passed[0] = number
    return count
