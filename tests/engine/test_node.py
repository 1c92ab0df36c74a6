"""A whole node in this process, between a real Postgres and a real broker."""

import asyncio
import json
import time
from itertools import count

import aiohttp
import asyncpg
import pytest
from running_node import running

from acceptance.stream_reader import stored_runs
from mainspring.changelog_tailer import schema
from mainspring.engine.broker.connections import Broker
from mainspring.engine.config import Settings, load_settings
from mainspring.engine.embedded import EmbeddedNats, EmbeddedPostgres
from mainspring.engine.failover.gaps import Gap
from mainspring.engine.failover.recovery import KEY, RecoveryPointDamaged, read_recovery_point
from mainspring.engine.node import Node
from mainspring.engine.web import PortTaken

INSTANCES = count()


@pytest.fixture
async def settings(database: str, nats_url: str) -> Settings:
    await schema.init(database)
    return load_settings(
        {
            "postgres_dsn": database,
            "nats_url": nats_url,
            "instance": f"node{next(INSTANCES)}",
            "http_port": 0,
            "watchdog_period_s": 0.005,
        }
    )


async def sql(settings: Settings, statement: str) -> int:
    connection = await asyncpg.connect(settings.postgres_dsn)
    try:
        return int(await connection.fetchval(statement) or 0)
    finally:
        await connection.close()


