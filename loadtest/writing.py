"""What the change log costs those who write jobs: the same writes with it and without it, in turn.

    costs = write_costs(rows=1_000_000, clients=8, seconds=20, tail_jobs=0, tail_s=0, tell=print)
    figures = asyncio.run(costs)

Both tables are on one embedded server that is made for the run. "Without" is the same table with the
triggers of the log off.
"""

import asyncio
import random
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Final

import asyncpg

from mainspring.changelog_tailer import schema
from mainspring.engine.embedded import EmbeddedPostgres
from mainspring.loadtest.log_triggers import switch_log
from mainspring.loadtest.plan import Figures
from mainspring.loadtest.tailing import tail_figures

LOGGED, PLAIN = "logged", "plain"
UPDATED_JOBS: Final = 20_000
"""Enough that clients seldom wait for each other's row, few enough to stay in memory."""

ROUNDS: Final = 15
"""Each round measures both tables, so that a slow minute of the machine is a slow minute of both."""

COMMITS_PER_S: Final = 1000
_EMPTY: Final = ("truncate mainspring.jobs restart identity", "truncate mainspring.job_changes")
_INSERT: Final = """
insert into mainspring.jobs (key, every_s, payload)
select 'job-' || n, 60, '{"url": "https://example.org/12345"}' from generate_series(1, $1::int) as n
"""
_UPDATE: Final = "update mainspring.jobs set every_s = $2 where id = $1"


async def write_costs(
    *, rows: int, clients: int, seconds: float, tail_jobs: int, tail_s: float, tell: Callable[[str], None]
) -> Figures:
    """Bulk inserts of ``rows`` rows and single-row updates by ``clients`` for about ``seconds`` in all.

    Then the tail's figures of tailing.py with ``tail_jobs`` jobs, at 1,000 commits a second for
    ``tail_s``; none of these for 0 jobs.
    """
    async with _tables() as dsns:
        tell("single-row updates")
        for dsn in dsns.values():
            await _insert(dsn, UPDATED_JOBS)
        updates = await _update_rounds(dsns, clients, seconds / (2 * ROUNDS))
        tell(f"bulk insert of {rows:,} rows")
        inserts = {name: await _insert(dsn, rows, emptied=True) for name, dsn in dsns.items()}
        tail: Figures = {}
        if tail_jobs:
            await _execute(dsns[LOGGED], *_EMPTY)
            tail = await tail_figures(
                dsns[LOGGED],
                jobs=tail_jobs,
                rows=rows,
                commits_per_s=COMMITS_PER_S,
                seconds=tail_s,
                tell=tell,
            )
    return {
        "rows": rows,
        "clients": clients,
        "bulk_insert_s": inserts[LOGGED],
        "bulk_insert_plain_s": inserts[PLAIN],
        "bulk_insert_ratio": inserts[LOGGED] / inserts[PLAIN],
        "updates_per_s": median(updates[LOGGED]),
        "updates_plain_per_s": median(updates[PLAIN]),
        "updates_ratio": median(map(_ratio, updates[LOGGED], updates[PLAIN])),
        **tail,
    }


def _ratio(logged: float, plain: float) -> float:
    return logged / plain


@asynccontextmanager
async def _tables() -> AsyncIterator[dict[str, str]]:
    """The DSN of a database with the log, and that of one without."""
    folder = _server_folder()
    server = EmbeddedPostgres(folder)
    try:
        await server.start()
        yield {name: await _database(server, name) for name in (PLAIN, LOGGED)}
    finally:
        await server.stop()
        shutil.rmtree(folder)


def _server_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="mainspring-loadtest-"))
    folder.chmod(0o755)  # the server's user has to enter it
    return folder


async def _database(server: EmbeddedPostgres, name: str) -> str:
    await _execute(server.dsn, f"create database {name}")
    dsn = server.dsn_for(name)
    await schema.init(dsn)
    if name == PLAIN:
        await _leave_log_out(dsn)
    return dsn


async def _leave_log_out(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await switch_log(connection, on=False)
    finally:
        await connection.close()


async def _execute(dsn: str, *statements: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def _insert(dsn: str, rows: int, *, emptied: bool = False) -> float:
    """Seconds that the insert and its commit take."""
    if emptied:
        await _execute(dsn, *_EMPTY, "checkpoint")
    connection = await asyncpg.connect(dsn)
    try:
        began_at = time.perf_counter()
        await connection.execute(_INSERT, rows)
        took_s = time.perf_counter() - began_at
        await connection.execute("vacuum analyze mainspring.jobs")
        return took_s
    finally:
        await connection.close()


async def _update_rounds(dsns: dict[str, str], clients: int, round_s: float) -> dict[str, list[float]]:
    """Updates a second by round."""
    rates: dict[str, list[float]] = {name: [] for name in dsns}
    sessions = {name: [await asyncpg.connect(dsn) for _ in range(clients)] for name, dsn in dsns.items()}
    try:
        for name in dsns:  # the first update of a session plans and fills its caches
            await _updates_for(sessions[name], 0.2)
        for _ in range(ROUNDS):
            for name in dsns:
                rates[name].append(await _updates_for(sessions[name], round_s))
    finally:
        for session in (session for opened in sessions.values() for session in opened):
            await session.close()
    return rates


async def _updates_for(sessions: list[asyncpg.Connection], seconds: float) -> float:
    began_at = time.perf_counter()
    counts = await asyncio.gather(*(_update_until(session, began_at + seconds) for session in sessions))
    return sum(counts) / (time.perf_counter() - began_at)


async def _update_until(session: asyncpg.Connection, deadline: float) -> int:
    statement = await session.prepare(_UPDATE)
    done = 0
    while time.perf_counter() < deadline:
        await statement.fetch(random.randint(1, UPDATED_JOBS), random.randint(1, 1_000_000))
        done += 1
    return done
