"""Memory after days of use: jobs replaced by others of another size, hours of ticking."""

from collections.abc import Iterator
from typing import Final

from mainspring.loadtest.draining import drain_next
from mainspring.loadtest.fleet import Fleet, open_wheel
from mainspring.loadtest.loading import load
from mainspring.loadtest.plan import Figures, Plan, Tell
from mainspring.loadtest.resident import resident_bytes
from mainspring.wheel import Frames, Wheel

TURNS: Final = 5
_PIECE_ROWS: Final = 131_072
"""Small enough that the arrays of the measuring itself do not show in what it measures."""


def lasting_phase(plan: Plan, tell: Tell) -> Figures:
    """Load, replace a fifth of the jobs five times, tick on; resident growth at the end and at its peak."""
    fleet, frames = Fleet(plan.jobs, uuid_keys=plan.uuid_keys), Frames()
    wheel = open_wheel()
    before = _settled(fleet)
    _load(wheel, fleet, turns=0)
    fresh = peak = resident_bytes() - before
    for share in _edits_and_ticks(wheel, fleet, frames, plan.simulated_s):
        peak = max(peak, resident_bytes() - before)
        tell(share)
    return {
        "bytes_per_job_before_edits": fresh / plan.jobs,
        "bytes_per_job_after_edits": (resident_bytes() - before) / plan.jobs,
        "bytes_per_job_peak": peak / plan.jobs,
        "simulated_s": plan.simulated_s,
    }


def edited_load_phase(plan: Plan, tell: Tell) -> Figures:
    """The same definitions as a fresh load: what memory after edits is to be compared with."""
    fleet = Fleet(plan.jobs, uuid_keys=plan.uuid_keys)
    wheel = open_wheel()
    before = _settled(fleet)
    tell(0.3)
    _load(wheel, fleet, turns=TURNS)
    return {"bytes_per_job_edited_fresh": (resident_bytes() - before) / plan.jobs}


def compared(figures: Figures) -> Figures:
    """The two phases' figures as ratios to the fresh load; empty where one of the phases is missing."""
    fresh = figures.get("bytes_per_job_edited_fresh")
    after, peak = figures.get("bytes_per_job_after_edits"), figures.get("bytes_per_job_peak")
    if not fresh or after is None or peak is None:
        return {}
    return {"after_edits_ratio": after / fresh, "peak_ratio": peak / fresh}


def _settled(fleet: Fleet) -> int:
    """Resident bytes once the arrays of one piece have been there and gone, as they will again and again."""
    fleet.rows_after(0, min(_PIECE_ROWS, fleet.jobs), TURNS)
    return resident_bytes()


def _pieces(jobs: int) -> Iterator[tuple[int, int]]:
    for first in range(0, jobs, _PIECE_ROWS):
        yield first, min(first + _PIECE_ROWS, jobs)


def _load(wheel: Wheel, fleet: Fleet, turns: int) -> None:
    load(wheel, (fleet.rows_after(*piece, turns) for piece in _pieces(fleet.jobs)), fleet.texts)


def _edits_and_ticks(wheel: Wheel, fleet: Fleet, frames: Frames, seconds: int) -> Iterator[float]:
    """Yields the share done, often."""
    for turn in range(1, TURNS + 1):
        for first, stop in _pieces(fleet.jobs):
            wheel.apply(fleet.replaced(first, stop, turn), fleet.texts)
            yield turn / TURNS / 10
    for second in range(seconds):
        drain_next(wheel, frames)
        yield 0.1 + 0.9 * second / seconds
