"""Loads: how long they take, what of it is the first touch of memory, and what stays resident."""

import mmap
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from time import perf_counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainspring.loadtest.fleet import Fleet, open_wheel
from mainspring.loadtest.plan import Figures, Plan, Tell
from mainspring.loadtest.resident import huge_bytes, resident_bytes
from mainspring.wheel import Wheel

PIECE_ROWS: Final = 1_048_576
"""Rows a call of `add`, as a reader of COPY would hand them over."""

_BLOCK_BYTES: Final = 2**21


def pieces(rows: NDArray[np.void]) -> Iterator[NDArray[np.void]]:
    """All rows in their order, a call's worth at a time."""
    for first in range(0, len(rows), PIECE_ROWS):
        yield rows[first : first + PIECE_ROWS]


def load(wheel: Wheel, batches: Iterable[NDArray[np.void]], texts: bytes) -> None:
    """Fill an empty wheel, on one thread."""
    with wheel.loader() as loader:
        for rows in batches:
            loader.add(rows, texts)
        loader.finish()


def loaded(fleet: Fleet) -> Wheel:
    """A wheel with the whole fleet, for phases that measure something else."""
    wheel = open_wheel()
    starts = range(0, fleet.jobs, PIECE_ROWS)
    load(wheel, (fleet.rows(first, min(first + PIECE_ROWS, fleet.jobs)) for first in starts), fleet.texts)
    return wheel


def load_phase(plan: Plan, tell: Tell) -> Figures:
    """One thread, and what the load leaves resident."""
    fleet = Fleet(plan.jobs, uuid_keys=plan.uuid_keys)
    rows = fleet.rows(0, plan.jobs)
    tell(0.5)
    wheel = open_wheel()
    before, huge_before = resident_bytes(), huge_bytes()
    total_s = timed(lambda: load(wheel, pieces(rows), fleet.texts))
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
    """Two threads, each given every other piece; a first touch by two threads is subtracted."""
    fleet = Fleet(plan.jobs, uuid_keys=plan.uuid_keys)
    batches = list(pieces(fleet.rows(0, plan.jobs)))
    tell(0.5)
    wheel = open_wheel()
    before = resident_bytes()
    total_s = timed(lambda: _load_by_two(wheel, batches, fleet.texts))
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


def _load_by_two(wheel: Wheel, batches: Sequence[NDArray[np.void]], texts: bytes) -> None:
    with wheel.loader() as loader:

        def add(share: Sequence[NDArray[np.void]]) -> None:
            for rows in share:
                loader.add(rows, texts)

        together([partial(add, batches[thread::2]) for thread in range(2)])
        together([loader.finish] * 2)
