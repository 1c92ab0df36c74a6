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
        _require_between("every_s", self.every_s, 1, SECONDS_MAX)
        _require_between("phase_s", self.phase_s, 0, SECONDS_MAX)
        _require_between("jitter_s", self.jitter_s, 0, SECONDS_MAX)
        for field in ("run_at", "starts_at", "ends_at", "boost_until"):
            _require_between(field, getattr(self, field), -INSTANT_MAX, INSTANT_MAX)
        self._require_open_window()
        self._require_whole_boost()

    def _require_one_kind(self) -> None:
        kinds = {"every_s": self.every_s, "cron": self.cron, "run_at": self.run_at}
        given = [field for field, value in kinds.items() if value is not None]
        if len(given) != 1:
            raise ScheduleError(
                "schedule",
                " and ".join(given) or "nothing",
                "is set",
                "set exactly one of every_s, cron and run_at",
            )

    def _require_open_window(self) -> None:
        if self.starts_at is not None and self.ends_at is not None and self.starts_at >= self.ends_at:
            raise ScheduleError(
                "ends_at",
                self.ends_at,
                f"is not after starts_at {self.starts_at}, so the window is empty",
                "move one of them, or pause the job",
            )

    def _require_whole_boost(self) -> None:
        if (self.boost_every_s is None) != (self.boost_until is None):
            lone = "boost_every_s" if self.boost_until is None else "boost_until"
            raise ScheduleError(
                lone, getattr(self, lone), "stands alone", "set both boost_every_s and boost_until or neither"
            )
        _require_between("boost_every_s", self.boost_every_s, 1, SECONDS_MAX)
        if self.boost_every_s is not None and self.run_at is not None:
            raise ScheduleError(
                "boost_every_s", self.boost_every_s, "has no meaning for a one-shot", "leave the boost out"
            )


def _require_between(field: str, value: object, lowest: int, highest: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise ScheduleError(field, value, "is not a whole number", f"write one from {lowest} to {highest}")
    if not lowest <= value <= highest:
        raise ScheduleError(field, value, "is out of range", f"write a number from {lowest} to {highest}")
