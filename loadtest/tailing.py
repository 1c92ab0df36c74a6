"""How soon a committed change is in force: the tail of a node, from the commit to the wheel.

    figures = asyncio.run(tail_figures(dsn, jobs=9000, rows=9000, commits_per_s=1000, seconds=9, tell=print))

Everything is real but the broker: an embedded Postgres, the load, and a generation of a node that ticks. What
writes is a process of its own, as it is in life. First single-row updates, each a transaction, at a steady
rate; then one insert of many rows in one transaction, and how late any tick was meanwhile.
"""

import asyncio
import multiprocessing
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from typing import Any, Final

import asyncpg
import numpy as np
from numpy.typing import NDArray

from mainspring.changelog_tailer import Cursor, close, connect
from mainspring.engine.clock import SystemClock
from mainspring.engine.failover.clock_guard import ClockGuard
from mainspring.engine.generation import Generation
from mainspring.engine.intake.loading import Loader
from mainspring.engine.metrics import Metrics
from mainspring.engine.publishing.settlement import Settlement
from mainspring.loadtest.plan import Figures
from mainspring.wheel import Frames, Piece, Wheel

SESSIONS: Final = 8
"""Of the writing process; each commits its share of the updates."""

PATIENCE_S: Final = 120.0
SECONDS_AFTER: Final = 2
"""Still looked at once a bulk change is in: what it held up is drained late."""

_FILL: Final = """
insert into mainspring.jobs (every_s, payload)
select 60 + n % 600, '{"url": "https://example.org/12345"}' from generate_series(1, $1::int) as n
"""
_UPDATE: Final = "update mainspring.jobs set every_s = every_s + 1 where id = $1"

Committed = dict[int, float]
"""By job, in seconds of perf_counter, which all processes share."""


async def tail_figures(
    dsn: str, *, jobs: int, rows: int, commits_per_s: int, seconds: float, tell: Callable[[str], None]
) -> Figures:
    """Of an empty schema in the database at this address; `jobs` are there beforehand."""
    tell(f"{jobs:,} jobs")
    await _run_sql(dsn, _FILL, jobs)
    async with _tailing(dsn) as (wheel, taker):
        await asyncio.sleep(2)
        tell(f"{commits_per_s:,} commits a second")
        updates = min(jobs, int(commits_per_s * seconds))
        committed = await _apart(_commit_steadily, dsn, updates, commits_per_s)
        await wheel.has_applied(updates)
        delays_ms = _delays_ms(committed, wheel.applied_at)
        tell(f"one transaction of {rows:,} rows")
        wheel.forget()
        began_at = len(taker.late_s)
        committed_at = await _apart(_insert, dsn, rows)
        await wheel.has_applied(rows)
        applied_s = wheel.newest - committed_at
        await taker.has_taken(SECONDS_AFTER)
        late_ms = np.array(taker.late_s[began_at:]) * 1e3
    return {
        "commits_per_s": updates / (max(committed.values()) - min(committed.values())),
        "armed_p50_ms": float(np.percentile(delays_ms, 50)),
        "armed_p99_ms": float(np.percentile(delays_ms, 99)),
        "armed_max_ms": float(delays_ms.max()),
        "bulk_change_s": applied_s,
        "bulk_tick_late_max_ms": float(late_ms.max()),
    }


def _delays_ms(committed: Committed, applied_at: Committed) -> NDArray[np.float64]:
    """A reader may see a commit before its writer has heard of it: that is no delay."""
    delays_ms = [max(applied_at[job_id] - at, 0.0) * 1e3 for job_id, at in committed.items()]
    return np.array(delays_ms)


