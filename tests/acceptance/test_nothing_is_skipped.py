"""Sixteen writers at once, with all that makes commits come out of order: no change of theirs is skipped.

The wheel equals the table, digest by digest, while they write and afterwards; and each definition that held
for long enough to owe a run has given it, the ones in between too. MAINSPRING_SOAK_S makes it last longer.
"""

import asyncio
import os
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import pytest

from acceptance.equality import equal_after_s
from acceptance.node_process import running_node
from acceptance.oracle import Change, JobHistory, judge
from acceptance.stream_reader import stored_runs
from mainspring.changelog_tailer import schema
from mainspring.engine.checks.deep_check import compare
from mainspring.engine.config import load_settings
from mainspring.engine.embedded import EmbeddedPostgres

LASTS_S = float(os.environ.get("MAINSPRING_SOAK_S", "20"))
WRITERS = 16
JOBS = 2000
HOT = 20
"""Jobs that every second statement is about."""

SLACK_S = 5.0
LONG_S = (1.0, 6.0)
"""For how long a long transaction stays open."""

pytestmark = pytest.mark.slow


@dataclass
class Writer:
    """Draws transactions. committed: when the client was told, by transaction id."""

    connection: asyncpg.Connection
    draw: random.Random
    committed: dict[int, float] = field(default_factory=dict)
    rolled_back: int = 0

    async def run(self, until: float) -> None:
        while time.time() < until:
            await self._transaction()
            await asyncio.sleep(self.draw.expovariate(4))

    async def _transaction(self) -> None:
        # Long ones keep to a few cold jobs of their own, or all would wait for their rows.
        is_long = self.draw.random() < 0.05
        transaction = self.connection.transaction()
        await transaction.start()
        xid = int(await self.connection.fetchval("select pg_current_xact_id()::text::bigint"))
        try:
            for _ in range(self.draw.randint(1, 4)):
                await self._statement(hot=not is_long and self.draw.random() < 0.5)
            if is_long:
                await asyncio.sleep(self.draw.uniform(*LONG_S))
            if self.draw.random() < 0.2:
                raise _RollBack
        except (_RollBack, asyncpg.DeadlockDetectedError):
            await transaction.rollback()
            self.rolled_back += 1
            return
        await transaction.commit()
        self.committed[xid] = time.time()

    async def _statement(self, *, hot: bool) -> None:
        """Sometimes in a savepoint that is released, sometimes in one that is rolled back."""
        try:
            if self.draw.random() < 0.5:
                return await self._change(hot=hot)
            async with self.connection.transaction():
                await self._change(hot=hot)
                if self.draw.random() < 0.4:
                    raise _RollBack
        except _RollBack:
            pass
        return None

    async def _change(self, *, hot: bool) -> None:
        job_id = self.draw.randint(1, HOT if hot else JOBS)
        every_s = self.draw.randint(1, 8)
        statement = self.draw.choices(
            [
                f"update mainspring.jobs set every_s = {every_s} where id = {job_id}",
                f"update mainspring.jobs set enabled = not enabled where id = {job_id}",
                f"delete from mainspring.jobs where id = {job_id}",
                "insert into mainspring.jobs (id, every_s) overriding system value "
                f"values ({job_id}, {every_s}) on conflict (id) do update set every_s = excluded.every_s",
                f"update mainspring.jobs set every_s = every_s where id = {job_id}",
            ],
            weights=[6, 3, 2, 4, 1],
        )
        await self.connection.execute(statement[0])


class _RollBack(Exception):
    pass


async def test_no_definition_is_skipped_under_sixteen_writers(
    own_postgres: EmbeddedPostgres, nats_url: str, server_folder: Path
) -> None:
    dsn = own_postgres.dsn
    await schema.init(dsn)
    await fill(dsn)
    writers = [Writer(await asyncpg.connect(dsn), random.Random(seed)) for seed in range(WRITERS)]
    instance = "unskipped"
    async with running_node(server_folder, dsn, nats_url, instance=instance) as node:
        settings = load_settings({"postgres_dsn": dsn, "nats_url": nats_url, "instance": instance})
        start = int(time.time()) + 2
        async with open_elsewhere(own_postgres.dsn_for("postgres")):
            writing = [asyncio.create_task(writer.run(until=start + LASTS_S)) for writer in writers]
            compared = 0
            while not all(task.done() for task in writing):
                finding = await compare(settings, node.url)
                assert finding.good, finding.says
                compared += 1
                await asyncio.sleep(1)
            await asyncio.gather(*writing)
        stop = int(time.time())
        await equal_after_s(settings, node)
        await node.until_metric("mainspring_watermark_timestamp_seconds", stop + SLACK_S)
    histories = await histories_of(
        dsn, {xid: at for writer in writers for xid, at in writer.committed.items()}
    )
    verdict = judge(histories, await stored_runs(nats_url, instance.upper()), start, stop, slack_s=SLACK_S)
    for writer in writers:
        await writer.connection.close()
    commits, undone = (sum(len(w.committed) for w in writers), sum(w.rolled_back for w in writers))
    definitions = sum(len(history.changes) for history in histories.values())
    print(f"\n{verdict}; {commits} commits, {undone} rolled back, {definitions} definitions")
    print(f"{compared} times equal meanwhile")
    assert commits > LASTS_S * WRITERS / 2
    assert verdict.owed > LASTS_S * JOBS / 20
    assert verdict.clean, str(verdict)


async def fill(dsn: str) -> None:
    """Changes of the fill are as old as the table; ids of their own leave the writers theirs."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "insert into mainspring.jobs (id, every_s) overriding system value "
        f"select n, 1 + n % 8 from generate_series(1, {JOBS}) as n"
    )
    await connection.close()


@asynccontextmanager
async def open_elsewhere(dsn: str) -> AsyncIterator[None]:
    """A transaction with an id, in another database of the cluster, that stays open all the while."""
    connection = await asyncpg.connect(dsn)
    await connection.execute("begin; select pg_current_xact_id()")
    yield
    await connection.execute("rollback")
    await connection.close()


async def histories_of(dsn: str, committed: dict[int, float]) -> dict[int, JobHistory]:
    """What the log says held of each job, from when to when; a row lock gives a job's changes their order."""
    connection = await asyncpg.connect(dsn)
    rows = await connection.fetch(
        "select job_id, op, xid::text::bigint as xid, extract(epoch from changed_at)::float8 as changed_at, "
        "(after).every_s, (after).enabled from mainspring.job_changes order by seq"
    )
    await connection.close()
    histories: dict[int, JobHistory] = {}
    by_job: dict[int, list[asyncpg.Record]] = defaultdict(list)
    for row in rows:
        by_job[row["job_id"]].append(row)
    for job_id, changes in by_job.items():
        history = histories[job_id] = JobHistory(job_id)
        for row in changes:
            every_s = row["every_s"] if row["op"] != "delete" and row["enabled"] else None
            # When the fill was committed nobody was told: before the start.
            committed_at = committed.get(row["xid"], 0.0)
            history.changes.append(Change(row["changed_at"], committed_at, every_s))
    return histories
