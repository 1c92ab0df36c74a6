"""After harm to Postgres the wheel holds what the table holds: each commit there, none that was lost."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest_asyncio
from conftest import execute
from other_cluster import dump_of, password_of, replica_of, restore, roles_of, successor_of
from running_node import running

from engine.test_doctor_deep import EVERY_KIND, GOOD, equal, for_node, has_read, wheel_of
from mainspring.changelog_tailer import schema
from mainspring.engine.embedded import EmbeddedNats, EmbeddedPostgres
from mainspring.engine.embedded.postgres import DATABASE, USER

CUT_OFF = "alter system set primary_conninfo = ''"
FUTURE = "select max(xid) from mainspring.job_changes where xid > pg_current_xact_id()"
USE_UP_IDS = """
do $$ begin for n in 1..3000 loop perform pg_current_xact_id(); commit; end loop; end $$
"""


@pytest_asyncio.fixture
async def primary(server_folder: Path) -> AsyncIterator[EmbeddedPostgres]:
    """A server with jobs of every kind."""
    server = EmbeddedPostgres(server_folder / "primary")
    await server.start()
    await schema.init(server.dsn)
    await execute(server.dsn, EVERY_KIND)
    yield server
    await server.kill()


async def test_a_replica_is_promoted_without_the_last_commits(
    primary: EmbeddedPostgres, own_nats: EmbeddedNats, server_folder: Path
) -> None:
    """The wheel gives up what only the old primary knew, and takes what the new one has done since."""
    replica = await replica_of(primary, server_folder / "replica")
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{replica.port}"
    settings = for_node(f"postgresql://{USER}:{password_of(primary)}@{hosts}/{DATABASE}", own_nats.url)
    try:
        async with running(settings) as node:
            await equal(settings, node)
            await execute(primary.dsn, "delete from mainspring.jobs where id = 1")
            await until_follows(replica, primary)
            await execute(replica.dsn, CUT_OFF)
            await execute(replica.dsn, "select pg_reload_conf()")
            await until_alone(replica)
            await execute(primary.dsn, "insert into mainspring.jobs (every_s) values (61), (62)")
            await execute(primary.dsn, "delete from mainspring.jobs where id between 2 and 9")
            await execute(primary.dsn, "update mainspring.jobs set every_s = 999 where id = 10")
            await has_read(node, GOOD - 1 + 2 - 8)
            await primary.kill()
            await asyncio.sleep(1)  # the node finds both: one away, one in recovery
            await execute(replica.dsn, "select pg_promote()")
            await has_read(node, GOOD - 1)
            await equal(settings, node)
            await execute(replica.dsn, "delete from mainspring.jobs where id = 2")
            await has_read(node, GOOD - 2)
            await equal(settings, node)
    finally:
        await replica.kill()


async def until_follows(replica: EmbeddedPostgres, primary: EmbeddedPostgres) -> None:
    """Wait until the replica has all that the primary has committed."""
    connection = await asyncpg.connect(primary.dsn)
    position = await connection.fetchval("select pg_current_wal_lsn()::text")
    await connection.close()
    connection = await asyncpg.connect(replica.dsn)
    async with asyncio.timeout(30):
        while not await connection.fetchval("select pg_last_wal_replay_lsn() >= $1::text::pg_lsn", position):
            await asyncio.sleep(0.02)
    await connection.close()


async def until_alone(replica: EmbeddedPostgres) -> None:
    """Wait until nothing comes from the primary any more."""
    connection = await asyncpg.connect(replica.dsn)
    async with asyncio.timeout(30):
        while await connection.fetchval("select count(*) from pg_stat_wal_receiver"):
            await asyncio.sleep(0.02)
    await connection.close()


async def test_a_dump_is_restored_into_a_new_cluster(
    primary: EmbeddedPostgres, own_nats: EmbeddedNats, server_folder: Path
) -> None:
    """What was committed after the dump is gone, and its log counts the transactions of another cluster."""
    settings = for_node(primary.dsn, own_nats.url)
    file = server_folder / "dump.sql"
    await execute(primary.dsn, USE_UP_IDS)
    await execute(primary.dsn, "update mainspring.jobs set every_s = 71 where id between 1 and 20")
    await execute(primary.dsn, "update mainspring.jobs set every_s = 72 where id between 1 and 20")
    async with running(settings) as node:
        await equal(settings, node)
        await dump_of(primary, file)
        await execute(primary.dsn, "delete from mainspring.jobs where id between 2 and 9")
        await has_read(node, GOOD - 8)
        await primary.stop()
        successor = await successor_of(primary, server_folder / "successor")
        try:
            await restore(successor, roles_of(file))
            await restore(successor, file)
            await has_read(node, GOOD)
            await equal(settings, node)
            assert await future_rows(successor)
            await execute(successor.dsn, "delete from mainspring.jobs where id between 1 and 20")
            await has_read(node, GOOD - 20)
            await execute(successor.dsn, USE_UP_IDS)
            assert not await future_rows(successor)
            await execute(successor.dsn, "insert into mainspring.jobs (every_s) values (74)")
            await has_read(node, GOOD - 19)
            await equal(settings, node)
        finally:
            await successor.kill()


async def test_a_node_waits_until_a_dump_is_restored_whole(
    primary: EmbeddedPostgres, own_nats: EmbeddedNats, server_folder: Path
) -> None:
    """The triggers come last: what is copied into the table before them, maybe last of all, is in no log."""
    settings = for_node(primary.dsn, own_nats.url)
    file = server_folder / "dump.sql"
    await dump_of(primary, file)
    halves = file.with_name("first.sql"), file.with_name("second.sql")
    # psql's restricted mode spans the dump, and each half is a script of its own.
    text = re.sub(r"^\\(un)?restrict .*\n", "", file.read_text(), flags=re.MULTILINE)
    copied = re.search(r"^COPY mainspring\.jobs .*?^\\\.\n", text, flags=re.MULTILINE | re.DOTALL)
    last = re.search(r"^-- Name: .* Type: CONSTRAINT", text, flags=re.MULTILINE)
    assert copied is not None
    assert last is not None
    halves[0].write_text(text[: copied.start()] + text[copied.end() : last.start()])
    halves[1].write_text(copied[0] + text[last.start() :])
    async with running(settings) as node:
        await primary.stop()
        successor = await successor_of(primary, server_folder / "successor")
        try:
            await restore(successor, roles_of(file))
            await restore(successor, halves[0])
            await asyncio.sleep(3)
            assert len(wheel_of(node)) == GOOD
            await restore(successor, halves[1])
            await execute(successor.dsn, "delete from mainspring.jobs where id = 2")
            await has_read(node, GOOD - 1)
            await equal(settings, node)
        finally:
            await successor.kill()


async def future_rows(server: EmbeddedPostgres) -> bool:
    """Whether the log holds a change whose transaction this cluster has yet to begin."""
    connection = await asyncpg.connect(server.dsn)
    try:
        return await connection.fetchval(FUTURE) is not None
    finally:
        await connection.close()
