"""Cron beside intervals: as many jobs loaded, and as many due in one second, of each kind."""

from itertools import combinations, islice
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainspring.loadtest.draining import drain_next
from mainspring.loadtest.fleet import NOW, Fleet
from mainspring.loadtest.loading import load, pieces, timed
from mainspring.loadtest.plan import Figures, Plan, Tell
from mainspring.wheel import KIND_CRON, Frames, Wheel

EXPRESSIONS: Final = 5000
DUE_SHARE: Final = 5
"""One job in so many is due at the full hour, and in each second of the intervals that stand beside it."""

_HOURS: Final = 3
_ZONES: Final = (
    "UTC", "Europe/London", "Europe/Berlin", "Europe/Athens", "Europe/Moscow", "Africa/Lagos", "Africa/Cairo",
    "Africa/Nairobi", "Asia/Dubai", "Asia/Karachi", "Asia/Dhaka", "Asia/Bangkok", "Asia/Tokyo",
    "Asia/Singapore", "Australia/Sydney", "Australia/Brisbane", "Pacific/Noumea", "Pacific/Auckland",
    "Pacific/Honolulu", "America/Anchorage", "America/Los_Angeles", "America/Denver", "America/Phoenix",
    "America/Chicago", "America/New_York", "America/Toronto", "America/Halifax", "America/Sao_Paulo",
    "America/Bogota", "Atlantic/Azores",
)  # fmt: skip


def cron_phase(plan: Plan, tell: Tell) -> Figures:
    """A million jobs share 5,000 expressions in 30 zones, all of them whole hours from UTC.

    The load takes the compiling of the expressions in. The ticks are the full hours, at which a fifth of the
    jobs is due, drained one after the other from the last second before each; beside them stand seconds in
    which a fifth of as many interval jobs is due.
    """
    fleet = Fleet(plan.jobs, every_s=DUE_SHARE)
    rows, begin = fleet.rows(0, plan.jobs), NOW - NOW % 3600 - 60
    interval, cron = Wheel(begin), Wheel(begin)
    interval.route("default")
    cron.route("default")
    interval_load_s = timed(lambda: load(interval, pieces(rows), fleet.texts))
    tell(0.3)
    cron_load_s = timed(lambda: load(cron, pieces(_on_cron(cron, rows)), fleet.texts))
    tell(0.6)
    return {
        "interval_load_s": interval_load_s,
        "cron_load_s": cron_load_s,
        "interval_tick_ms": median(_tick_ms(interval, interval.now + 1) for _ in range(2 * _HOURS)),
        "cron_tick_ms": median(_tick_ms(cron, begin + 60 + 3600 * hour) for hour in range(_HOURS)),
    }


def _on_cron(wheel: Wheel, rows: NDArray[np.void]) -> NDArray[np.void]:
    numbers = [wheel.cron(*expression) for expression in _expressions()]
    rows = rows.copy()
    rows["kind"], rows["cron"] = KIND_CRON, np.array(numbers, np.uint32)[rows["id"] % EXPRESSIONS]
    return rows


def _expressions() -> list[tuple[str, str]]:
    """Three minutes an hour each, exactly on the second; every fifth has the full hour among them."""
    full = islice(combinations(range(1, 60), 2), EXPRESSIONS // DUE_SHARE)
    other = islice(combinations(range(1, 60), 3), EXPRESSIONS - EXPRESSIONS // DUE_SHARE)
    minutes = [(0, *two) for two in full] + list(other)
    texts = [f"0 {','.join(map(str, three))} * * * *" for three in minutes]
    return [(text, _ZONES[i % len(_ZONES)]) for i, text in enumerate(texts)]


def _tick_ms(wheel: Wheel, second: int) -> float:
    frames = Frames()
    while wheel.now < second - 1:
        drain_next(wheel, frames)
    return timed(lambda: drain_next(wheel, frames)) * 1e3
