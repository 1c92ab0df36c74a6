"""The wheel once more in plain Python: a dictionary of jobs, each with the instant it is due.

Slow and obvious: no slots, no shards, no lists. It rests on `mainspring.wheel.twin` alone. What it cannot
know by itself, how far each shard is in a half-drained second, it is told as `begun`.
"""

from dataclasses import dataclass
from functools import lru_cache

from wheel_rows import Change, Job

from mainspring.wheel import (
    CATCH_UP_ALL,
    CATCH_UP_NONE,
    KIND_INTERVAL,
    KIND_ONCE,
    NEVER,
    OP_DELETE,
    OP_INSERT,
    OP_LOAD,
    Schedule,
)
from mainspring.wheel.twin import job_hash, schedule_next

DAY_S = 86_400


@dataclass
class Held:
    job: Job
    seq: int
    due: int
    extra: int | None


@lru_cache(maxsize=100_000)
def next_instant(schedule: Schedule, job_id: int, after: int) -> int:
    return schedule_next(schedule, job_id, after)


def in_window(schedule: Schedule, instant: int) -> bool:
    starts, ends = schedule.starts_at, schedule.ends_at
    return (starts is None or starts <= instant) and (ends is None or instant < ends)


def owed_after(job: Job, extra: int | None, after: int) -> int:
    if not job.enabled:
        return NEVER
    due = next_instant(job.schedule, job.id, after)
    return min(due, extra) if extra is not None and extra > after else due


def extra_run(change: Change, held: Held | None, done: int, begun: int) -> int | None:
    """The pending run beside the schedule: a late one-shot's, or the first run soon."""
    job = change.job
    if not job.enabled:
        return None
    if job.kind == KIND_ONCE:
        return late_run(change, held, done)
    first = first_run(change, held, begun)
    if first is not None and first > begun:
        return first
    if held is None or held.extra is None or held.job.kind == KIND_ONCE:
        return None
    return max(held.extra, done + 1)


def late_run(change: Change, held: Held | None, done: int) -> int | None:
    run_at = change.job.schedule.run_at
    assert run_at is not None
    if run_at > done or not in_window(change.job.schedule, run_at):
        return None
    if held is not None and held.job.schedule.run_at == run_at:
        return done + 1 if held.due != NEVER else None
    if change.op == OP_LOAD or done - run_at >= DAY_S:
        return None
    return done + 1


def first_run(change: Change, held: Held | None, begun: int) -> int | None:
    """A function of the change alone, when it is a job's beginning."""
    job, changed_at = change.job, change.changed_at(begun)
    begins = change.op == OP_LOAD or (held is None and change.op == OP_INSERT)
    if not begins or not job.first_run_soon or not changed_at:
        return None
    window = 5
    if job.kind == KIND_INTERVAL:
        assert job.schedule.every_s is not None
        window = max(1, min(5, job.schedule.every_s // 2))
    instant = changed_at + 1 + job_hash(job.id) % window
    return instant if in_window(job.schedule, instant) else None


class TwinWheel:
    def __init__(self, catch_up_window_s: int = 90) -> None:
        self.held: dict[int, Held] = {}
        self.window_s = catch_up_window_s

    def apply(self, change: Change, begun: int) -> bool:
        """Whether it changed something."""
        job = change.job
        held = self.held.get(job.id)
        if held is not None and change.seq and held.seq and change.seq <= held.seq:
            return False
        if change.op == OP_DELETE:
            return self.held.pop(job.id, None) is not None
        done = begun - 1 if held is not None and held.due == begun else begun
        extra = extra_run(change, held, done, begun)
        self.held[job.id] = Held(job, change.seq, owed_after(job, extra, done), extra)
        return True

    def next_second(self) -> int:
        """The earliest instant for which a job is due; NEVER when there is none."""
        return min((held.due for held in self.held.values()), default=NEVER)

    def due(self, second: int) -> set[int]:
        return {job_id for job_id, held in self.held.items() if held.due == second}

    def take(self, job_id: int, second: int) -> int:
        """Moves the job on after its run of the second, and gives the run's scheduled instant."""
        held = self.held[job_id]
        if held.extra is not None and held.extra <= second:
            held.extra = None
        held.due = owed_after(held.job, held.extra, second)
        run_at = held.job.schedule.run_at
        return second if run_at is None else run_at

    def skip_reason(self, job_id: int, second: int, now: int) -> str | None:
        """Why the run of a second drained at ``now`` is not owed any more; None when it is."""
        held, late = self.held[job_id], now - second
        if late <= 5:
            return None
        if held.job.catch_up == CATCH_UP_NONE:
            return "none"
        following = owed_after(held.job, held.extra, second)
        if held.job.catch_up == CATCH_UP_ALL:
            if late <= self.window_s or self.keeps_newest(held.job, second, now):
                return None
            return "window"
        if following < now - 5:
            return "latest"
        return None if late <= DAY_S else "window"

    def keeps_newest(self, job: Job, second: int, now: int) -> bool:
        if now - second > DAY_S:
            return False
        if job.kind == KIND_ONCE:
            return True
        endless = {name: getattr(job.schedule, name) for name in job.schedule.__slots__} | {"ends_at": None}
        following = next_instant(Schedule(**endless), job.id, second)
        return following == NEVER or (following - second > 3600 and following >= now - 5)
