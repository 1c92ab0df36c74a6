"""What verify reads of the change log: each job's versions in the order in which they were written."""

import asyncio
import re
import time

import asyncpg
import pytest

from mainspring.changelog_tailer import OP_DELETE, connect, schema
from mainspring.engine.verify.effect import Effect
from mainspring.engine.verify.history import _query, read_history

INSERT = "insert into mainspring.jobs (id, every_s) values ($1, $2)"
UPDATE = "update mainspring.jobs set every_s = $2 where id = $1"


@pytest.fixture
async def dsn(database: str) -> str:
    await schema.init(database)
    return database


async def versions(dsn: str, job_id: int) -> list[int]:
    """The intervals of a job, version by version; 0 where it is not there."""
    connection = await connect(dsn)
    try:
        history = await read_history(connection, int(time.time()), Effect())
    finally:
        await connection.close()
    of_job = history.rows[history.ids[history.job] == job_id]
    return [0 if row["op"] == OP_DELETE else int(row["every_s"]) for row in of_job]


async def test_the_versions_of_a_job_come_as_written_not_as_their_transactions_began(dsn: str) -> None:
    early, late = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    await late.execute(INSERT, 1, 10)
    async with early.transaction():
        await early.execute(INSERT, 2, 7)  # this is the older transaction from here on
        await late.execute(UPDATE, 1, 20)
        await early.execute(UPDATE, 1, 30)
    await late.execute("delete from mainspring.jobs where id = 1")
    assert await versions(dsn, 1) == [0, 10, 20, 30, 0]
    assert await versions(dsn, 2) == [0, 7]
    await early.close()
    await late.close()


async def test_a_change_is_open_until_the_last_change_of_its_own_transaction(dsn: str) -> None:
    connection, other = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    async with connection.transaction():
        await connection.execute(INSERT, 1, 10)
        await other.execute(INSERT, 2, 10)
        await asyncio.sleep(1.5)
        await connection.execute(INSERT, 3, 10)
    reader = await connect(dsn)
    history = await read_history(reader, int(time.time()), Effect())
    first, alone, last = (
        history.rows["seq"][(history.ids[history.job] == n) & history.alive] for n in (1, 2, 3)
    )
    assert first == last >= alone + 1_400_000
    for each in (connection, other, reader):
        await each.close()


async def test_a_job_that_was_there_before_the_span_begins_as_it_was_then(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(INSERT, 1, 10)
    await connection.execute(INSERT, 2, 11)
    await connection.execute("update mainspring.job_changes set changed_at = changed_at - interval '1 day'")
    await connection.execute(UPDATE, 1, 20)
    assert await versions(dsn, 1) == [10, 20]
    assert await versions(dsn, 2) == [11]
    await connection.close()


@pytest.mark.parametrize("name", ["changes", "before_changes"])
async def test_millions_of_changes_are_read_in_the_order_of_the_index(dsn: str, name: str) -> None:
    """A join of a bulk of one transaction with thousands of single ones was planned as a loop in a loop, and
    took minutes.
    """
    connection = await asyncpg.connect(dsn)
    await connection.execute("insert into mainspring.jobs (every_s) select 60 from generate_series(1, 20000)")
    for job_id in range(1, 301):
        await connection.execute(UPDATE, job_id, 30)
    await connection.execute("analyze mainspring.job_changes")
    plan = "\n".join(row[0] for row in await connection.fetch("explain " + _query(name).format(since=0)))
    await connection.close()
    assert not re.search(r"Join|Nested Loop|Sort", plan), plan
    assert "Index Scan" in plan
