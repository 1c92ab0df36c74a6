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
        """Make room for so many jobs in all, in one step, for ``apply``. A loader needs and keeps none."""

    def loader(self) -> Loader:
        """A loader for this wheel, which must be empty and have no other: RuntimeError otherwise.

        While it is open ``apply``, ``drain``, ``reserve`` and ``clear`` raise RuntimeError; everything else
        sees the shards that are built. Routes and expressions are numbered as for ``apply``.
        """

    def apply(self, rows: NDArray[np.void], texts: bytes) -> int:
        """Apply definitions, shape (n,) of DEFINITION, in order for each job; return how many changed
        something.

        A row with ``seq`` other than 0 that is no newer than the job's last is passed over. ValueError
        names the first row that cannot be judged good, and nothing is applied. MemoryError says how far
        it came; the same call may be repeated.
        """

    def digests(self, rows: NDArray[np.void], texts: bytes) -> NDArray[np.uint64]:
        """What each row, shape (n,) of DEFINITION, would add to its shard's digest, shape (n,).

        0 for OP_DELETE. Equal for equal definitions in every process, whatever numbers their routes and
        expressions have: see `mainspring.wheel.Digester`. ValueError names the first row that cannot be
        judged good.
        """

    def drain(self, second: int, now: int, frames: Frames) -> bool:
        """Append the runs of ``second`` to ``frames``; True once all shards have given theirs.

        False: ``frames`` is full, or memory is short; call again for the same second with an empty one,
        and it goes on where it stopped. ``now`` is the clock: a second drained over 5 s late is missed,
        and its runs are given or skipped by each job's ``catch_up``.

        Several threads may drain the same second, each into ``frames`` of its own; each run goes to one of
        them. One that finds nothing left to do waits until the others are done, or have a shard over.

        ValueError unless ``second`` is the one after ``Wheel.now``, or the one completed last, which gives
        True and nothing. MemoryError comes before anything is given: ``frames`` holds what it held before,
        and the call can be repeated.
        """

    def leap(self, second: int, now: int) -> None:
        """Pass over all seconds up to ``second`` in one step, as if each were drained at the clock ``now``.

        Linear in jobs, whatever lies between. What the seconds would have given comes with the next one
        drained, before its own runs: the skipped ones in ``Frames.skipped`` and ``Frames.skipped_span``, and
        those still owed (one of a job with over an hour between runs, a one-shot) under their own instants.
        ValueError amid a second, and unless ``second`` lies after ``Wheel.now`` and not after
        ``farthest_leap``.
        MemoryError: repeat the call; nothing can be drained before it succeeds.
        """

    def farthest_leap(self, now: int) -> int:
        """The last second that lies wholly beyond catch-up at the clock ``now``."""

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

    def time_locks(self, wanted: bool = True) -> None:
        """Note from now on how long each hold of a shard's lock takes in CPU time, and forget what was
        noted before; with False note none. It costs about a microsecond a hold, so it is off at first.
        """

    def lock_holds(self, *per_mille: int) -> tuple[int, ...]:
        """How many holds were noted, then for each part of a thousand the nanoseconds of CPU time
        within which so many of them ended: ``count, median, p99_9, longest = lock_holds(500, 999, 1000)``.
        At most 3 % too high; 0 where none was noted. ValueError for a part that is not 1 to 1000.
        """

    def next_due(self, job_id: int) -> int | None:
        """The instant the job is armed for; None if it is unknown, paused or finished."""

    def next_dues(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The same of many jobs, shape (n,): epoch seconds, ``NEVER`` where ``next_due`` gives None.

        Many times faster than one by one. Each is true of a moment during the call, not all of one moment.
        TypeError for ids of another type or shape, MemoryError where there is none to sort them.
        """

    def knows(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the jobs are there, shape (n,): ``in`` of many, under the conditions of ``next_dues``."""

    def ids(self, shard: int) -> NDArray[np.int64]:
        """The ids of the jobs of shard 0 to 255, shape (n,), in no order, all of one moment."""

    def __contains__(self, job_id: int) -> bool: ...
    def __len__(self) -> int: ...
    def counts(self) -> dict[str, int]:
        """Jobs: ``interval``, ``cron`` and ``once`` where enabled, all others ``paused``."""

    @property
    def nbytes(self) -> int:
        """Bytes obtained for jobs, keys and payloads."""

    def clear(self) -> None:
        """Forget all jobs; the clock stays."""

    def _inject(self, fault: str, job_id: int) -> None:
        """For tests: inflict one of ``FAULTS`` on a job. KeyError if it is unknown or has no entry."""

class Loader:
    """Fills an empty wheel several times faster than ``apply``: rows first, everything else once at the end.

        with wheel.loader() as loader:
            for rows, texts in pieces:
                loader.add(rows, texts)
            loader.finish()

    The wheel is then what ``apply`` would have made of the same rows, its jobs laid in memory in the order
    in which they fire. Any thread may call ``add``, and several threads ``finish``; the GIL is released while
    they work. What is added and not finished is dropped by ``close``, by the end of ``with``, or with the
    loader.
    """

    def __enter__(self) -> Loader: ...
    def __exit__(self, *exception: object) -> None: ...
    def add(self, rows: NDArray[np.void], texts: bytes) -> None:
        """Stage definitions, shape (n,) of DEFINITION, each with ``op`` = OP_LOAD; all of them or none.

        Of several rows of one job the last one holds, or the one with the newest ``seq`` where they have
        one; of two calls at once either may be the later. ValueError names the first row that cannot be
        judged good. MemoryError: repeat the call, or drop the loader. RuntimeError once ``finish`` or
        ``close`` was called.
        """

    def finish(self) -> None:
        """Build the wheel out of all that was added, once every ``add`` has returned.

        Threads that call it at the same time share the work, and each returns when all is done; after that
        it does nothing. MemoryError leaves the wheel empty and the loader closed: load again. RuntimeError
        while a call of ``add`` is under way, or after ``close``.
        """

    def close(self) -> None:
        """Drop what is not finished and let go of the wheel. RuntimeError while a call is under way."""
