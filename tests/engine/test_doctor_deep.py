"""`doctor --deep` finds each job that the wheel holds otherwise than the table, and no other."""

import asyncio
import itertools
import json
import random
from contextlib import suppress
from pathlib import Path

import asyncpg
import numpy as np
import pytest
from command_line import Ended, mainspring
from conftest import execute
from running_node import running
from wheel_rows import Change, batch, every

from mainspring.changelog_tailer import schema
from mainspring.engine.checks.deep_check import compare
from mainspring.engine.checks.findings import Finding
from mainspring.engine.config import Settings, load_settings
from mainspring.engine.embedded import EmbeddedNats, EmbeddedPostgres
from mainspring.engine.node import Node
from mainspring.wheel import OP_DELETE, Wheel, shard_of, shards_of

NUMBERS = itertools.count(1)
JOBS = 3000
EVERY_KIND = f"""
insert into mainspring.jobs (key, every_s, route, payload)
select case n % 3 when 0 then 'job-' || n when 1 then gen_random_uuid()::text end, 30 + n % 50,
       'checks.r' || n % 7, case when n % 2 = 0 then jsonb_build_object('n', n, 'text', 'a"b' || chr(9)) end
from generate_series(1, {JOBS}) as n;
insert into mainspring.jobs (cron, tz, jitter_s) values
    ('H H * * *', 'Europe/Berlin', null), ('0 4 * * *', 'Asia/Tokyo', 0), ('*/5 * * * * *', 'UTC', null);
insert into mainspring.jobs (run_at) values
    (now() + interval '1 day'), (now() - interval '1 day'), ('2300-01-01Z');
insert into mainspring.jobs
    (every_s, phase_s, starts_at, ends_at, catch_up, enabled, boost_every_s, boost_until)
values (60, 7, now(), now() + interval '1 hour', 'none', false, null, null),
       (60, null, null, null, 'latest', true, 5, now() + interval '1 minute');
insert into mainspring.jobs (id, every_s, payload) overriding system value
values (-5, 60, to_jsonb(repeat('x', 5000)));
insert into mainspring.jobs (cron) values ('61 * * * *');
"""
GOOD = JOBS + 3 + 3 + 2 + 1


@pytest.fixture
async def settings(database: str, own_nats: EmbeddedNats) -> Settings:
    """With a NATS of its own: `doctor` would tell other tests of the recovery points that these leave."""
    await schema.init(database)
    return for_node(database, own_nats.url)


def for_node(dsn: str, nats_url: str) -> Settings:
    instance = f"deep{next(NUMBERS)}"
    return load_settings(
        {"postgres_dsn": dsn, "nats_url": nats_url, "instance": instance, "http_port": 0, "retry_cap_s": 0.5}
    )


def wheel_of(node: Node) -> Wheel:
    assert node._generation is not None
    return node._generation.wheel


async def equal(settings: Settings, node: Node) -> Finding:
    finding = await compare(settings, node.url)
    assert finding.good, finding.says
    return finding


async def has_read(node: Node, jobs: int) -> None:
    """Wait until the node has so many jobs, as it will once it has read the log."""
    async with asyncio.timeout(60):
        while len(wheel_of(node)) != jobs:
            await asyncio.sleep(0.02)


async def test_jobs_of_every_kind_are_the_same_loaded_and_tailed(settings: Settings) -> None:
    await execute(settings.postgres_dsn, EVERY_KIND)
    async with running(settings) as node:
        assert (await equal(settings, node)).says.startswith(f"{GOOD:,} jobs, the same in each of 256 shards")
        await execute(settings.postgres_dsn, "delete from mainspring.jobs where id = -5")
        await execute(settings.postgres_dsn, EVERY_KIND.replace("job-", "again-"))
        await has_read(node, 2 * GOOD - 1)
        assert f"{2 * GOOD - 1:,} jobs" in (await equal(settings, node)).says


async def test_nothing_differs_while_writers_go_on(settings: Settings) -> None:
    await execute(settings.postgres_dsn, EVERY_KIND)
    async with running(settings) as node:
        writers = [asyncio.create_task(write_on(settings.postgres_dsn, seed)) for seed in range(4)]
        for _ in range(5):
            await equal(settings, node)
        for writer in writers:
            writer.cancel()
        await asyncio.wait(writers)


async def write_on(dsn: str, seed: int) -> None:
    draw = random.Random(seed)
    connection = await asyncpg.connect(dsn)
    with suppress(asyncio.CancelledError):
        while True:
            first = draw.randint(1, JOBS)
            statement = draw.choice(
                [
                    f"update mainspring.jobs set every_s = every_s + 1 where id - {first} between 0 and 9",
                    f"delete from mainspring.jobs where id = {first}",
                    f"insert into mainspring.jobs (every_s) values ({first})",
                ]
            )
            await connection.execute(statement)
    connection.terminate()


async def test_each_difference_is_named_by_shard_and_id_and_no_other_job_is(settings: Settings) -> None:
    await execute(settings.postgres_dsn, EVERY_KIND)
    async with running(settings) as node:
        wheel = wheel_of(node)
        lost, strange, changed = 17, 10**9, 18
        changes = [
            Change(every(lost, 60), OP_DELETE),
            Change(every(strange, 60)),
            Change(every(changed, 999)),
        ]
        wheel.apply(*batch(wheel, changes))
        finding = await compare(settings, node.url)
        assert not finding.good
        assert f"{len({shard_of(job) for job in (lost, strange, changed)})} shards differ" in finding.says
        for told in (
            f"shard {shard_of(lost)}: 1 missing ({lost})",
            f"shard {shard_of(strange)}: 1 not in the table ({strange})",
            f"shard {shard_of(changed)}: 1 with another definition ({changed})",
        ):
            assert told in finding.says
        assert finding.says.count("1 ") >= 3
        assert finding.mend

        # A difference in a job that is being changed cannot be named, and is still told.
        await execute(settings.postgres_dsn, f"update mainspring.jobs set every_s = 77 where id = {changed}")
        await execute(settings.postgres_dsn, f"delete from mainspring.jobs where id = {lost}")
        async with asyncio.timeout(30):
            while f"({changed})" in (says := (await compare(settings, node.url)).says):
                await asyncio.sleep(0.1)
        assert f"1 not in the table ({strange})" in says


