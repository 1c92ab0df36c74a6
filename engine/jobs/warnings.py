"""What a definition says that is allowed, and yet hardly what its owner means."""

from collections.abc import Iterable
from typing import Final

from mainspring.engine.jobs.definition import Definition, Problem
from mainspring.engine.jobs.editing import without_effect
from mainspring.engine.jobs.instants import epoch_s
from mainspring.engine.jobs.upcoming import upcoming

# A one-shot that comes to the table later than its instant, but not more than this, still runs.
_LATE_ONCE_MAX_S: Final = 86_400
_KIND_NAMES: Final = {"interval": "an interval job", "cron": "a cron job", "once": "a one-shot job"}


def warnings_of(job: Definition, given: Iterable[str], now: int) -> list[Problem]:
    """Of the fields just ``given``, those without effect; and whether the job has no run left."""
    kind = _KIND_NAMES[job.kind]
    found = [Problem(name, f"has no effect on {kind}") for name in without_effect(job.kind, given)]
    enabled = job._replace(enabled=True)  # a paused job may be resumed, and will not run then either
    if not _runs_late(job, now) and upcoming(enabled, now, 1).reason == "no run left":
        found.append(Problem(_cause(job, now), "this job has no run left, it will never run"))
    return found


def _runs_late(job: Definition, now: int) -> bool:
    return job.run_at is not None and now - epoch_s(job.run_at) < _LATE_ONCE_MAX_S


def _cause(job: Definition, now: int) -> str:
    if job.run_at is not None and epoch_s(job.run_at) <= now:
        return "run_at"
    return "ends_at" if job.ends_at is not None else ""
