"""What an edit makes of a definition: only what was given changes, and a new kind sheds the old."""

from collections.abc import Iterable, Mapping
from typing import Final

from mainspring.engine.jobs.definition import Definition, DefinitionError, Problem, check_definition
from mainspring.engine.jobs.fields import READERS

_DEFAULTS: Final = Definition()._asdict()
_SCHEDULE_OF: Final = {"interval": "every_s", "cron": "cron", "once": "run_at"}
# What has a meaning for one kind only; it goes when the kind goes, unless it is given anew.
_MEANS_SOMETHING_FOR: Final = {
    "every_s": ("interval",),
    "cron": ("cron",),
    "run_at": ("once",),
    "phase_s": ("interval",),
    "jitter_s": ("cron",),
    "tz": ("cron",),
    "boost_every_s": ("interval", "cron"),
    "boost_until": ("interval", "cron"),
}
# Where clearing a field would leave no job.
_NEVER_CLEARED: Final = frozenset({"id", "every_s", "cron", "run_at"})


def edited(job: Definition, changes: Mapping[str, object], clear: Iterable[str] = ()) -> Definition:
    """The job with ``changes`` (values as JSON has them, never null); ``clear`` names fields to default.

    Raises DefinitionError with every problem found.
    """
    values: dict[str, object] = {}
    problems = [problem for name in clear if (problem := _clearing_problem(name, changes))]
    for name, value in changes.items():
        try:
            values[name] = READERS[name](value)
        except ValueError as error:
            problems.append(Problem(name, str(error)))
    if problems:
        raise DefinitionError(problems)
    values |= {name: _DEFAULTS[name] for name in clear}
    new = job._replace(**(_shed(job.kind, values) | values))  # type: ignore[arg-type]
    check_definition(new)
    return new


def changed_fields(old: Definition, new: Definition) -> dict[str, object]:
    """The columns in which two definitions differ, with the new values."""
    pairs = zip(Definition._fields, old, new, strict=True)
    return {name: after for name, before, after in pairs if before != after}


def without_effect(kind: str, given: Iterable[str]) -> list[str]:
    """Those of the fields that mean nothing to a job of this kind."""
    return [name for name in given if kind not in _MEANS_SOMETHING_FOR.get(name, (kind,))]


def _shed(kind: str, values: Mapping[str, object]) -> dict[str, object]:
    given = [other for other, field in _SCHEDULE_OF.items() if values.get(field) is not None]
    if not given or kind in given:
        return {}
    return {name: _DEFAULTS[name] for name, kinds in _MEANS_SOMETHING_FOR.items() if given[0] not in kinds}


def _clearing_problem(name: str, changes: Mapping[str, object]) -> Problem | None:
    if name not in _DEFAULTS:
        return Problem(
            name[:40], f"unknown field: one of {', '.join(sorted(_DEFAULTS.keys() - _NEVER_CLEARED))}"
        )
    if name in _NEVER_CLEARED:
        return Problem(name, "cannot be cleared: give the job another schedule instead")
    if name in changes:
        return Problem(name, "is both given and cleared: do one of them")
    return None
