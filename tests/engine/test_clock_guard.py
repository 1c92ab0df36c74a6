"""A wall clock that steps: no run early, none twice, no silence afterwards, on real servers."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count

import pytest

from acceptance.stream_reader import stored_runs
from engine.test_node import get, recovery_watermark, sql, until_metric
from mainspring.changelog_tailer import schema
from mainspring.engine.config import Settings, load_settings
from mainspring.engine.failover.clock_guard import ClockGuard, ClockWentBack
from mainspring.engine.node import Node
from mainspring.wheel import ManualClock, Ticker, Wheel

INSTANCES = count()
HOUR = 3600
START = 1_764_500_000
ACKNOWLEDGED = "mainspring_runs_acknowledged_total"


class Shifted:
    """A clock that goes with the machine's, so many seconds beside it."""

    def __init__(self, shift_s: float = 0) -> None:
        self.shift_s = shift_s
        self.clock = ManualClock(time.time() + shift_s)
        self.clock.step(0)

    def step(self, by_s: float) -> None:
        self.shift_s += by_s
        self.clock.step(by_s)

    async def run(self) -> None:
        while True:
            self.clock.set(time.time() + self.shift_s)
            await asyncio.sleep(0.005)


@pytest.fixture
async def settings(database: str, nats_url: str) -> Settings:
    await schema.init(database)
    flags = {"postgres_dsn": database, "nats_url": nats_url, "http_port": 0}
    return load_settings(flags | {"instance": f"clock{next(INSTANCES)}"})


@asynccontextmanager
async def running(settings: Settings, shifted: Shifted) -> AsyncIterator[Node]:
    """A node on that clock, which may wait for it to be right."""
    node, stop = Node(settings, shifted.clock), asyncio.Event()
    turning = asyncio.create_task(shifted.run())

    async def run() -> None:
        await node.start()
        await node.run_until(stop)

    task = asyncio.create_task(run())
    try:
        while not node._web._runner.addresses:
            await asyncio.sleep(0.01)
        yield node
        stop.set()
        await task
    finally:
        await node.aclose()
        turning.cancel()


async def instants_of(settings: Settings) -> list[int]:
    """The instants of the one job, each of them stored once."""
    runs = await stored_runs(settings.nats_url, settings.instance.upper())
    assert set(runs.values()) == {1}
    return sorted(instant for _, instant in runs)


async def until_doubted(node: Node) -> None:
    async with asyncio.timeout(20):
        while (answer := await get(node, "/readyz"))[0] == 200 or "clock" not in answer[1]:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("by_s", [8 * HOUR, -12 * HOUR])
async def test_an_active_node_is_silent_while_its_clock_is_wrong_and_goes_on_after_it(
    settings: Settings, by_s: float
) -> None:
    await sql(settings, "insert into mainspring.jobs (every_s) values (1)")
    shifted = Shifted()
    async with running(settings, shifted) as node:
        await until_metric(node, ACKNOWLEDGED, 2)
        shifted.step(by_s)
        await until_doubted(node)
        known = len(await instants_of(settings))
        await asyncio.sleep(5)
        assert len(await instants_of(settings)) == known
        shifted.step(-by_s)
        back = int(time.time())
        await until_metric(node, "mainspring_watermark_timestamp_seconds", back + 2)
        assert (await get(node, "/readyz"))[0] == 200
    found = await instants_of(settings)
    assert found == list(range(found[0], found[-1] + 1))
    assert back + 2 <= found[-1] <= time.time()


@pytest.mark.parametrize("by_s", [8 * HOUR, -12 * HOUR])
async def test_a_replacement_with_a_wrong_clock_waits_until_it_is_right(
    settings: Settings, by_s: float
) -> None:
    await sql(settings, "insert into mainspring.jobs (every_s) values (1)")
    async with running(settings, Shifted()) as node:
        await until_metric(node, ACKNOWLEDGED, 2)
    first = await recovery_watermark(settings)
    shifted = Shifted(by_s)
    async with running(settings, shifted) as node:
        await until_doubted(node)
        await asyncio.sleep(1)
        assert await recovery_watermark(settings) == first
        shifted.step(-by_s)
        await until_metric(node, "mainspring_watermark_timestamp_seconds", time.time() + 1)
    found = await instants_of(settings)
    assert found == list(range(found[0], found[-1] + 1))
    assert found[-1] <= time.time()


