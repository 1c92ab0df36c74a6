"""Loads: how long they take, what of it is the first touch of memory, and what stays resident."""

import mmap
import threading
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainspring.loadtest.fleet import Fleet, in_upper_half, open_wheel
from mainspring.loadtest.plan import Figures, Plan, Tell
from mainspring.loadtest.resident import huge_bytes, resident_bytes
from mainspring.wheel import Wheel

PIECE_ROWS: Final = 1_048_576
"""Rows a call of `apply`, as a reader of COPY would hand them over."""

_BLOCK_BYTES: Final = 2**21


def load(wheel: Wheel, rows: NDArray[np.void], texts: bytes) -> None:
    """Apply all rows, piece by piece."""
    for first in range(0, len(rows), PIECE_ROWS):
        wheel.apply(rows[first : first + PIECE_ROWS], texts)


def loaded(fleet: Fleet) -> Wheel:
    """A wheel with the whole fleet, for phases that measure something else."""
    wheel = open_wheel()
    wheel.reserve(fleet.jobs)
    for first in range(0, fleet.jobs, PIECE_ROWS):
        wheel.apply(fleet.rows(first, min(first + PIECE_ROWS, fleet.jobs)), fleet.texts)
    return wheel


def load_phase(plan: Plan, tell: Tell) -> Figures:
    """One thread, and what the load leaves resident."""
    fleet = Fleet(plan.jobs, uuid_keys=plan.uuid_keys)
    rows = fleet.rows(0, plan.jobs)
    tell(0.5)
    wheel = open_wheel()
    before, huge_before = resident_bytes(), huge_bytes()
    total_s = timed(lambda: _reserve_and_load(wheel, rows, fleet.texts))
    grown, huge = resident_bytes() - before, huge_bytes() - huge_before
    tell(0.9)
    touch_s = timed(lambda: touch(grown))
    return {
        "bytes_per_job": grown / plan.jobs,
        "accounted_bytes_per_job": wheel.nbytes / plan.jobs,
        "huge_pages": huge > grown / 2,
        "huge_share": huge / grown,
        "load_total_s": total_s,
        "touch_s": touch_s,
        "load_s": total_s - touch_s,
    }


def load_2_threads_phase(plan: Plan, tell: Tell) -> Figures:
    """Two threads, each given the jobs of half the shards; a first touch by two threads is subtracted.

    Rows that are split by shard come to each shard's lock from one side only. The split is the caller's work.
    """
    fleet = Fleet(plan.jobs, uuid_keys=plan.uuid_keys)
    halves = _halves(fleet)
    tell(0.5)
    wheel = open_wheel()
    before = resident_bytes()
    total_s = timed(lambda: wheel.reserve(plan.jobs))
    total_s += timed(lambda: together([partial(load, wheel, half, fleet.texts) for half in halves]))
    grown = resident_bytes() - before
    tell(0.9)
    touch_s = timed(lambda: together([lambda: touch(grown // 2)] * 2))
    return {
        "load_2_threads_total_s": total_s,
        "touch_2_threads_s": touch_s,
        "load_2_threads_s": total_s - touch_s,
    }


def timed(call: Callable[[], object]) -> float:
    """Seconds that one call takes."""
    started = perf_counter()
    call()
    return perf_counter() - started


def together(duties: Sequence[Callable[[], object]]) -> None:
    """Run each in a thread of its own, to the end of all."""
    threads = [threading.Thread(target=duty) for duty in duties]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def touch(size: int) -> None:
    """Obtain so many bytes as the wheel does, with huge-page advice, and write to each small page."""
    room = mmap.mmap(-1, (size // _BLOCK_BYTES + 2) * _BLOCK_BYTES)
    room.madvise(mmap.MADV_HUGEPAGE)
    np.frombuffer(room, np.uint8)[:size:4096] = 1


def _reserve_and_load(wheel: Wheel, rows: NDArray[np.void], texts: bytes) -> None:
    wheel.reserve(len(rows))
    load(wheel, rows, texts)


def _halves(fleet: Fleet) -> list[NDArray[np.void]]:
    ids = np.arange(fleet.jobs)
    upper = in_upper_half(ids)
    return [fleet.rows_of(ids[~upper]), fleet.rows_of(ids[upper])]
