"""Jobs as the wheel's tests write them, and the little that stands between them and the wheel."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mainspring.wheel import (
    DEFINITION,
    KIND_CRON,
    KIND_INTERVAL,
    KIND_ONCE,
    MIN,
    NEVER,
    OP_INSERT,
    Frames,
    Schedule,
    Wheel,
    shard_of,
)

Run = tuple[int, int]
"""Job id and scheduled instant."""


@dataclass(frozen=True)
class Job:
    id: int
    schedule: Schedule = field(default_factory=lambda: Schedule(every_s=60))
    key: str | None = None
    data: str | None = None
    route: str = "default"
    enabled: bool = True
    first_run_soon: bool = False
    catch_up: int = 0

    @property
    def kind(self) -> int:
        if self.schedule.every_s is not None:
            return KIND_INTERVAL
        return KIND_ONCE if self.schedule.cron is None else KIND_CRON


@dataclass(frozen=True)
class Change:
    """at: the second of an insert, where it is not the one that the job's shard stands at."""

    job: Job
    op: int = OP_INSERT
    seq: int = 0
    at: int | None = None

    def changed_at(self, begun: int) -> int:
        """0 for none."""
        if self.at is not None:
            return self.at
        return begun if self.op == OP_INSERT else 0


def every(job_id: int, seconds: int, **rest: object) -> Job:
    return Job(job_id, Schedule(every_s=seconds), **rest)  # type: ignore[arg-type]


def or_else(value: int | None, default: int) -> int:
    return default if value is None else value


def batch(wheel: Wheel, changes: Iterable[Change]) -> tuple[NDArray[np.void], bytes]:
    """The changes as ``Wheel.apply`` takes them."""
    texts = bytearray()
    rows = [row_of(wheel, change, texts) for change in changes]
    return np.array(rows, DEFINITION), bytes(texts)


def row_of(wheel: Wheel, change: Change, texts: bytearray) -> tuple[int, ...]:
    job, schedule = change.job, change.job.schedule
    key, data = (job.key or "").encode(), (job.data or "").encode()
    key_at = len(texts)
    texts += key + data
    return (
        job.id,
        change.seq,
        or_else(schedule.run_at, NEVER),
        or_else(schedule.starts_at, MIN),
        or_else(schedule.ends_at, NEVER),
        or_else(schedule.boost_until, MIN),
        change.changed_at(wheel.begun(shard_of(job.id))),
        or_else(schedule.every_s, 0),
        or_else(schedule.phase_s, -1),
        or_else(schedule.jitter_s, -1),
        or_else(schedule.boost_every_s, 0),
        wheel.route(job.route),
        0 if schedule.cron is None else wheel.cron(schedule.cron, schedule.tz),
        key_at,
        len(key),
        key_at + len(key),
        len(data),
        change.op,
        job.kind,
        job.enabled,
        job.first_run_soon,
        job.catch_up,
    )


def put(wheel: Wheel, *jobs: Job, op: int = OP_INSERT, seq: int = 0) -> int:
    return wheel.apply(*batch(wheel, [Change(job, op, seq) for job in jobs]))


def runs_of(frames: Frames) -> list[Run]:
    return [(frames.job_id(i), frames.scheduled_at(i)) for i in range(len(frames))]


def drain(wheel: Wheel, now: int | None = None, frames: Frames | None = None) -> list[Run]:
    """Drains the next second whole, on time unless ``now`` says otherwise, and gives its runs in order."""
    second = wheel.now + 1
    frames = frames or Frames()
    runs: list[Run] = []
    whole = False
    while not whole:
        frames.reset(0)
        whole = wheel.drain(second, second if now is None else now, frames)
        runs += runs_of(frames)
    return runs


def drain_until(wheel: Wheel, last: int) -> list[Run]:
    frames = Frames()
    runs: list[Run] = []
    while wheel.now < last:
        runs += drain(wheel, frames=frames)
    return runs


def faults(wheel: Wheel) -> dict[str, int]:
    """What ``check`` finds in all shards, without the zeros: empty when the wheel is right."""
    found: dict[str, int] = {}
    for shard in range(256):
        for fault, count in wheel.check(shard).items():
            found[fault] = found.get(fault, 0) + count
    return found_in(found)


def found_in(counts: dict[str, int]) -> dict[str, int]:
    """What ``check`` or ``sweep`` tells, without the zeros."""
    return {fault: count for fault, count in counts.items() if count}
