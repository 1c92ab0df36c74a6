"""The wheel: every job's next run, in 256 shards that work side by side."""

import numpy as np
from numpy.typing import NDArray

from mainspring.wheel.frames import Frames

FAULTS: tuple[str, ...]

class Wheel:
    """Jobs, and the second up to which their runs have been given.

        wheel = Wheel(now)
        rows = np.zeros(1, DEFINITION)          # then fill in, see DEFINITION
        rows["route"] = wheel.route("default")
        wheel.apply(rows, texts)
        frames, second, whole = Frames(), wheel.now + 1, False
        while not whole:
            frames.reset(frames.first + len(frames))
            whole = wheel.drain(second, clock, frames)
            send(frames.view())

    ``now`` is the last second taken as drained: jobs are armed for their first instant after it.
    ``instance`` and ``reply_prefix`` go into each frame. Runs of jobs with ``catch_up`` = all are given
    up to ``catch_up_window_s`` seconds late. Any thread may call any method; the GIL is released while it
    works.
    """

    def __init__(
        self,
        now: int,
        *,
        instance: str = "mainspring",
        reply_prefix: str = "_INBOX.x",
        catch_up_window_s: int = 90,
    ) -> None: ...
    @property
    def now(self) -> int:
        """The last second drained by every shard."""

    def route(self, route: str) -> int:
        """The number of a route for ``DEFINITION["route"]``. ValueError for what may not stand in a
        subject.
        """

    def cron(self, expression: str, tz: str) -> int:
        """The number of an expression in a zone for ``DEFINITION["cron"]``. ScheduleError says what is
        wrong.
        """

    def reserve(self, jobs: int) -> None:
        """Make room for so many jobs in all, in one step and without slack."""

    def apply(self, rows: NDArray[np.void], texts: bytes) -> int:
        """Apply definitions, shape (n,) of DEFINITION, in order for each job; return how many changed
        something.

        A row with ``seq`` other than 0 that is no newer than the job's last is passed over. ValueError
        names the first row that cannot be judged good, and nothing is applied. MemoryError says how far
        it came; the same call may be repeated.
        """

    def drain(self, second: int, now: int, frames: Frames) -> bool:
        """Append the runs of ``second`` to ``frames``; True once all shards have given theirs.

        False: ``frames`` is full; call again for the same second with an empty one, and it goes on where
        it stopped. ``now`` is the clock: a second drained over 5 s late is missed, and its runs are given
        or skipped by each job's ``catch_up``. ValueError unless ``second`` is the one after
        ``Wheel.now``. MemoryError leaves all as it was; repeat the call.
        """

    def begun(self, shard: int) -> int:
        """The second the shard is draining or drained last: ``now``, or one later amid a drain."""

    def check(self, shard: int) -> dict[str, int]:
        """Prove shard 0 to 255 right: how many faults of each of ``FAULTS`` it has; all 0 is right.
        Linear in jobs.
        """

    def sweep(self, shard: int) -> dict[str, int]:
        """``check``, and mend what is found: what it returns is what was mended.

        What a lost entry kept from its second is owed by the job's ``catch_up``, and comes with the next
        second drained, under its own instant. MemoryError: nothing is mended; repeat the call.
        """

    def next_due(self, job_id: int) -> int | None:
        """The instant the job is armed for; None if it is unknown, paused or finished."""

    def __contains__(self, job_id: int) -> bool: ...
    def __len__(self) -> int: ...
    def counts(self) -> dict[str, int]:
        """Jobs: ``interval``, ``cron`` and ``once`` where enabled, all others ``paused``."""

    @property
    def nbytes(self) -> int:
        """Bytes obtained for jobs, payloads over 2 kB left aside."""

    def clear(self) -> None:
        """Forget all jobs; the clock stays."""

    def _inject(self, fault: str, job_id: int) -> None:
        """For tests: inflict one of ``FAULTS`` on a job. KeyError if it is unknown or has no entry."""
