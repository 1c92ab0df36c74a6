"""Faults made on purpose, so that a test can show that the audit finds and mends each of them.

No fault here can come about by any sequence of edits and drains; that is what the audit is there to prove.
"""

from libc.stdint cimport uint32_t

from mainspring.wheel.shard cimport Shard


cdef enum:
    NOT_ARMED = 4           # the record has no entry that the fault could befall


# Inflicts FAULT_... on a live record, the lock held. NO_MEMORY: nothing has changed.
cdef int inflict(Shard* shard, int fault, uint32_t number) noexcept nogil
