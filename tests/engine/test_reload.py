"""A void cursor stops nothing: old jobs fire while the table is read again, then what differs is applied."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg
import pytest
from running_node import running

from acceptance.stream_reader import stored_runs
from engine.test_node import metric, until_metric
from mainspring.changelog_tailer import schema
from mainspring.engine.config import Settings, load_settings
from mainspring.engine.embedded import EmbeddedPostgres
from mainspring.engine.embedded.postgres import DATABASE

READER = "reader"
FLEET = 20_000
SLOW_S = 4
# 1 stays as it is, 2 will be paused, 3 get another interval, 4 be gone, 5 not be judged good, 6 be new.
BEFORE = f"""
insert into mainspring.jobs (id, every_s) values (1, 1), (2, 1), (3, 1), (4, 1), (5, 1);
insert into mainspring.jobs (id, every_s) select n, 86400 from generate_series(100, {FLEET}) as n;
update mainspring.jobs set jitter_s = 1 where id < 5000;
update mainspring.jobs set jitter_s = null where id < 5000;
"""
AFTER = """
update mainspring.jobs set enabled = false where id = 2;
update mainspring.jobs set every_s = 2 where id = 3;
delete from mainspring.jobs where id = 4;
update mainspring.jobs set every_s = null, cron = '99 * * * *' where id = 5;
insert into mainspring.jobs (id, every_s) values (6, 1);
"""


async def made_anew(server: EmbeddedPostgres) -> None:
    """Another table of the same name, whose log numbers its changes from 1 on."""
    await do(server.dsn, "drop schema mainspring cascade")
    await schema.init(server.dsn)
    await do(server.dsn, f"grant mainspring_engine to {READER}", BEFORE.partition("update")[0])


async def promoted(server: EmbeddedPostgres) -> None:
    """Another timeline."""
    await server.stop()
    (server.data / "standby.signal").touch()
    await server.start()
    await do(server.dsn, "select pg_promote()")


async def restored(server: EmbeddedPostgres) -> None:
    """A copy in another database of the same name."""
    other = server.dsn_for("postgres")
    await do(other, f"create database copy template {DATABASE}", f"drop database {DATABASE} with (force)")
    await do(other, f"alter database copy rename to {DATABASE}")


async def do(dsn: str, *statements: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@asynccontextmanager
async def held_up(server: EmbeddedPostgres) -> AsyncIterator[Callable[[], Awaitable[bool]]]:
    """The table locked, so that whoever loads it waits; gives whether the node does."""
    connection = await asyncpg.connect(server.dsn)

    async def waits() -> bool:
        await connection.execute("select pg_stat_clear_snapshot()")  # else a transaction sees the first one
        waiting = "select count(*) from pg_stat_activity where usename = $1 and wait_event_type = 'Lock'"
        return bool(await connection.fetchval(waiting, READER))

    try:
        async with connection.transaction():
            await connection.execute("lock table mainspring.jobs in access exclusive mode")
            yield waits
    finally:
        await connection.close()


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await true():
            await asyncio.sleep(0.02)


@pytest.fixture
async def settings(own_postgres: EmbeddedPostgres, nats_url: str) -> Settings:
    await schema.init(own_postgres.dsn)
    await do(
        own_postgres.dsn,
        f"drop role if exists {READER}",
        f"create role {READER} login password 'secret' in role mainspring_engine",
        BEFORE,
    )
    return load_settings(
        {
            "postgres_dsn": f"postgresql://{READER}:secret@127.0.0.1:{own_postgres.port}/{DATABASE}",
            "nats_url": nats_url,
            "instance": f"reload{time.time_ns()}",
            "http_port": 0,
            "retry_cap_s": 0.2,
        }
    )


@pytest.mark.parametrize("void", [made_anew, promoted, restored])
async def test_old_jobs_fire_while_the_table_is_read_again_and_then_what_differs_is_applied(
    void: Callable[[EmbeddedPostgres], Awaitable[None]], own_postgres: EmbeddedPostgres, settings: Settings
) -> None:
    dsn = own_postgres.dsn
    async with running(settings) as node:
        assert node._generation is not None
        wheel, watermark = node._generation.wheel, "mainspring_watermark_timestamp_seconds"
        await until_metric(node, "mainspring_runs_acknowledged_total", 10)
        await do(dsn, f"alter role {READER} nologin")
        await do(dsn, f"select pg_terminate_backend(pid) from pg_stat_activity where usename = '{READER}'")
        await void(own_postgres)
        await do(dsn, AFTER)
        async with held_up(own_postgres) as waits:
            await do(dsn, f"alter role {READER} login")
            await until(waits)
            blocked = int(time.time())
            await until_metric(node, watermark, blocked + SLOW_S)
            assert await waits()
            assert node.status().ready

        async def all_applied() -> bool:
            return 4 not in wheel and 6 in wheel

        await until(all_applied)
        assert len(wheel) == FLEET - 99 + 4
        assert await metric(node, "mainspring_quarantined_jobs") == 1
        # The log goes on from where the table was read, by whatever numbers.
        await do(dsn, "update mainspring.jobs set every_s = 2 where id = 1")
        await until_metric(node, 'mainspring_changes_applied_total{op="update"}', 1)
        changed = int(time.time())
        await until_metric(node, watermark, changed + 5)
        assert all(not any(wheel.check(shard).values()) for shard in range(256))
    runs = await stored_runs(settings.nats_url, settings.instance.upper())
    assert set(runs.values()) == {1}
    by_job = {job: sorted(instant for id_, instant in runs if id_ == job) for job in range(1, 7)}
    assert all(by_job[job][-1] >= blocked + SLOW_S for job in (2, 4, 5))
    for job, last in {2: by_job[2][-1], 4: by_job[4][-1], 5: by_job[5][-1], 1: changed - 1}.items():
        assert by_job[job][: last + 1 - by_job[job][0]] == list(range(by_job[job][0], last + 1))
    assert {b - a for a, b in zip(by_job[3], by_job[3][1:], strict=False)} == {1, 2}
    assert by_job[6] == list(range(by_job[6][0], by_job[6][-1] + 1))
    assert all(instant % 2 == by_job[1][-1] % 2 for instant in by_job[1] if instant > changed + 1)
