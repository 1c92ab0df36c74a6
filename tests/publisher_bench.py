"""A publisher on a broker, with a wheel that has runs for it each second."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

import nats as nats_client
import numpy as np
from numpy.typing import NDArray

from mainspring.engine.broker.connections import Broker
from mainspring.engine.clock import SystemClock
from mainspring.engine.config import Settings, load_settings
from mainspring.engine.metrics import Metrics
from mainspring.engine.publishing.publisher import Publisher
from mainspring.wheel import CATCH_UP_NONE, DEFINITION, KIND_INTERVAL, NEVER, OP_LOAD, Frames, Wheel

INSTANCES = count()


@dataclass
class Bench:
    """A publisher on a stream of its own, and a wheel whose every job is due each second."""

    broker: Broker
    publisher: Publisher
    metrics: Metrics
    settings: Settings
    start: int
    wheel: Wheel
    settled: Counter[int] = field(default_factory=Counter)
    dead: list[str] = field(default_factory=list)

    async def publish_second(self) -> int:
        """Drain the next second into the publisher; gives how many runs it had."""
        second, runs, complete = self.wheel.now + 1, 0, False
        while not complete:
            frames = Frames()
            frames.reset(self.publisher.next_number())
            complete = self.wheel.drain(second, second, frames)
            runs += len(frames)
            await self.publisher.submit(frames)
        return runs

    async def all_settled(self, runs: int, timeout_s: float = 30) -> None:
        """Wait until so many runs are settled, with the resending loop at work."""
        async with asyncio.timeout(timeout_s):
            while self.settled.total() < runs:
                await self.publisher.run_once()
                await asyncio.sleep(0.02)

    async def stored(self) -> int:
        """Messages in the stream."""
        client = await nats_client.connect(self.settings.nats_url)
        info = await client.jetstream().stream_info(self.broker.stream.name)
        await client.close()
        return info.state.messages


class LateClock(SystemClock):
    """Wall time as it will be so many seconds from now."""

    def __init__(self, late_s: float) -> None:
        self._late_s = late_s

    def now(self) -> float:
        return super().now() + self._late_s


async def bench_on(
    url: str,
    *,
    jobs: int = 50,
    reach_s: float = 100,
    max_in_flight: int = 16_384,
    deaf: bool = False,
    beside: Bench | None = None,
    late_s: float = 0,
    flags: Mapping[str, object] | None = None,
) -> Bench:
    """A bench on a new instance, or on that of `beside` and from the same second on.

    flags: more settings, of whatever keys.
    """
    instance = beside.settings.instance if beside else f"publisher{next(INSTANCES)}"
    start = beside.start if beside else int(SystemClock().now())
    settings = load_settings({"nats_url": url, "instance": instance} | dict(flags or {}))
    broker = Broker(settings)
    await broker.connect()
    await broker.ensure_stream()
    settled: Counter[int] = Counter()
    metrics = Metrics()

    def on_settled(second: int, runs: int) -> None:
        settled[second] += runs

    dead: list[str] = []

    def on_dead(second: int, run: str, _reason: str) -> None:
        dead.append(run)
        on_settled(second, 1)

    publisher = Publisher(
        broker,
        metrics,
        LateClock(late_s),
        max_in_flight=max_in_flight,
        reach_s=reach_s,
        on_settled=on_settled,
        on_dead=on_dead,
    )
    if not deaf:
        await publisher.start()
    wheel = Wheel(start, instance=settings.instance, reply_prefix=broker.inbox)
    wheel.apply(every_second(wheel, jobs), b"")
    return Bench(broker, publisher, metrics, settings, start, wheel, settled, dead)


def every_second(wheel: Wheel, jobs: int, route: str = "test.fast") -> NDArray[np.void]:
    """Jobs with ids from 1 that are due each second and catch up nothing."""
    rows = np.zeros(jobs, dtype=DEFINITION)
    rows["id"] = np.arange(1, jobs + 1)
    rows["every_s"] = 1
    rows["kind"] = KIND_INTERVAL
    rows["op"] = OP_LOAD
    rows["enabled"] = 1
    rows["catch_up"] = CATCH_UP_NONE
    rows["route"] = wheel.route(route)
    rows["run_at"] = rows["ends_at"] = NEVER
    rows["starts_at"] = rows["boost_until"] = -(2**63)
    rows["phase_s"] = rows["jitter_s"] = -1
    return rows
