"""A job as users write it: the columns of ``mainspring.jobs``, checked whole.

``read_definition`` is the one door for `jobs add`, `jobs edit` and `jobs import`; it reports every fault
of a row at once. ``judge_cron`` is what the engine asks of a row that came by plain SQL.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final, NamedTuple

from mainspring.engine.jobs.fields import READERS, shown
from mainspring.engine.jobs.instants import epoch_s, iso
from mainspring.wheel import Schedule, ScheduleError, load_zone, parse_cron

# What the database sets and no file may.
_DATABASE_ONLY: Final = frozenset({"created_at", "updated_at"})
_SCHEDULES: Final = ("every_s", "cron", "run_at")


class Problem(NamedTuple):
    """One fault: the column it lies in (empty for the row as a whole) and what to do about it."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class DefinitionError(ValueError):
    """The definition is refused; ``problems`` holds every reason."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


class Definition(NamedTuple):
    """One job. Times are UTC with microseconds; ``payload`` is JSON text, None where there is none.

    The order is the order of the staging table that an import copies into.
    """

    id: int | None = None
    key: str | None = None
    every_s: int | None = None
    cron: str | None = None
    run_at: datetime | None = None
    tz: str = "UTC"
    phase_s: int | None = None
    jitter_s: int | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    boost_every_s: int | None = None
    boost_until: datetime | None = None
    catch_up: str = "all"
    first_run_soon: bool = False
    enabled: bool = True
    route: str = "default"
    payload: str | None = None

    @property
    def kind(self) -> str:
        """``interval``, ``cron`` or ``once``."""
        if self.every_s is not None:
            return "interval"
        return "cron" if self.cron is not None else "once"

    def schedule(self) -> Schedule:
        """All of the job that decides its instants, in whole epoch seconds."""
        return Schedule(
            every_s=self.every_s,
            phase_s=self.phase_s,
            cron=self.cron,
            tz=self.tz,
            jitter_s=self.jitter_s,
            run_at=_second(self.run_at),
            starts_at=_second(self.starts_at),
            ends_at=_second(self.ends_at),
            boost_every_s=self.boost_every_s,
            boost_until=_second(self.boost_until),
        )

    def quarantine_reason(self) -> str | None:
        """Why the engine would set this job aside, None for a job it fires."""
        return judge_cron(self.cron, self.tz) if self.cron is not None else None


FIELDS: Final = Definition._fields


def read_definition(given: Mapping[str, object]) -> Definition:
    """The definition that a JSON object describes; what it leaves out, or sets to null, takes its default.

    A null ``payload`` is the one exception: it is a value of its own, the JSON null. Raises
    DefinitionError with every problem found.
    """
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in given.items():
        reader = READERS.get(name)
        if reader is None:
            problems.append(_unknown_field(name))
        elif value is not None or name == "payload":
            try:
                values[name] = reader(value)
            except ValueError as error:
                problems.append(Problem(name, str(error)))
    problems += _schedule_problems(values, refused={problem.field for problem in problems})
    if problems:
        raise DefinitionError(problems)
    return Definition(**values)


def check_definition(definition: Definition) -> None:
    """What holds between the fields, where each field is good by itself; raises DefinitionError."""
    values = {name: value for name, value in definition._asdict().items() if value is not None}
    if problems := _schedule_problems(values, refused=set()):
        raise DefinitionError(problems)


def judge_cron(expression: str, tz: str) -> str | None:
    """Why this expression in this zone never fires, or None where it does."""
    return "; ".join(map(str, _cron_problems(expression, tz))) or None


def _schedule_problems(values: Mapping[str, Any], *, refused: set[str]) -> list[Problem]:
    """The rules between fields. ``refused``: fields already named, whose absence is no second fault."""
    problems = _which_schedule(values, refused)
    if "cron" in values or "tz" in values:
        problems += _cron_problems(values.get("cron"), values.get("tz", "UTC"))
    if "boost_every_s" in values or "boost_until" in values:
        problems += _boost_problems(values, refused)
    if "starts_at" in values and "ends_at" in values:
        problems += _window_problems(values["starts_at"], values["ends_at"])
    return problems


def _which_schedule(values: Mapping[str, Any], refused: set[str]) -> list[Problem]:
    given = [name for name in _SCHEDULES if name in values]
    if len(given) == 1 or (not given and not refused.isdisjoint(_SCHEDULES)):
        return []
    if not given:
        return [Problem("", "no schedule: give exactly one of every_s, cron and run_at")]
    return [
        Problem(given[1], f"the job has {' and '.join(given)}: give exactly one of {', '.join(_SCHEDULES)}")
    ]


def _boost_problems(values: Mapping[str, Any], refused: set[str]) -> list[Problem]:
    for name, other in (("boost_every_s", "boost_until"), ("boost_until", "boost_every_s")):
        if name in values and other not in values and other not in refused:
            return [Problem(other, f"missing beside {name}: give both or neither")]
    if "run_at" in values:
        return [
            Problem("boost_every_s", "a one-shot cannot be boosted: leave boost_every_s and boost_until out")
        ]
    return []


def _window_problems(starts_at: datetime, ends_at: datetime) -> list[Problem]:
    if starts_at < ends_at:
        return []
    return [Problem("ends_at", f"{iso(ends_at)} is not after starts_at {iso(starts_at)}: give a later end")]


@lru_cache(maxsize=65_536)
def _cron_problems(expression: str | None, tz: str) -> tuple[Problem, ...]:
    """Cached: a fleet shares its expressions."""
    problems = []
    for field, judge, text in (("cron", parse_cron, expression), ("tz", load_zone, tz)):
        try:
            if text is not None:
                judge(text)
        except ScheduleError as error:
            # "cron minute: ..." and "tz: ...": the column's name stands in front of every problem anyway.
            problems.append(Problem(field, str(error).removeprefix(field).lstrip(": ")))
    return tuple(problems)


def field_problem(name: str) -> Problem | None:
    """What is wrong with a field's name; None for one that a file may give."""
    return None if name in READERS else _unknown_field(name)


def _unknown_field(name: str) -> Problem:
    name = name[:40]
    if name in _DATABASE_ONLY:
        return Problem(name, "is set by the database: leave it out")
    near = get_close_matches(name, FIELDS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known fields are {', '.join(FIELDS)}"
    return Problem(shown(name), f"unknown field: {hint}")


def _second(instant: datetime | None) -> int | None:
    return None if instant is None else epoch_s(instant)
