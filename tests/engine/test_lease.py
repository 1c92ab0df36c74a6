"""The lease on a real broker: one holder at a time, who knows before anybody else that it is one no more."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count

import nats as nats_client
import pytest
from publisher_bench import bench_on

from mainspring.engine.broker.connections import Broker
from mainspring.engine.clock import SystemClock
from mainspring.engine.config import Settings, load_settings
from mainspring.engine.embedded import EmbeddedNats
from mainspring.engine.failover.lease import KEY, Lease

INSTANCES = count()


def settings_for(url: str) -> Settings:
    return load_settings({"nats_url": url, "instance": f"lease{next(INSTANCES)}"})


@asynccontextmanager
async def lease_on(settings: Settings) -> AsyncIterator[Lease]:
    """A lease that is wanted, on a bucket that is there."""
    broker = Broker(settings)
    await broker.connect()
    await broker.bucket()
    lease = Lease(broker.options("lease"), bucket=settings.instance, clock=SystemClock())
    lease.start()
    lease.want()
    try:
        await lease.looked()
        yield lease
    finally:
        await lease.aclose()
        await broker.aclose()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_the_first_to_ask_has_it_and_the_second_sees_who(nats_url: str) -> None:
    settings = settings_for(nats_url)
    async with lease_on(settings) as one:
        await until(lambda: one.held)
        async with lease_on(settings) as other:
            await other.looked()
            assert (other.held, other.other) == (False, one.name)
            assert (one.term, one.other) == (1, "")


async def test_it_is_renewed_without_a_break_for_longer_than_it_lasts(nats_url: str) -> None:
    async with lease_on(settings_for(nats_url)) as lease:
        await until(lambda: lease.held)
        first = lease.seen
        await until(lambda: lease.seen.revision >= first.revision + 10)  # type: ignore[union-attr]
        assert lease.holds(1)


async def test_who_gives_it_up_hands_it_over_and_leaves_nothing_behind(nats_url: str) -> None:
    settings = settings_for(nats_url)
    async with lease_on(settings) as one, lease_on(settings) as other:
        await until(lambda: one.held)
        await one.aclose()
        assert not one.holds(1)
        await until(lambda: other.held)
    client = await nats_client.connect(nats_url)
    bucket = await client.jetstream().key_value(settings.instance)
    async with asyncio.timeout(20):
        while (await bucket.status()).values:
            await asyncio.sleep(0.05)
    await client.close()


async def test_it_has_lapsed_for_its_holder_before_another_has_it(nats_url: str) -> None:
    """The holder's renewals are kept from the broker; the other takes over once the broker has forgotten."""
    settings = settings_for(nats_url)
    async with lease_on(settings) as one, lease_on(settings) as other:
        await until(lambda: one.held)
        both = 0
        one._write = _sent_nowhere  # type: ignore[method-assign,assignment]
        async with asyncio.timeout(20):
            while not other.held:
                await asyncio.sleep(0.001)
                both += one.held and other.held
        assert both == 0
        assert not one.held
        assert one.name != other.name


async def _sent_nowhere(_jetstream: object) -> None:
    raise TimeoutError


async def test_after_a_broker_that_stood_still_it_is_held_again_as_another_term(
    own_nats: EmbeddedNats,
) -> None:
    async with lease_on(settings_for(own_nats.url)) as lease:
        await until(lambda: lease.held)
        own_nats.freeze()
        await until(lambda: not lease.held)
        own_nats.thaw()
        await until(lambda: lease.held)
        assert lease.term > 1
        assert not lease.holds(1)


async def test_a_value_that_is_none_of_ours_is_somebody_elses(nats_url: str) -> None:
    settings = settings_for(nats_url)
    client = await nats_client.connect(nats_url)
    bucket = await client.jetstream().create_key_value(bucket=settings.instance)
    await bucket.put(KEY, b"mine!")
    async with lease_on(settings) as lease:
        await lease.looked()
        assert "mine!" in lease.other
        await bucket.delete(KEY)
        await until(lambda: lease.held)
    await client.close()


async def test_it_is_kept_while_the_loop_is_busy_without_end(nats_url: str) -> None:
    async with lease_on(settings_for(nats_url)) as lease:
        await until(lambda: lease.held)
        giving_way = asyncio.create_task(lease.give_way())
        end = time.monotonic() + 3
        while time.monotonic() < end:
            await asyncio.sleep(0)
            sum(range(2000))
        assert lease.holds(1)
        giving_way.cancel()


async def test_it_is_kept_while_the_loop_does_not_turn(nats_url: str) -> None:
    async with lease_on(settings_for(nats_url)) as lease:
        await until(lambda: lease.held)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            sum(range(1_000_000))
        assert lease.holds(1)


class Switch:
    """A permission that a test gives and takes."""

    term = 1
    given = True

    def holds(self, term: int) -> bool:
        return self.given and term == self.term


async def test_what_is_written_and_not_yet_sent_when_the_lease_ends_is_never_sent(
    own_nats: EmbeddedNats,
) -> None:
    """The broker stands still, so the socket holds frames; once it goes on the permission is another's."""
    bench = await bench_on(own_nats.url, jobs=20_000, max_in_flight=100_000)
    switch = Switch()
    bench.broker.publish_under(switch)
    await bench.broker.reconnect()
    await until(lambda: bench.broker.connected)
    own_nats.freeze()
    publishing = asyncio.create_task(bench.publish_second())
    await until(lambda: not bench.broker.has_room)
    switch.given = False
    own_nats.thaw()
    await asyncio.sleep(1)
    sent = await bench.stored()
    assert sent < 20_000
    switch.term, switch.given = 2, True
    await asyncio.sleep(0.2)
    bench.publisher.resend_all()
    await bench.all_settled(20_000)
    await publishing
    assert await bench.stored() == 20_000
    await bench.broker.aclose()


async def test_a_publisher_that_may_not_send_sends_nothing_and_all_of_it_later(nats_url: str) -> None:
    bench = await bench_on(nats_url)
    switch = Switch()
    switch.given = False
    bench.broker.publish_under(switch)
    await bench.broker.reconnect()
    await until(lambda: bench.broker.connected)
    await bench.publish_second()
    await bench.publisher.run_once()
    assert await bench.stored() == 0
    switch.given = True
    bench.publisher.resend_all()
    await bench.all_settled(50)
    assert await bench.stored() == 50
    await bench.broker.aclose()


@pytest.mark.parametrize(("upto", "dropped"), [(0, 0), (1, 50), (2, 100)])
async def test_a_publisher_that_is_muted_drops_what_another_has_settled_and_keeps_the_rest(
    nats_url: str, upto: int, dropped: int
) -> None:
    bench = await bench_on(nats_url)
    bench.publisher.mute(bench.start)
    for _ in range(2):
        await bench.publish_second()
    bench.publisher.mute(bench.start + upto)
    assert bench.settled.total() == dropped
    assert await bench.stored() == 0
    bench.publisher.unmute()
    await bench.all_settled(100)
    assert await bench.stored() == 100 - dropped
    await bench.broker.aclose()
