"""Loads: how long they take, what of it is the first touch of memory, and what stays resident."""

import mmap
import threading
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainspring.loadtest.fleet import Fleet, open_wheel
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
    """Two threads, each with every other piece; the first touch by two threads is what is subtracted."""
    fleet = Fleet(plan.jobs, uuid_keys=plan.uuid_keys)
    rows = fleet.rows(0, plan.jobs)
    tell(0.5)
    wheel = open_wheel()
    before = resident_bytes()
    wheel_reserve_s = timed(lambda: wheel.reserve(plan.jobs))
    total_s = wheel_reserve_s + timed(lambda: together(_halves(wheel, rows, fleet.texts)))
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


def _halves(wheel: Wheel, rows: NDArray[np.void], texts: bytes) -> list[Callable[[], None]]:
    pieces = [rows[first : first + PIECE_ROWS // 8] for first in range(0, len(rows), PIECE_ROWS // 8)]

    def load_every_other(first: int) -> None:
        for piece in pieces[first::2]:
            wheel.apply(piece, texts)

    return [lambda: load_every_other(0), lambda: load_every_other(1)]
