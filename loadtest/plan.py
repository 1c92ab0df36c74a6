"""What a load test of the wheel is asked for, and the shape of a phase's answer."""

from collections.abc import Callable
from dataclasses import dataclass

Figures = dict[str, float | int | bool | None]
"""By name, with the unit last. None: not measured."""

Tell = Callable[[float], None]
"""Takes the share of a phase that is done, 0 to 1."""


@dataclass(frozen=True)
class Plan:
    """The size of everything; the defaults are the long way."""

    jobs: int
    uuid_keys: bool = False
    small_pages: bool = False
    ticks: int = 2000
    edits_per_s: int = 50_000
    simulated_s: int = 7200


Phase = Callable[[Plan, Tell], Figures]
