"""The wheel beside its rivals, and its own calls by size: `pytest loadtest/bench_wheel.py --benchmark-only`.

In a group of rivals one round is the same seconds for each; `ns_per_run` stands in the extra info.
"""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from pytest_benchmark.fixture import BenchmarkFixture

from mainspring.loadtest import rivals
from mainspring.loadtest.fleet import Fleet, open_wheel
from mainspring.loadtest.loading import loaded
from mainspring.loadtest.rivals import SECONDS
from mainspring.wheel import Wheel

HUNDRED_K, MILLION = 100_000, 1_000_000


def note_ns(benchmark: BenchmarkFixture, name: str, count: int) -> None:
    if benchmark.stats is not None:  # None with --benchmark-disable
        benchmark.extra_info[name] = benchmark.stats.stats.min / count * 1e9


def race(benchmark: BenchmarkFixture, drain: rivals.Drain, rounds: int) -> None:
    runs: list[int] = []
    benchmark.pedantic(lambda: runs.append(drain()), rounds=rounds, warmup_rounds=1)  # type: ignore[no-untyped-call]
    note_ns(benchmark, "ns_per_run", runs[-1])


@pytest.mark.benchmark(group=f"{SECONDS} s of {HUNDRED_K:,} jobs")
@pytest.mark.parametrize("rival", [rivals.wheel, rivals.dict_wheel, rivals.binary_heap, rivals.event_loop])
def test_fire_and_rearm(benchmark: BenchmarkFixture, rival: Callable[[int], rivals.Drain]) -> None:
    race(benchmark, rival(HUNDRED_K), rounds=10)


@pytest.mark.benchmark(group=f"{SECONDS} s of {HUNDRED_K:,} jobs")
def test_fire_and_rearm_by_apscheduler(benchmark: BenchmarkFixture) -> None:
    """With 100,000 jobs it is at its end: each change of its sorted list moves much of the list."""
    race(benchmark, rivals.apscheduler(HUNDRED_K), rounds=1)


@pytest.mark.benchmark(group=f"{SECONDS} s of {MILLION:,} jobs")
@pytest.mark.parametrize("rival", [rivals.wheel, rivals.dict_wheel, rivals.binary_heap, rivals.event_loop])
def test_fire_and_rearm_a_million(benchmark: BenchmarkFixture, rival: Callable[[int], rivals.Drain]) -> None:
    race(benchmark, rival(MILLION), rounds=5)


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return Fleet(HUNDRED_K)


def room_for(fleet: Fleet) -> Wheel:
    wheel = open_wheel()
    wheel.reserve(fleet.jobs)
    return wheel


@pytest.mark.benchmark(group="apply")
def test_load(benchmark: BenchmarkFixture, fleet: Fleet) -> None:
    rows = fleet.rows(0, fleet.jobs)
    benchmark.pedantic(  # type: ignore[no-untyped-call]
        lambda wheel: wheel.apply(rows, fleet.texts),
        setup=lambda: ((room_for(fleet),), {}),
        rounds=5,
        warmup_rounds=1,
    )
    note_ns(benchmark, "ns_per_row", fleet.jobs)


def random_ids(fleet: Fleet, count: int) -> NDArray[np.int64]:
    return np.random.default_rng(2).permutation(fleet.jobs)[:count]


@pytest.mark.benchmark(group="apply")
@pytest.mark.parametrize("batch", [1, 32, 65_536])
def test_edit(benchmark: BenchmarkFixture, fleet: Fleet, batch: int) -> None:
    wheel, rows = loaded(fleet), fleet.updates(random_ids(fleet, batch), turn=1)
    benchmark(lambda: wheel.apply(rows, fleet.texts))
    note_ns(benchmark, "ns_per_row", batch)


@pytest.mark.benchmark(group="watch")
def test_check_of_a_shard(benchmark: BenchmarkFixture, fleet: Fleet) -> None:
    wheel = loaded(fleet)
    benchmark(lambda: wheel.check(0))
