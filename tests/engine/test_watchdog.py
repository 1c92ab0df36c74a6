"""The watchdog on a loop whose time the test steps: its pace, its turn, and the names it counts by."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import pytest

from mainspring.engine.metrics import Metrics
from mainspring.engine.watchdog import Watchdog
from mainspring.wheel import DEFINITION, FAULTS, KIND_INTERVAL, MIN, NEVER, OP_LOAD, SHARDS, Wheel, shard_of

NOW = 1_764_500_000
T = TypeVar("T")


class SteppedLoop(asyncio.SelectorEventLoop):
    """Where nothing is left to do but wait for a timer, its time comes at once."""

    def __init__(self) -> None:
        super().__init__(_SteppedSelector(self))
        self.at = 0.0

    def time(self) -> float:
        return self.at


class _SteppedSelector(selectors.DefaultSelector):
    def __init__(self, loop: SteppedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(0)
        self._loop.at += 0 if ready else timeout
        return ready


class SlowThread(Executor):
    """Does what it is given at once, and lets so much of the loop's time pass meanwhile."""

    def __init__(self, takes_s: float) -> None:
        self._takes_s = takes_s

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SteppedLoop)
        loop.at += self._takes_s
        return done


def loaded() -> Wheel:
    wheel = Wheel(NOW)
    rows = np.zeros(5000, DEFINITION)
    rows["id"], rows["every_s"], rows["kind"], rows["op"] = np.arange(5000), 60, KIND_INTERVAL, OP_LOAD
    rows["enabled"], rows["route"] = 1, wheel.route("default")
    rows["run_at"] = rows["ends_at"] = NEVER
    rows["starts_at"] = rows["boost_until"] = MIN
    rows["phase_s"] = rows["jitter_s"] = -1
    wheel.apply(rows, b"")
    return wheel


def stepped(scene: Callable[[SteppedLoop], Coroutine[Any, Any, T]]) -> T:
    loop = SteppedLoop()
    try:
        return loop.run_until_complete(scene(loop))
    finally:
        loop.close()


@pytest.mark.parametrize("sweep_s", [0.0, 0.003, 0.5, 1.9])
def test_a_rotation_takes_under_nine_minutes_at_a_period_of_two_seconds(sweep_s: float) -> None:
    metrics = Metrics()

    async def rotate(loop: SteppedLoop) -> float:
        watchdog = Watchdog(loaded(), metrics, SlowThread(sweep_s), period_s=2.0)
        running = asyncio.create_task(watchdog.run())
        while metrics.sweeps._value.get() < SHARDS:
            await asyncio.sleep(0.1)
        running.cancel()
        return loop.time()

    assert 500 < stepped(rotate) < 540


def test_a_sweep_longer_than_the_period_is_not_made_up_for_in_a_burst() -> None:
    metrics = Metrics()

    async def run(_loop: SteppedLoop) -> None:
        threads = SlowThread(3.0)
        running = asyncio.create_task(Watchdog(loaded(), metrics, threads, period_s=2.0).run())
        await asyncio.sleep(30)
        running.cancel()

    stepped(run)
    assert 9 <= metrics.sweeps._value.get() <= 11


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_counted_under_its_own_name_within_one_rotation(fault: str) -> None:
    metrics, wheel = Metrics(), loaded()
    wheel._inject(fault, 77)

    async def rotate(_loop: SteppedLoop) -> list[dict[str, int]]:
        with ThreadPoolExecutor(1) as threads:
            watchdog = Watchdog(wheel, metrics, threads, period_s=2.0)
            return [await watchdog.run_once() for _ in range(SHARDS)]

    healed = stepped(rotate)
    assert [shard for shard, found in enumerate(healed) if any(found.values())] == [shard_of(77)]
    counted = {name: metrics.rearms.labels(name)._value.get() for name in FAULTS}
    assert counted == dict.fromkeys(FAULTS, 0) | {fault: 1}
