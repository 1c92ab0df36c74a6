"""Jobs as text: a JSON object, the lines of `jobs show`, a row of `jobs list`."""

import json
from collections.abc import Iterator
from datetime import datetime

from mainspring.engine.jobs.instants import iso, iso_of_epoch
from mainspring.engine.jobs.store import Job
from mainspring.engine.jobs.upcoming import Upcoming

HEADINGS = ("ID", "KEY", "SCHEDULE", "ROUTE", "STATE", "NEXT RUN")


def job_json(job: Job, coming: Upcoming | None = None) -> str:
    """Every column, and where asked for the next runs (epoch seconds) or the reason why there are none.

    The payload is put in as Postgres spells it: read and written again it could lose digits.
    """
    members = {
        name: json.dumps(iso(value) if isinstance(value, datetime) else value, ensure_ascii=False)
        for name, value in job.definition._asdict().items()
    }
    members["payload"] = job.definition.payload or "null"
    members["created_at"], members["updated_at"] = (f'"{iso(at)}"' for at in (job.created_at, job.updated_at))
    if coming is not None:
        members["next"] = json.dumps(coming.runs)
        members["reason"] = json.dumps(coming.reason, ensure_ascii=False)
    return "{" + ", ".join(f'"{name}": {value}' for name, value in members.items()) + "}"


def job_lines(job: Job, coming: Upcoming) -> Iterator[str]:
    """One line a column that says something, then the next runs."""
    for name, value in job.definition._asdict().items():
        if value is not None and not (name == "tz" and job.definition.cron is None):
            yield f"{name:<15} {_shown(value)}"
    yield f"{'created_at':<15} {iso(job.created_at)}"
    yield f"{'updated_at':<15} {iso(job.updated_at)}"
    if coming.reason is not None:
        yield f"{'next runs':<15} none: {printable(coming.reason)}"
    for position, due in enumerate(coming.runs):
        yield f"{'' if position else 'next runs':<15} {iso_of_epoch(due)}  {due}"


def job_cells(job: Job, coming: Upcoming) -> tuple[str, ...]:
    """The cells below HEADINGS."""
    definition = job.definition
    state, coming_text = "on" if definition.enabled else "paused", ""
    if coming.runs:
        coming_text = iso_of_epoch(coming.runs[0])
    elif coming.reason and coming.reason.startswith("quarantined"):
        state, coming_text = "quarantined", coming.reason.partition(": ")[2]
    elif definition.enabled:
        coming_text = coming.reason or ""
    return (
        str(job.id),
        printable(definition.key or "-"),
        printable(schedule_text(job)),
        definition.route,
        state,
        printable(coming_text),
    )


def schedule_text(job: Job) -> str:
    """The schedule in a few words."""
    definition = job.definition
    if definition.every_s is not None:
        return f"every {definition.every_s} s"
    if definition.cron is not None:
        return definition.cron if definition.tz == "UTC" else f"{definition.cron} ({definition.tz})"
    return f"once {iso(definition.run_at)}" if definition.run_at is not None else "none"


def printable(text: str) -> str:
    """Text for a terminal: what would move its cursor or change its colours is shown as an escape."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _shown(value: object) -> str:
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return printable(str(value))
