"""The wheel beside its rivals, one harness: `pytest loadtest/bench_wheel.py --benchmark-only`.

Each rival keeps the same jobs, and one round is the same seconds: take what is due, compute each job's next
instant, put it back. The wheel is measured with all it does: it writes an envelope for every run as well.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from numpy.typing import NDArray
from pytest_benchmark.fixture import BenchmarkFixture

from mainspring.wheel import (
    DEFINITION,
    KIND_INTERVAL,
    MIN,
    NEVER,
    OP_UPDATE,
    Frames,
    Wheel,
    interval_next,
    phase_of,
)

NOW = 1_764_500_000
JOBS = 100_000
SECONDS = 30
MIX = ((30, 0.2), (60, 0.5), (300, 0.2), (3600, 0.05), (86_400, 0.05))
PAYLOAD = b'{"target":"https://example.com/health"}'


def intervals(jobs: int) -> NDArray[np.int32]:
    seconds, shares = zip(*MIX, strict=True)
    return np.random.default_rng(1).choice(np.array(seconds, np.int32), jobs, p=shares)


def definitions(jobs: int) -> NDArray[np.void]:
    rows = np.zeros(jobs, DEFINITION)
    rows["id"], rows["every_s"], rows["kind"], rows["enabled"] = (
        np.arange(jobs),
        intervals(jobs),
        KIND_INTERVAL,
        1,
    )
    rows["run_at"] = rows["ends_at"] = NEVER
    rows["starts_at"] = rows["boost_until"] = MIN
    rows["phase_s"] = rows["jitter_s"] = -1
    rows["data_len"] = len(PAYLOAD)
    return rows


def loaded_wheel(jobs: int = JOBS) -> Wheel:
    wheel = Wheel(NOW)
    wheel.route("default")
    wheel.apply(definitions(jobs), PAYLOAD)
    return wheel


def wheel_rival() -> Callable[[], int]:
    wheel, frames = loaded_wheel(), Frames()

    def drain(seconds: int = SECONDS) -> int:
        runs = 0
        for second in range(wheel.now + 1, wheel.now + 1 + seconds):
            whole = False
            while not whole:
                frames.reset(0)
                whole = wheel.drain(second, second, frames)
                runs += len(frames)
        return runs

    return drain


def first_instants() -> Iterable[tuple[int, int, int]]:
    for job_id, every_s in enumerate(intervals(JOBS).tolist()):
        yield interval_next(every_s, phase_of(job_id, every_s), 0, NOW), job_id, every_s


def heapq_rival() -> Callable[[], int]:
    heap, now = list(first_instants()), NOW
    heapq.heapify(heap)

    def drain() -> int:
        nonlocal now
        runs, now = 0, now + SECONDS
        while heap[0][0] <= now:
            due, job_id, every_s = heap[0]
            heapq.heapreplace(heap, (due + every_s, job_id, every_s))
            runs += 1
        return runs

    return drain


def dict_wheel_rival() -> Callable[[], int]:
    slots: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    now = NOW
    for due, job_id, every_s in first_instants():
        slots[due].append((job_id, every_s))

    def drain() -> int:
        nonlocal now
        runs = 0
        for second in range(now + 1, now + 1 + SECONDS):
            due = slots.pop(second, [])
            for job in due:
                slots[second + job[1]].append(job)
            runs += len(due)
        now += SECONDS
        return runs

    return drain


def note_ns(benchmark: BenchmarkFixture, name: str, count: int) -> None:
    assert benchmark.stats is not None
    benchmark.extra_info[name] = benchmark.stats.stats.median / count * 1e9


@pytest.mark.benchmark(group=f"{SECONDS} s of {JOBS:,} jobs")
@pytest.mark.parametrize("rival", [wheel_rival, dict_wheel_rival, heapq_rival])
def test_fire_and_rearm(benchmark: BenchmarkFixture, rival: Callable[[], Callable[[], int]]) -> None:
    drain = rival()
    runs: list[int] = []
    benchmark.pedantic(lambda: runs.append(drain()), rounds=10, warmup_rounds=1)  # type: ignore[no-untyped-call]
    note_ns(benchmark, "ns_per_run", runs[-1])


@pytest.mark.benchmark(group="apply")
def test_load(benchmark: BenchmarkFixture) -> None:
    rows = definitions(JOBS)
    benchmark.pedantic(  # type: ignore[no-untyped-call]
        lambda wheel: wheel.apply(rows, PAYLOAD),
        setup=lambda: ((fresh_wheel(),), {}),
        rounds=5,
        warmup_rounds=1,
    )


def fresh_wheel() -> Wheel:
    wheel = Wheel(NOW)
    wheel.route("default")
    wheel.reserve(JOBS)
    return wheel


@pytest.mark.benchmark(group="apply")
@pytest.mark.parametrize("batch", [1, 32, 65_536])
def test_edit(benchmark: BenchmarkFixture, batch: int) -> None:
    wheel, rows = loaded_wheel(), definitions(JOBS)
    rows["op"] = OP_UPDATE
    chosen = np.random.default_rng(2).permutation(JOBS)[:batch]
    benchmark(lambda: wheel.apply(rows[chosen], PAYLOAD))
    note_ns(benchmark, "ns_per_row", batch)


@pytest.mark.benchmark(group="watch")
def test_check_of_a_shard(benchmark: BenchmarkFixture) -> None:
    wheel = loaded_wheel()
    benchmark(lambda: wheel.check(0))