async def get(node: Node, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(node.url + path) as answer:
        return answer.status, await answer.text()


async def metric(node: Node, name: str) -> float:
    _, text = await get(node, "/metrics")
    return float(next(line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith(name + " ")))


async def until_metric(node: Node, name: str, least: float) -> None:
    async with asyncio.timeout(30):
        while await metric(node, name) < least:
            await asyncio.sleep(0.02)


async def test_a_lost_entry_is_rearmed_by_the_watchdog_and_counted(settings: Settings) -> None:
    job_id = await sql(settings, "insert into mainspring.jobs (every_s) values (7) returning id")
    async with running(settings) as node:
        assert node._generation is not None
        node._generation.wheel._inject("dropped", job_id)
        await until_metric(node, 'mainspring_watchdog_rearms_total{fault="dropped"}', 1)
        assert node._generation.wheel.next_due(job_id) is not None
        await until_metric(node, "mainspring_runs_acknowledged_total", 3)
    instants = sorted(
        instant for _, instant in await stored_runs(settings.nats_url, settings.instance.upper())
    )
    assert instants == list(range(instants[0], instants[-1] + 1, 7))


async def test_a_steady_node_rearms_nothing(settings: Settings) -> None:
    await sql(
        settings, "insert into mainspring.jobs (every_s) select 1 + g % 5 from generate_series(1, 500) g"
    )
    async with running(settings) as node:
        await until_metric(node, "mainspring_watchdog_sweeps_total", 256)
        _, text = await get(node, "/metrics")
    rearms = [line for line in text.splitlines() if line.startswith("mainspring_watchdog_rearms_total")]
    assert rearms
    assert all(line.endswith(" 0.0") for line in rearms)


async def test_health_readiness_and_metrics_are_served(settings: Settings) -> None:
    async with running(settings) as node:
        assert await get(node, "/healthz") == (200, "ok\n")
        assert await get(node, "/readyz") == (200, "ready\n")
        status, text = await get(node, "/metrics")
        assert status == 200
    for name in (
        "mainspring_build_info{",
        "mainspring_active 1.0",
        'mainspring_jobs{kind="interval"} 0.0',
        "mainspring_quarantined_jobs 0.0",
        "mainspring_runs_due_total 0.0",
        "mainspring_runs_acknowledged_total 0.0",
        "mainspring_runs_duplicate_total 0.0",
        'mainspring_runs_skipped_total{reason="window"} 0.0',
        "mainspring_dead_letters_total 0.0",
        'mainspring_publish_errors_total{reason="timeout"} 0.0',
        "mainspring_in_flight 0.0",
        "mainspring_lateness_seconds_bucket{",
        "mainspring_tick_duration_seconds_bucket{",
        "mainspring_watermark_timestamp_seconds ",
        'mainspring_changes_applied_total{op="insert"} 0.0',
        "mainspring_change_lag_seconds 0.0",
        "mainspring_watchdog_sweeps_total ",
        'mainspring_watchdog_rearms_total{fault="dropped"} 0.0',
    ):
        assert "\n" + name in "\n" + text


async def test_a_job_that_cannot_be_judged_good_is_quarantined_while_others_fire(settings: Settings) -> None:
    await sql(settings, "insert into mainspring.jobs (cron) values ('99 * * * *')")
    await sql(settings, "insert into mainspring.jobs (cron, tz) values ('* * * * *', 'Mars/Olympus')")
    await sql(settings, "insert into mainspring.jobs (every_s) values (1)")
    async with running(settings) as node:
        await until_metric(node, "mainspring_runs_acknowledged_total", 2)
        assert await metric(node, "mainspring_quarantined_jobs") == 2
        await sql(
            settings, "update mainspring.jobs set cron = '* * * * *', tz = 'UTC' where cron is not null"
        )
        await until_metric(node, 'mainspring_changes_applied_total{op="update"}', 2)
        assert await metric(node, "mainspring_quarantined_jobs") == 0


async def test_the_recovery_point_follows_and_a_restart_goes_on_from_it(settings: Settings) -> None:
    await sql(settings, "insert into mainspring.jobs (every_s) values (1)")
    async with running(settings) as node:
        await until_metric(node, "mainspring_runs_acknowledged_total", 3)
    first = await recovery_watermark(settings)
    await asyncio.sleep(3)
    async with running(settings) as node:
        await until_metric(node, "mainspring_watermark_timestamp_seconds", first + 5)
    instants = sorted(
        instant for _, instant in await stored_runs(settings.nats_url, settings.instance.upper())
    )
    assert instants == list(range(instants[0], instants[-1] + 1))
    assert await recovery_watermark(settings) >= first + 5


async def test_a_first_start_leaves_word_that_nothing_before_it_was_owed_and_no_later_one_does(
    settings: Settings,
) -> None:
    await sql(settings, "insert into mainspring.jobs (every_s) values (1)")
    for _ in range(2):
        async with running(settings) as node:
            await until_metric(node, "mainspring_runs_acknowledged_total", 2)
    first = min(instant for _, instant in await stored_runs(settings.nats_url, settings.instance.upper()))
    assert [gap for gap in await gap_records(settings) if "start" in gap.skipped] == [
        Gap(first - 24 * 3600, first - 1, {"start": None})
    ]


async def gap_records(settings: Settings) -> list[Gap]:
    broker = Broker(settings)
    await broker.connect()
    try:
        bucket = await broker.bucket()
        values = [await bucket.get(name) for name in await bucket.names("gaps.")]
        return [Gap.from_dict(json.loads(value)) for value in values if value is not None]
    finally:
        await broker.aclose()


async def test_what_was_owed_before_a_change_in_the_gap_is_owed_after_the_restart(settings: Settings) -> None:
    job_id = await sql(settings, "insert into mainspring.jobs (every_s) values (1) returning id")
    async with running(settings) as node:
        await until_metric(node, "mainspring_runs_acknowledged_total", 1)
    stopped = await recovery_watermark(settings)
    await asyncio.sleep(3)
    deleted = time.time()
    await sql(settings, f"delete from mainspring.jobs where id = {job_id}")
    await asyncio.sleep(2)
    async with running(settings) as node:
        await until_metric(node, "mainspring_watermark_timestamp_seconds", int(deleted) + 3)
    instants = sorted(
        instant for _, instant in await stored_runs(settings.nats_url, settings.instance.upper())
    )
    assert instants[-1] == int(deleted) > stopped
    assert instants == list(range(instants[0], instants[-1] + 1))


async def test_a_damaged_recovery_point_stops_the_start_by_name(settings: Settings) -> None:
    broker = Broker(settings)
    await broker.connect()
    bucket = await broker.bucket()
    await bucket.put(KEY, b"{}")
    await broker.aclose()
    with pytest.raises(RecoveryPointDamaged, match="delete the key 'recovery'"):
        async with running(settings):
            pass


async def test_a_taken_port_stops_the_start_by_name(settings: Settings) -> None:
    async with running(settings) as node:
        port = int(node.url.rsplit(":", 1)[1])
        other = settings.model_copy(update={"http_port": port})
        with pytest.raises(PortTaken, match=f"{port} cannot be listened on"):
            async with running(other):
                pass


async def test_a_truncated_table_stops_all_runs(settings: Settings) -> None:
    await sql(settings, "insert into mainspring.jobs (every_s) select 1 from generate_series(1, 20)")
    async with running(settings) as node:
        await until_metric(node, "mainspring_runs_acknowledged_total", 20)
        await sql(settings, "truncate mainspring.jobs")
        await until_metric(node, 'mainspring_changes_applied_total{op="truncate"}', 1)
        assert node.status().jobs == 0


async def recovery_watermark(settings: Settings) -> int:
    broker = Broker(settings)
    await broker.connect()
    try:
        point = await read_recovery_point(await broker.bucket())
        assert point is not None
        return point.watermark
    finally:
        await broker.aclose()


async def test_a_start_waits_for_servers_that_come_late(
    own_postgres: EmbeddedPostgres, own_nats: EmbeddedNats
) -> None:
    await schema.init(own_postgres.dsn)
    settings = load_settings(
        {"postgres_dsn": own_postgres.dsn, "nats_url": own_nats.url, "http_port": 0, "retry_cap_s": 0.2}
    )
    await own_postgres.kill()
    await own_nats.kill()
    node = Node(settings)
    starting = asyncio.create_task(node.start())
    done, _ = await asyncio.wait([starting], timeout=1)
    assert not done
    assert (await get(node, "/readyz"))[0] == 503
    await own_nats.start()
    done, _ = await asyncio.wait([starting], timeout=1)
    assert not done
    await own_postgres.start()
    async with asyncio.timeout(30):
        await starting
    assert node.status().ready
    await node.aclose()


async def test_a_log_that_was_made_anew_is_loaded_again_without_a_second_lost(settings: Settings) -> None:
    await sql(settings, "insert into mainspring.jobs (id, every_s) values (1, 1)")
    async with running(settings) as node:
        await until_metric(node, "mainspring_runs_acknowledged_total", 2)
        await sql(settings, "drop schema mainspring cascade")
        await schema.init(settings.postgres_dsn)
        await sql(settings, "insert into mainspring.jobs (id, every_s) values (1, 1), (2, 1)")
        async with asyncio.timeout(30):
            while node.status().jobs != 2:
                await asyncio.sleep(0.02)
        changed = int(time.time())
        await until_metric(node, "mainspring_watermark_timestamp_seconds", changed + 3)
    runs = await stored_runs(settings.nats_url, settings.instance.upper())
    first, other = ([instant for job, instant in sorted(runs) if job == job_id] for job_id in (1, 2))
    assert first == list(range(first[0], first[-1] + 1))
    assert other[-1] == first[-1]
    assert set(runs.values()) == {1}


async def test_a_void_cursor_found_while_the_broker_is_away_loses_no_second(
    own_postgres: EmbeddedPostgres, own_nats: EmbeddedNats
) -> None:
    await schema.init(own_postgres.dsn)
    settings = load_settings(
        {"postgres_dsn": own_postgres.dsn, "nats_url": own_nats.url, "http_port": 0, "max_in_flight": 50}
    )
    fleet = "insert into mainspring.jobs (every_s) select 1 from generate_series(1, 300)"
    await sql(settings, fleet)
    async with running(settings) as node:
        await until_metric(node, "mainspring_runs_acknowledged_total", 600)
        await own_nats.kill()
        await asyncio.sleep(2)
        await sql(settings, "drop schema mainspring cascade")
        await schema.init(settings.postgres_dsn)
        await sql(settings, fleet)
        await asyncio.sleep(2)
        await own_nats.start()
        back = int(time.time())
        await until_metric(node, "mainspring_watermark_timestamp_seconds", back + 3)
    runs = await stored_runs(settings.nats_url, "MAINSPRING")
    assert set(runs.values()) == {1}
    instants = sorted({instant for _, instant in runs})
    assert instants == list(range(instants[0], instants[-1] + 1))
    whole = [instant for instant in instants if instant < back + 3]
    assert all((job_id, instant) in runs for instant in whole[1:] for job_id in range(1, 301))