class WatchedWheel(Wheel):
    """Notes when each job was last changed; only rows that a log brought count."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.forget()

    def forget(self) -> None:
        """Count from here."""
        self.applied_rows = 0
        self._noted: list[tuple[float, NDArray[np.int64]]] = []

    def apply(self, rows: NDArray[np.void], texts: bytes) -> int:
        """As every wheel does."""
        changed = super().apply(rows, texts)
        self._noted.append((time.perf_counter(), rows["id"].copy()))
        self.applied_rows += len(rows)
        return changed

    @property
    def applied_at(self) -> Committed:
        """When each job was changed."""
        return {job_id: at for at, ids in self._noted for job_id in ids.tolist()}

    @property
    def newest(self) -> float:
        """When the last change was made."""
        return self._noted[-1][0]

    async def has_applied(self, rows: int) -> None:
        """Wait until so many rows have been applied since `forget`."""
        async with asyncio.timeout(PATIENCE_S):
            while self.applied_rows < rows:
                await asyncio.sleep(0.05)


class Taker:
    """In the publisher's place: each run is acknowledged at once. late_s: of each second, as drained."""

    def __init__(self, settlement: Settlement[Cursor]) -> None:
        self.late_s: list[float] = []
        self._settlement = settlement

    def next_number(self) -> int:
        """The number of the first piece."""
        return 1

    async def submit(self, frames: Frames) -> None:
        """Called for every piece, in order."""
        self._settlement.settle(frames.second, len(frames))
        if isinstance(frames, Piece) and frames.whole:
            self.late_s.append(frames.late_s)

    async def has_taken(self, seconds: int) -> None:
        """Wait for so many more whole seconds."""
        upto = len(self.late_s) + seconds
        async with asyncio.timeout(PATIENCE_S):
            while len(self.late_s) < upto:
                await asyncio.sleep(0.05)


@asynccontextmanager
async def _tailing(dsn: str) -> AsyncIterator[tuple[WatchedWheel, Taker]]:
    """A node's generation at work, without a broker."""
    clock = SystemClock()
    now = int(clock.now())
    wheel = WatchedWheel(now)
    with ThreadPoolExecutor(2) as threads:
        connection = await connect(dsn)
        loaded = await Loader(connection, wheel, threads).load(None)
        await close(connection)
        settlement = Settlement(now, loaded.cursor)
        taker = Taker(settlement)
        generation = Generation(
            loaded,
            taker,  # type: ignore[arg-type]  # what a generation asks of a publisher is in it
            settlement,
            clock=clock,
            metrics=Metrics(),
            threads=threads,
            bucket=None,  # type: ignore[arg-type]  # only a node that follows another reads it
            guard=ClockGuard(clock, {}),
            window_s=0.0,
            watchdog_period_s=2.0,
            tailer_options={"dsn": dsn},
            sure=lambda: True,
        )
        await generation.lead()
        running = asyncio.create_task(generation.run())
        try:
            yield wheel, taker
        finally:
            generation.stop()
            await running
            await generation.aclose()


# ------------------------------------------------------------------------------ the writing process


async def _apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """What the coroutine function `work` gives in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, work, arguments), daemon=True)
    process.start()
    try:
        return await asyncio.to_thread(ours.recv)
    finally:
        process.join()


def _work(answer: Connection, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    answer.send(asyncio.run(work(*arguments)))


async def _insert(dsn: str, rows: int) -> float:
    """When the insert was committed."""
    await _run_sql(dsn, _FILL, rows)
    return time.perf_counter()


async def _commit_steadily(dsn: str, updates: int, commits_per_s: int) -> Committed:
    """Each of the first `updates` jobs is updated once, at its own moment."""
    committed: Committed = {}
    sessions = [await asyncpg.connect(dsn) for _ in range(SESSIONS)]
    begin = time.perf_counter() + 0.2
    shares = [range(1 + n, updates + 1, SESSIONS) for n in range(SESSIONS)]

    async def commit(session: asyncpg.Connection, share: range) -> None:
        statement = await session.prepare(_UPDATE)
        for job_id in share:
            await asyncio.sleep(begin + job_id / commits_per_s - time.perf_counter())
            await statement.fetch(job_id)
            committed[job_id] = time.perf_counter()

    await asyncio.gather(*map(commit, sessions, shares))
    for session in sessions:
        await session.close()
    return committed


async def _run_sql(dsn: str, statement: str, *parameters: Any) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement, *parameters)
    finally:
        await connection.close()
