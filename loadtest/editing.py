"""Edits and deletes by the size of their batch, and the watchdog's sweep."""

from functools import partial
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainspring.loadtest.draining import WARM_UP_S, drain_for
from mainspring.loadtest.fleet import Fleet
from mainspring.loadtest.loading import loaded, timed
from mainspring.loadtest.plan import Figures, Plan, Tell
from mainspring.wheel import OP_DELETE, SHARDS, Frames, Wheel

BATCH: Final = 32
GROUP: Final = 65_536
_SINGLES: Final = 50_000
_BATCHES: Final = 4_000
_GROUPS: Final = 8
_SWEPT: Final = 64


def edits_phase(plan: Plan, tell: Tell) -> Figures:
    """Random jobs are looked up, get another interval and size of payload; then some are deleted."""
    fleet = Fleet(plan.jobs, uuid_keys=plan.uuid_keys)
    wheel = loaded(fleet)
    drain_for(wheel, Frames(), WARM_UP_S)
    tell(0.5)
    return {
        "lookup_ns": _lookup_ns(wheel, fleet, salt=5),
        "edit_ns": _apply_ns(wheel, fleet, 1, _SINGLES, salt=1),
        "edit_batch_ns": _apply_ns(wheel, fleet, BATCH, _BATCHES, salt=2),
        "edit_grouped_ns": _apply_ns(wheel, fleet, GROUP, _GROUPS, salt=3),
        "delete_ns": _delete_ns(wheel, fleet, salt=4),
    }


def watchdog_phase(plan: Plan, tell: Tell) -> Figures:
    """A sweep, shard after shard as the watchdog goes, so that each finds its shard out of the caches."""
    wheel = loaded(Fleet(plan.jobs, uuid_keys=plan.uuid_keys))
    drain_for(wheel, Frames(), WARM_UP_S)
    tell(0.5)
    sweeps_ms = [timed(partial(wheel.sweep, shard)) * 1e3 for shard in range(0, SHARDS, SHARDS // _SWEPT)]
    return {"watchdog_shard_ms": median(sweeps_ms), "watchdog_shard_max_ms": max(sweeps_ms)}


def _apply_ns(wheel: Wheel, fleet: Fleet, rows: int, calls: int, salt: int) -> float:
    """Nanoseconds a row; what the caller does to prepare its arrays is not counted."""
    rows = min(rows, fleet.jobs)
    ids = np.random.default_rng(salt).integers(0, fleet.jobs, rows * calls)
    return _each_ns(wheel, fleet.updates(ids, salt), fleet.texts, rows)


def _delete_ns(wheel: Wheel, fleet: Fleet, salt: int) -> float:
    ids = np.random.default_rng(salt).permutation(fleet.jobs)[:_SINGLES]
    rows = fleet.updates(ids, salt)
    rows["op"] = OP_DELETE
    return _each_ns(wheel, rows, fleet.texts, 1)


def _lookup_ns(wheel: Wheel, fleet: Fleet, salt: int) -> float:
    ids = np.random.default_rng(salt).integers(0, fleet.jobs, (_GROUPS, GROUP))
    return timed(lambda: [wheel.next_dues(group) for group in ids]) / ids.size * 1e9


def _each_ns(wheel: Wheel, rows: NDArray[np.void], texts: bytes, size: int) -> float:
    batches = [rows[first : first + size] for first in range(0, len(rows), size)]
    apply = wheel.apply
    return timed(lambda: [apply(batch, texts) for batch in batches]) / len(rows) * 1e9