async def test_the_command_exits_with_3_on_a_difference_and_0_without(settings: Settings) -> None:
    await execute(settings.postgres_dsn, "insert into mainspring.jobs (id, every_s) values (5, 60), (6, 60)")
    async with running(settings) as node:
        await asyncio.sleep(1.5)  # a second is drained, so there is a stream to judge
        ended = await asyncio.to_thread(deep, settings, node.url)
        assert ended.status == 0, ended.out + ended.err
        assert "2 jobs, the same" in json.loads(ended.out)[-1]["says"]
        wheel_of(node).apply(*batch(wheel_of(node), [Change(every(5, 61))]))
        ended = await asyncio.to_thread(deep, settings, node.url)
        assert ended.status == 3
        assert "another definition (5)" in json.loads(ended.out)[-1]["says"]


async def test_a_node_that_is_away_is_told_with_the_mend(settings: Settings) -> None:
    ended = await asyncio.to_thread(deep, settings, "http://127.0.0.1:1")
    assert ended.status == 3
    finding = json.loads(ended.out)[-1]
    assert "no node answers at http://127.0.0.1:1/api/digest" in finding["says"]
    assert "--node" in finding["mend"]


def deep(settings: Settings, node: str) -> Ended:
    dsn, nats = settings.postgres_dsn, settings.nats_url
    more = ("--instance", settings.instance, "--deep", "--node", node, "--json")
    return mainspring("doctor", "--postgres-dsn", dsn, "--nats-url", nats, *more)


async def test_it_holds_after_truncate_and_after_updates_that_change_nothing(settings: Settings) -> None:
    await execute(settings.postgres_dsn, EVERY_KIND)
    async with running(settings) as node:
        before = await rows_of_log(settings)
        await execute(
            settings.postgres_dsn, "update mainspring.jobs set every_s = every_s, payload = payload"
        )
        assert await rows_of_log(settings) == before
        await equal(settings, node)
        await execute(settings.postgres_dsn, "truncate mainspring.jobs")
        await has_read(node, 0)
        assert "0 jobs" in (await equal(settings, node)).says
        await execute(settings.postgres_dsn, EVERY_KIND)
        await has_read(node, GOOD)
        await equal(settings, node)


async def rows_of_log(settings: Settings) -> int:
    connection = await asyncpg.connect(settings.postgres_dsn)
    try:
        return int(await connection.fetchval("select count(*) from mainspring.job_changes"))
    finally:
        await connection.close()


async def test_it_holds_with_a_thousand_transactions_open(
    own_nats: EmbeddedNats, server_folder: Path
) -> None:
    """Most are prepared ones: open to every snapshot without a session. Those that write jobs are not."""
    server = EmbeddedPostgres(server_folder, settings={"max_prepared_transactions": "1000"})
    await server.start()
    try:
        await schema.init(server.dsn)
        await execute(server.dsn, "create table elsewhere (n int)")
        await execute(
            server.dsn, "insert into mainspring.jobs (every_s) select 60 from generate_series(1, 100)"
        )
        settings = for_node(server.dsn, own_nats.url)
        connection = await asyncpg.connect(server.dsn)
        await prepare(connection, range(500))
        sessions = [await writing_session(server.dsn) for _ in range(20)]
        async with running(settings) as node:
            await prepare(connection, range(500, 960))
            sessions += [await writing_session(server.dsn) for _ in range(20)]
            await execute(server.dsn, "insert into mainspring.jobs (every_s) values (60)")
            await has_read(node, 101)
            await equal(settings, node)
            for number, session in enumerate(sessions):
                await session.execute("commit" if number % 2 else "rollback")
                await session.close()
            await has_read(node, 101 + 20)
            await equal(settings, node)
        await connection.close()
    finally:
        await server.stop()


async def prepare(connection: asyncpg.Connection, numbers: range) -> None:
    for number in numbers:
        await connection.execute(
            f"begin; insert into elsewhere values ({number}); prepare transaction 'open-{number}'"
        )


async def writing_session(dsn: str) -> asyncpg.Connection:
    """In a transaction that has added a job."""
    connection = await asyncpg.connect(dsn)
    await connection.execute("begin; insert into mainspring.jobs (every_s) values (60)")
    return connection


async def test_a_long_change_is_compared_at_its_ends_and_never_amid(settings: Settings) -> None:
    """A transaction of many pages is applied bit by bit; what the node tells is before it or after it."""
    async with running(settings) as node:
        await execute(
            settings.postgres_dsn,
            "insert into mainspring.jobs (every_s) select 60 from generate_series(1, 60000)",
        )
        counts = set()
        async with asyncio.timeout(60):
            while 60_000 not in counts:
                says = (await equal(settings, node)).says
                counts.add(int(says.split()[0].replace(",", "")))
        assert counts <= {0, 60_000}


def test_shards_of_many_are_those_of_each() -> None:
    ids = np.array([0, 1, -1, 42, 2**63 - 1, -(2**63)])
    assert shards_of(ids).tolist() == [shard_of(int(job_id)) for job_id in ids]
