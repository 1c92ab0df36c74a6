"""What a stored job will do next, or why it will do nothing."""

from typing import NamedTuple

from mainspring.engine.jobs.definition import Definition
from mainspring.wheel import ScheduleError, next_fires


class Upcoming(NamedTuple):
    """The next runs, in epoch seconds, or none and the reason in a few words."""

    runs: list[int]
    reason: str | None = None


def upcoming(job: Definition, now: int, count: int) -> Upcoming:
    """The job's next `count` runs after `now`, as the engine will fire them.

    A job that the engine sets aside (its row came by plain SQL) is told, not raised.
    """
    if quarantined := job.quarantine_reason():
        return Upcoming([], f"quarantined: {quarantined}")
    if not job.enabled:
        return Upcoming([], "paused")
    try:
        runs = next_fires(job.schedule(), job.id, now, count)
    except ScheduleError as error:
        return Upcoming([], f"quarantined: {error}")
    return Upcoming(runs, None if runs else "no run left")
