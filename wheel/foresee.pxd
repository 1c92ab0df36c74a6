"""Asking for the memory an edit will touch, a step at a time, so that the waits of many rows overlap.

    with the locks of a wave held, for each errand, and each step for all errands before the next:
        foresee_targets(&errand, &row)      # the list it goes to, and the blob it may be given
        foresee_holdings(&errand, &row)     # after wave_ask_records: its blob, its entry, the list it leaves
        foresee_chunks(&errand)             # the newest chunk of the list it leaves
        foresee_neighbour(&errand)          # the record whose entry will take the place of its own

A step reads only what the one before asked for. Nothing here changes anything but the errand, and nothing
need be asked for: an edit that finds its memory far away only takes longer.
"""

from mainspring.wheel.edit cimport Definition_t
from mainspring.wheel.wave cimport Errand


cdef void foresee_targets(Errand* errand, const Definition_t* row) noexcept nogil
cdef void foresee_holdings(Errand* errand, const Definition_t* row) noexcept nogil
cdef void foresee_chunks(const Errand* errand) noexcept nogil
cdef void foresee_neighbour(const Errand* errand) noexcept nogil
