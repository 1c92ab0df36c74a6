"""What decides a job's instants, as its owner writes it: one frozen record, checked when it is made."""

from dataclasses import dataclass

from mainspring.wheel.errors import ScheduleError

NEVER = 2**63 - 1
"""The instant that does not come: what "next" gives where there is none."""

SECONDS_MAX = 2**31 - 1
"""The longest interval, phase and spreading window, in seconds (68 years)."""

INSTANT_MAX = 2**62
"""No instant of a definition lies further from 1970, so that sums of instants stay within 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Exactly one of `every_s`, `cron` and `run_at`, and what bends it.

    Durations are whole seconds, instants whole epoch seconds; None means not set. `phase_s` bears on
    intervals, `tz` and `jitter_s` on cron; the window [starts_at, ends_at) on all; the boost on intervals
    and cron.

    Raises ScheduleError, which names the field, its value and the mend. The grammar of `cron` and the name
    in `tz` are judged when the schedule is compiled, see `mainspring.wheel.next_fires`.
    """

    every_s: int | None = None
    phase_s: int | None = None
    cron: str | None = None
    tz: str = "UTC"
    jitter_s: int | None = None
    run_at: int | None = None
    starts_at: int | None = None
    ends_at: int | None = None
    boost_every_s: int | None = None
    boost_until: int | None = None

    def __post_init__(self) -> None:
        self._require_one_kind()
        for field, lowest, highest in _RANGES:
            value = getattr(self, field)
            if value is not None:
                _require_between(field, value, lowest, highest)
        if self.starts_at is not None and self.ends_at is not None:
            self._require_open_window(self.starts_at, self.ends_at)
        if self.boost_every_s is not None or self.boost_until is not None:
            self._require_whole_boost()

    def _require_one_kind(self) -> None:
        if (self.every_s is not None) + (self.cron is not None) + (self.run_at is not None) != 1:
            given = [field for field in ("every_s", "cron", "run_at") if getattr(self, field) is not None]
            raise ScheduleError(
                "schedule",
                " and ".join(given) or "nothing",
                "is set",
                "set exactly one of every_s, cron and run_at",
            )

    def _require_open_window(self, starts_at: int, ends_at: int) -> None:
        if starts_at >= ends_at:
            raise ScheduleError(
                "ends_at",
                ends_at,
                f"is not after starts_at {starts_at}, so the window is empty",
                "move one of them, or pause the job",
            )

    def _require_whole_boost(self) -> None:
        if (self.boost_every_s is None) != (self.boost_until is None):
            lone = "boost_every_s" if self.boost_until is None else "boost_until"
            raise ScheduleError(
                lone, getattr(self, lone), "stands alone", "set both boost_every_s and boost_until or neither"
            )
        if self.boost_every_s is not None and self.run_at is not None:
            raise ScheduleError(
                "boost_every_s", self.boost_every_s, "has no meaning for a one-shot", "leave the boost out"
            )


_RANGES = (
    ("every_s", 1, SECONDS_MAX),
    ("phase_s", 0, SECONDS_MAX),
    ("jitter_s", 0, SECONDS_MAX),
    ("run_at", -INSTANT_MAX, INSTANT_MAX),
    ("starts_at", -INSTANT_MAX, INSTANT_MAX),
    ("ends_at", -INSTANT_MAX, INSTANT_MAX),
    ("boost_every_s", 1, SECONDS_MAX),
    ("boost_until", -INSTANT_MAX, INSTANT_MAX),
)


def _require_between(field: str, value: object, lowest: int, highest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ScheduleError(field, value, "is not a whole number", f"write one from {lowest} to {highest}")
    if not lowest <= value <= highest:
        raise ScheduleError(field, value, "is out of range", f"write a number from {lowest} to {highest}")