@pytest.mark.parametrize("by_s", [8 * HOUR, -12 * HOUR])
@pytest.mark.parametrize("back_before", [True, False])
async def test_a_standby_takes_over_once_its_clock_is_right_again(
    settings: Settings, by_s: float, back_before: bool
) -> None:
    """Whether the clock comes back before the active node ends, or after."""
    await sql(settings, "insert into mainspring.jobs (every_s) values (1)")
    shifted = Shifted()
    async with AsyncExitStack() as stack:
        async with running(settings, Shifted()) as active:
            await until_metric(active, ACKNOWLEDGED, 2)
            standby = await stack.enter_async_context(running(settings, shifted))
            await until_metric(standby, "mainspring_watermark_timestamp_seconds", time.time() - 2)
            shifted.step(by_s)
            await until_doubted(standby)
            if back_before:
                await asyncio.sleep(5)
                shifted.step(-by_s)
        if not back_before:
            await asyncio.sleep(3)
            known = len(await instants_of(settings))
            await asyncio.sleep(2)
            assert len(await instants_of(settings)) == known
            shifted.step(-by_s)
        back = time.time()
        await until_metric(standby, "mainspring_watermark_timestamp_seconds", back + 2)
        assert (await get(standby, "/readyz"))[0] == 200
    found = await instants_of(settings)
    assert found == list(range(found[0], found[-1] + 1))
    assert back + 1 <= found[-1] <= time.time()


async def test_a_clock_that_was_ahead_and_is_rightly_set_back_leaves_no_silence(settings: Settings) -> None:
    """All clocks agree that it is 12 h earlier: the runs of then come, under ids of their own."""
    await sql(settings, "insert into mainspring.jobs (every_s) values (1)")
    shifted = Shifted()
    async with running(settings, shifted) as node:
        node._guard._others = {"another": told(shifted.clock.now)}
        await until_metric(node, ACKNOWLEDGED, 2)
        shifted.step(-12 * HOUR)
        async with asyncio.timeout(30):
            while not any(instant < time.time() - 11 * HOUR for instant in await instants_of(settings)):
                await asyncio.sleep(0.1)
    found = await instants_of(settings)
    assert found[-1] <= time.time()


async def test_a_small_step_back_that_is_agreed_on_doubles_no_run(settings: Settings) -> None:
    """The seconds since then come once more, also those whose ids the stream may have forgotten."""
    await sql(settings, "insert into mainspring.jobs (every_s) values (1)")
    shifted = Shifted()
    async with running(settings, shifted) as node:
        node._guard._others = {"another": told(shifted.clock.now)}
        await until_metric(node, ACKNOWLEDGED, 3)
        shifted.step(-8)
        await until_metric(node, "mainspring_runs_duplicate_total", 3)
    assert await instants_of(settings)


def told(now: Callable[[], float]) -> Callable[[], Awaitable[float]]:
    async def ask() -> float:
        return float(now())

    return ask


async def test_a_second_clock_that_is_within_five_seconds_agrees_and_no_other() -> None:
    clock = ManualClock(START)
    for there, agrees in ((START + 4, True), (START - 4, True), (START + 6, False), (START - 6, False)):
        guard = ClockGuard(clock, {"one": told(ManualClock(there).now)})
        assert await guard.agreed() is agrees
        assert bool(guard.doubt) is not agrees
    one_of_two = ClockGuard(clock, {"one": told(lambda: START + 999), "other": told(clock.now)})
    assert await one_of_two.agreed()


async def test_what_nobody_answers_is_not_agreed_on() -> None:
    async def away() -> float:
        raise OSError("away")

    guard = ClockGuard(ManualClock(START), {"one": away})
    assert not await guard.agreed()
    assert "one does not answer (away)" in guard.doubt


@pytest.mark.parametrize(("by_s", "raises"), [(-60, True), (60, False)])
async def test_an_agreed_step_behind_what_is_drained_makes_the_wheel_begin_anew(
    by_s: float, raises: bool
) -> None:
    clock = ManualClock(START + 0.5)
    ticker = Ticker(Wheel(START), late_after_s=3, clock=clock)
    guard = ClockGuard(clock, {"other": told(clock.now)})
    ticker.start()
    watching = asyncio.create_task(guard.watch(ticker, lambda: START, window_s=90))
    await asyncio.sleep(0.05)
    clock.step(by_s)
    try:
        async with asyncio.timeout(10):
            if raises:
                with pytest.raises(ClockWentBack, match="ahead"):
                    await watching
            else:
                while ticker.waits_for != "permit":
                    await asyncio.sleep(0.01)
    finally:
        watching.cancel()
        ticker.close()
