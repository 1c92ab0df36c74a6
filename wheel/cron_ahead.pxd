"""Asking for the memo of a cron job before its turn comes, so that the drain does not wait for it.

    ask_memo(shard.crons, record)       # some entries before owed_after(shard, record, ...)

Jobs of thousands of expressions are due in a full hour, and between two of one expression pass some hundred
kilobytes of records, blobs and frames. Where the jobs draw, an `H` puts their memos elsewhere: those come late.
"""

from mainspring.wheel.memory cimport prefetch
from mainspring.wheel.records cimport IS_RARE, Record, kind_of
from mainspring.wheel.registry cimport Registry, registry_get
from mainspring.wheel.schedule cimport KIND_CRON


cdef enum:
    MEMO_AHEAD = 4          # entries: enough for a line of the shared cache, few enough to have the record there


cdef inline void ask_memo(const Registry* crons, const Record* record) noexcept nogil:
    if kind_of(record) == KIND_CRON and not record.flags & IS_RARE:
        prefetch(registry_get(crons, record.schedule))
