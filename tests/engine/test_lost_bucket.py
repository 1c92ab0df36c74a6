"""The KV bucket vanishes under running nodes: it is made again, once, and nothing else is lost with it."""

import asyncio
import logging
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Any

import asyncpg
import nats as nats_client
import pytest
from running_node import running

from acceptance.stream_reader import stored_runs
from mainspring.changelog_tailer import Cursor, schema
from mainspring.engine.broker.bucket import Bucket
from mainspring.engine.broker.connections import Broker
from mainspring.engine.clock import SystemClock
from mainspring.engine.config import Settings, load_settings
from mainspring.engine.embedded import EmbeddedNats
from mainspring.engine.failover.lease import Lease, Seen
from mainspring.engine.failover.recovery import RecoveryWriter, read_recovery_point
from mainspring.engine.node import Node
from mainspring.engine.publishing.settlement import Settlement

INSTANCES = count()


def settings_for(url: str, **more: object) -> Settings:
    return load_settings({"nats_url": url, "instance": f"lost{next(INSTANCES)}", "http_port": 0} | more)


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Bucket]:
    broker = Broker(settings)
    await broker.connect()
    yield await broker.bucket()
    await broker.aclose()


@asynccontextmanager
async def lease_on(settings: Settings) -> AsyncIterator[Lease]:
    lease = Lease(Broker(settings).options("lease"), bucket=settings.instance, clock=SystemClock())
    lease.start()
    lease.want()
    try:
        yield lease
    finally:
        await lease.aclose()


async def until(condition: Callable[[], object], *, meanwhile: Callable[[], object] = lambda: None) -> None:
    async with asyncio.timeout(30):
        while not condition():
            meanwhile()
            await asyncio.sleep(0.001)


async def delete_bucket(settings: Settings) -> None:
    client = await nats_client.connect(settings.nats_url)
    await client.jetstream().delete_key_value(settings.instance)
    await client.close()


async def until_followed(settings: Settings, watermark: int) -> None:
    """The recovery point is there, and moves."""
    client = await nats_client.connect(settings.nats_url)
    bucket = Bucket(client.jetstream(), settings.instance)
    async with asyncio.timeout(30):
        while (point := await read_recovery_point(bucket)) is None or point.watermark < watermark:
            await asyncio.sleep(0.05)
    await client.close()


def told(caplog: pytest.LogCaptureFixture, text: str) -> int:
    return sum(text in record.getMessage() for record in caplog.records)


def another(lease: Lease, before: Seen | None) -> bool:
    return lease.seen not in (None, before)


async def test_many_that_make_the_bucket_at_once_make_one(nats_url: str) -> None:
    settings = settings_for(nats_url)
    clients = [await nats_client.connect(nats_url) for _ in range(8)]
    buckets = [Bucket(client.jetstream(), settings.instance) for client in clients]
    made = await asyncio.gather(*(bucket.ensure() for bucket in buckets))
    assert sum(made) == 1
    await buckets[0].put("key", b"value")
    assert [await bucket.get("key") for bucket in buckets] == [b"value"] * 8
    for client in clients:
        await client.close()


async def test_a_value_is_written_and_vanishes_in_a_bucket_that_was_made_again(nats_url: str) -> None:
    settings = settings_for(nats_url)
    async with opened(settings) as bucket:
        await delete_bucket(settings)
        assert await bucket.get("key") is None
        assert await bucket.names() == []
        await bucket.put("key", b"value", 1)
        assert await bucket.get("key") == b"value"
        async with asyncio.timeout(10):
            while await bucket.get("key") is not None:
                await asyncio.sleep(0.05)


async def test_a_recovery_point_that_has_not_moved_is_written_again(nats_url: str) -> None:
    settings = settings_for(nats_url)
    async with opened(settings) as bucket:
        writer = RecoveryWriter(bucket, Settlement(100, Cursor(1, 1, "1:1:")))
        assert await writer.run_once()
        await delete_bucket(settings)
        assert await read_recovery_point(bucket) is None
        assert await writer.run_once()
        point = await read_recovery_point(bucket)
        assert point is not None
        assert point.watermark == 100


@asynccontextmanager
async def holder_and_other(settings: Settings) -> AsyncIterator[tuple[Lease, Lease]]:
    """Two that want the lease; the first one has it, and the other knows."""
    async with opened(settings), lease_on(settings) as one:
        await until(lambda: one.held)
        async with lease_on(settings) as other:
            await until(lambda: other.other == one.name)
            yield one, other


