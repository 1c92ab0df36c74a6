"""What breaks in production, done to real servers and a real node: nothing is lost, nothing doubled."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import nats as nats_client
import pytest

from acceptance.node_process import running_node
from acceptance.oracle import judge
from acceptance.sql_writer import SqlWriter
from acceptance.stream_reader import stored_runs
from mainspring.changelog_tailer import schema
from mainspring.engine.embedded import EmbeddedNats, EmbeddedPostgres
from mainspring.loadtest.node_process import NodeProcess
from mainspring.loadtest.tcp_proxy import proxied

INTERVALS = [2, 3, 5, 7, 10, 15, 30, 60]
JOBS = 800
SLACK_S = 5.0
# By default the longest pause between two attempts to reach Postgres: so late may a change be seen after it.
RETRY_CAP_S = 30

pytestmark = pytest.mark.slow


@pytest.fixture
async def writer(database: str) -> AsyncIterator[SqlWriter]:
    """A fleet of interval jobs, with its history."""
    async for written in fleet(database):
        yield written


async def fleet(dsn: str) -> AsyncIterator[SqlWriter]:
    await schema.init(dsn)
    connection = await asyncpg.connect(dsn)
    writer = SqlWriter(connection, seed=5)
    await writer.insert([INTERVALS[n % len(INTERVALS)] for n in range(JOBS)])
    yield writer
    await connection.close()


async def settled(node: NodeProcess, second: int, timeout_s: float = 60) -> None:
    await node.until_metric("mainspring_watermark_timestamp_seconds", second, timeout_s)


async def assert_exact(
    writer: SqlWriter, nats_url: str, stream: str, start: int, stop: int, *, slack_s: float = SLACK_S
) -> None:
    verdict = judge(writer.histories, await stored_runs(nats_url, stream), start, stop, slack_s=slack_s)
    assert verdict.owed > 0
    assert verdict.clean, str(verdict)


async def test_firing_goes_on_while_postgres_is_dead_and_later_edits_are_applied(
    own_postgres: EmbeddedPostgres, nats_url: str, server_folder: Path
) -> None:
    async for writer in fleet(own_postgres.dsn):
        async with running_node(server_folder, own_postgres.dsn, nats_url, instance="pgkill") as node:
            start = int(time.time()) + 2
            await asyncio.sleep(3)
            await own_postgres.kill()
            await asyncio.sleep(30)
            await settled(node, int(time.time()) - 3)
            await own_postgres.start()
            again = SqlWriter(await asyncpg.connect(own_postgres.dsn), seed=6)
            again.histories = writer.histories
            for _ in range(50):
                await again.random_change()
            stop = int(time.time()) + RETRY_CAP_S + 15
            await settled(node, stop, timeout_s=90)
        await assert_exact(again, nats_url, "PGKILL", start, stop, slack_s=RETRY_CAP_S + SLACK_S)
        await again._connection.close()


async def test_every_run_of_a_dead_broker_is_stored_once_after_its_restart(
    writer: SqlWriter, database: str, own_nats: EmbeddedNats, server_folder: Path
) -> None:
    async with running_node(server_folder, database, own_nats.url, instance="natskill") as node:
        start = int(time.time()) + 2
        await asyncio.sleep(4)
        await own_nats.kill()
        await asyncio.sleep(10)
        await own_nats.start()
        stop = int(time.time()) + 5
        await settled(node, stop)
        assert await node.metric("mainspring_runs_acknowledged_total") > 0
    await assert_exact(writer, own_nats.url, "NATSKILL", start, stop)


async def test_a_node_that_was_stopped_for_twenty_seconds_works_through_them_in_order(
    writer: SqlWriter, database: str, nats_url: str, server_folder: Path
) -> None:
    async with running_node(server_folder, database, nats_url, instance="frozen") as node:
        start = int(time.time()) + 2
        await asyncio.sleep(4)
        node.freeze()
        await asyncio.sleep(20)
        node.thaw()
        stop = int(time.time()) + 3
        await settled(node, stop)
    await assert_exact(writer, nats_url, "FROZEN", start, stop)
    seconds = await stored_order(nats_url, "FROZEN")
    assert seconds == sorted(seconds)


async def test_a_node_that_stood_still_while_it_waited_for_postgres_reads_what_changed_meanwhile(
    writer: SqlWriter, database: str, nats_url: str, server_folder: Path
) -> None:
    """Once it goes on, the time for the answer is over, and the answer is there: Postgres was never away."""
    port = urlsplit(database).port
    assert port is not None
    async with proxied(port) as proxy:
        dsn = database.replace(f":{port}/", f":{proxy.port}/")
        async with running_node(server_folder, dsn, nats_url, instance="asking") as node:
            start = int(time.time()) + 2
            await asyncio.sleep(4)
            proxy.freeze()
            await asyncio.sleep(1.5)  # it has asked by now
            node.freeze()
            proxy.thaw()
            for _ in range(60):
                await writer.random_change()
            await asyncio.sleep(14)
            node.thaw()
            stop = int(time.time()) + 3
            await settled(node, stop)
            assert "Postgres does not answer in time" in node.log.read_text()
    await assert_exact(writer, nats_url, "ASKING", start, stop)


async def test_two_nodes_without_a_lease_store_no_run_twice(
    writer: SqlWriter, database: str, nats_url: str, server_folder: Path
) -> None:
    async with (
        running_node(server_folder, database, nats_url, "--no-lease", instance="twice") as one,
        running_node(server_folder, database, nats_url, "--no-lease", instance="twice") as other,
    ):
        start = int(time.time()) + 2
        await asyncio.sleep(60)
        stop = int(time.time())
        await settled(one, stop)
        await settled(other, stop)
        duplicates = [await node.metric("mainspring_runs_duplicate_total") for node in (one, other)]
    assert sum(duplicates) > 0, "the two never met: the test proved nothing"
    await assert_exact(writer, nats_url, "TWICE", start, stop)


async def test_a_killed_node_is_replaced_without_a_run_lost_or_doubled(
    writer: SqlWriter, database: str, nats_url: str, server_folder: Path
) -> None:
    async with running_node(server_folder, database, nats_url, instance="killed") as node:
        start = int(time.time()) + 2
        await asyncio.sleep(5)
        await node.kill()
    for _ in range(40):
        await writer.random_change()
        await asyncio.sleep(0.2)
    async with running_node(server_folder, database, nats_url, instance="killed") as node:
        stop = int(time.time()) + 5
        await settled(node, stop)
    await assert_exact(writer, nats_url, "KILLED", start, stop)


async def stored_order(nats_url: str, stream: str) -> list[int]:
    """The scheduled instants in the order in which the stream holds them."""
    client = await nats_client.connect(nats_url)
    try:
        jetstream = client.jetstream()
        total = (await jetstream.stream_info(stream)).state.messages
        subscription = await jetstream.subscribe("", stream=stream, ordered_consumer=True)
        events = [json.loads((await subscription.next_msg(timeout=10)).data) for _ in range(total)]
        return [int(event["id"].split("@")[1]) for event in events]
    finally:
        await client.close()
