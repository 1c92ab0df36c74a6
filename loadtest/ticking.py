"""A second's tick while edits come in from another thread, and how long locks are held meanwhile."""

import threading
from collections.abc import Callable, Iterator
from itertools import cycle
from time import perf_counter, sleep
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainspring.loadtest.draining import WARM_UP_S, drain_for, drain_next
from mainspring.loadtest.fleet import Fleet
from mainspring.loadtest.loading import loaded
from mainspring.loadtest.plan import Figures, Plan, Tell
from mainspring.wheel import Frames, Wheel

_EDITS_A_CALL: Final = 500
_CALLS_PREPARED: Final = 400
_TIMED_SHARE: Final = 4
"""For each so many ticks one more, with the locks timed: a look at the clock costs the ticks something."""


class Editor:
    """Replaces random jobs at a steady rate from a thread of its own, between `start` and `stop`."""

    def __init__(self, wheel: Wheel, fleet: Fleet, per_s: int) -> None:
        self.edits = 0
        self.rate_per_s = 0.0
        self._wheel = wheel
        self._texts = fleet.texts
        self._batches = cycle(random_updates(fleet, _CALLS_PREPARED, _EDITS_A_CALL))
        self._pause_s = _EDITS_A_CALL / per_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End it; afterwards `rate_per_s` says what rate it came to."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        started = perf_counter()
        while not self._over.is_set():
            self.edits += self._wheel.apply(next(self._batches), self._texts)
            sleep(max(0.0, started + self.edits / _EDITS_A_CALL * self._pause_s - perf_counter()))
        self.rate_per_s = self.edits / (perf_counter() - started)


def random_updates(fleet: Fleet, batches: int, rows: int) -> Iterator[NDArray[np.void]]:
    """Batches of updates of random jobs, shape (rows,) each."""
    draw = np.random.default_rng(4)
    return iter([fleet.updates(draw.integers(0, fleet.jobs, rows), turn) for turn in range(batches)])


def ticks_phase(plan: Plan, tell: Tell) -> Figures:
    """Ticks one after the other, each drained whole into the node's own size of buffer.

    They follow without a pause, so each meets the edits that come in while it lasts.
    """
    fleet, frames = Fleet(plan.jobs, uuid_keys=plan.uuid_keys), Frames()
    wheel = loaded(fleet)
    drain_for(wheel, frames, WARM_UP_S)
    editor = Editor(wheel, fleet, plan.edits_per_s)
    ticks_ms = np.empty(plan.ticks)

    def measure_ticks() -> None:
        for i in range(plan.ticks):
            ticks_ms[i] = _tick_ms(wheel, frames, i / plan.ticks, tell)

    _amid_edits(editor, measure_ticks)
    return {
        "tick_p50_ms": float(np.percentile(ticks_ms, 50)),
        "tick_p99_ms": float(np.percentile(ticks_ms, 99)),
        "tick_p999_ms": float(np.percentile(ticks_ms, 99.9)),
        "tick_max_ms": float(ticks_ms.max()),
        "ticks": plan.ticks,
        "edits_per_s": editor.rate_per_s,
    } | _lock_holds(wheel, fleet, frames, plan)


def _lock_holds(wheel: Wheel, fleet: Fleet, frames: Frames, plan: Plan) -> Figures:
    """Some more ticks amid edits, for the locks alone; drains and edits both count."""
    seconds = plan.ticks // _TIMED_SHARE + 1
    wheel.time_locks()
    _amid_edits(Editor(wheel, fleet, plan.edits_per_s), lambda: drain_for(wheel, frames, seconds))
    count, p999_ns, longest_ns = wheel.lock_holds(999, 1000)
    wheel.time_locks(False)
    return {
        "lock_hold_p999_us": p999_ns / 1e3,
        "lock_hold_max_us": longest_ns / 1e3,
        "lock_holds": count,
    }


def _amid_edits(editor: Editor, duty: Callable[[], object]) -> None:
    editor.start()
    try:
        duty()
    finally:
        editor.stop()


def _tick_ms(wheel: Wheel, frames: Frames, share: float, tell: Tell) -> float:
    if wheel.now % 50 == 0:
        tell(share)
    started = perf_counter()
    drain_next(wheel, frames)
    return (perf_counter() - started) * 1e3