async def test_the_holder_keeps_the_lease_and_the_other_sees_it_still(
    nats_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_for(nats_url)
    async with holder_and_other(settings) as (one, other):
        for _ in range(3):
            before = one.seen
            await delete_bucket(settings)
            await until(partial(another, one, before))
            await until(lambda: other.other == one.name)
        assert (one.term, one.held, other.held) == (1, True, False)
        assert told(caplog, f"{settings.instance} was gone and has been made again") == 3
        assert told(caplog, "NATS connection (lease) lost") == 0


async def test_nobody_takes_it_in_a_new_bucket_while_the_holder_in_the_old_one_may_still_have_it(
    nats_url: str,
) -> None:
    """The holder's renewals are kept from the broker, so it does not see that the bucket is another."""
    settings = settings_for(nats_url)
    async with holder_and_other(settings) as (one, other):
        both: list[bool] = []
        await delete_bucket(settings)
        one._work = _sent_nowhere  # type: ignore[method-assign,assignment]
        await until(lambda: other.held, meanwhile=lambda: both.append(one.held and other.held))
        assert not any(both)
        assert not one.held


async def _sent_nowhere(_client: object) -> None:
    raise TimeoutError


async def test_a_holder_that_slept_takes_nothing_by_a_number_that_fits_in_a_new_bucket(nats_url: str) -> None:
    """Numbers begin anew in a new bucket, so one of the old may be the present one by chance."""
    settings = settings_for(nats_url)
    async with opened(settings) as bucket, lease_on(settings) as one:
        await until(lambda: one.held)
        awake, one._work = one._work, _sent_nowhere  # type: ignore[method-assign,assignment]
        await until(lambda: not one.held)
        one._holding = True  # as after a sleep amid which the lease lapsed
        await bucket.put("lease", b'{"holder": "other"}')
        last = await bucket.last("lease")
        assert last is not None
        one._revision = last.seq or 0
        one._work = awake  # type: ignore[method-assign]
        await until(lambda: one.other == "other")
        assert await bucket.get("lease") == b'{"holder": "other"}'


@pytest.fixture
async def settings(database: str, own_nats: EmbeddedNats) -> Settings:
    await schema.init(database)
    connection = await asyncpg.connect(database)
    await connection.execute("insert into mainspring.jobs (every_s) values (1)")
    await connection.close()
    return settings_for(own_nats.url, postgres_dsn=database, retry_cap_s=0.5)


async def until_stored(settings: Settings, first: int, last: int) -> None:
    """A run of each of these seconds is in the stream, once."""
    owed = list(range(first, last + 1))
    found: list[int] = []
    async with asyncio.timeout(30):
        while [instant for instant in found if first <= instant <= last] != owed:
            await asyncio.sleep(0.2)
            runs = await stored_runs(settings.nats_url, settings.instance.upper())
            found = sorted(instant for _, instant in runs)


async def until_ready(*nodes: Node) -> None:
    await until(lambda: all(node.status().ready for node in nodes))


Lose = Callable[[Settings, EmbeddedNats], Awaitable[Any]]


async def by_hand(settings: Settings, _server: EmbeddedNats) -> None:
    await delete_bucket(settings)


async def with_the_store(_settings: Settings, server: EmbeddedNats) -> None:
    await server.kill()
    shutil.rmtree(server.store)
    await server.start()


@pytest.mark.parametrize("lose", [by_hand, with_the_store])
async def test_the_node_goes_on_firing_and_the_standby_following(
    settings: Settings, own_nats: EmbeddedNats, lose: Lose, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running(settings) as one:
        await until(lambda: one.status().active)
        await until(lambda: one.status().acknowledged >= 2)
        async with running(settings) as other:
            lost_at = int(time.time())
            await lose(settings, own_nats)
            await until(lambda: one.status().active or other.status().active)
            await until_ready(one, other)
            back_at = int(time.time())
            assert back_at - lost_at < 20
            await until_followed(settings, back_at + 2)
            first = (
                lost_at if lose is by_hand else back_at + 1
            )  # that second's run may have gone with the store
            await until_stored(settings, first, back_at + 2)
            await until(lambda: all((node.status().watermark or 0) >= back_at + 2 for node in (one, other)))
            assert one.status().active != other.status().active
    assert told(caplog, f"{settings.instance} was gone and has been made again") == 1


@pytest.mark.parametrize("lose", [by_hand, with_the_store])
async def test_the_standby_takes_over_after_the_bucket_was_lost(
    settings: Settings, own_nats: EmbeddedNats, lose: Lose
) -> None:
    async with running(settings) as other:
        async with running(settings) as one:
            await until(lambda: one.status().active or other.status().active)
            await lose(settings, own_nats)
            await until_ready(one, other)
            await until_followed(settings, int(time.time()) + 1)
        ended_at = int(time.time())
        await until(lambda: other.status().active)
        await until_stored(settings, ended_at, ended_at + 3)
