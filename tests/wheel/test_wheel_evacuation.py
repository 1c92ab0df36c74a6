"""Payloads whose sizes change for days: memory stays where a fresh load would be, and every byte is right."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from wheel_rows import faults

from mainspring.wheel import (
    DEFINITION,
    KIND_INTERVAL,
    MIN,
    NEVER,
    OP_LOAD,
    OP_UPDATE,
    Frames,
    Wheel,
)
from mainspring.wheel.memory import fail_allocation_in

NOW = 1_764_500_000
JOBS = 60_000
TEXT = b"".join(b"%06d" % i for i in range(400))
CHANGED = JOBS // 5


def definitions(jobs: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.void]:
    rows = np.zeros(len(jobs), DEFINITION)
    rows["id"], rows["every_s"], rows["kind"], rows["enabled"] = jobs, 60, KIND_INTERVAL, 1
    rows["run_at"] = rows["ends_at"] = NEVER
    rows["starts_at"] = rows["boost_until"] = MIN
    rows["phase_s"] = rows["jitter_s"] = -1
    rows["data_len"] = rng.integers(1, 1500, len(jobs))
    rows["data_at"] = rng.integers(0, 900, len(jobs))
    return rows


def fresh(rows: NDArray[np.void]) -> Wheel:
    wheel = Wheel(NOW)
    wheel.route("default")
    loaded = rows.copy()
    loaded["op"], loaded["seq"] = OP_LOAD, 0
    wheel.apply(loaded, TEXT)
    return wheel


def edits(rows: NDArray[np.void], seqs: range, rng: np.random.Generator) -> Iterator[NDArray[np.void]]:
    """A fifth of all jobs a round, each with a payload of another size; `rows` keeps what is in force."""
    for seq in seqs:
        chosen = rng.choice(len(rows), CHANGED, replace=False)
        rows[chosen] = definitions(rows["id"][chosen], rng)
        rows["op"][chosen], rows["seq"][chosen] = OP_UPDATE, seq
        yield rows[chosen]


def payloads(wheel: Wheel) -> dict[int, bytes]:
    """What each job's next run carries."""
    frames = Frames(capacity=2**20)
    given: dict[int, bytes] = {}
    for second in range(wheel.now + 1, wheel.now + 61):
        whole = False
        while not whole:
            frames.reset(0)
            whole = wheel.drain(second, second, frames)
            for i in range(len(frames)):
                given[frames.job_id(i)] = bytes(frames.frame(i)).split(b'"data":', 1)[1][:-3]
    return given


def expected(rows: NDArray[np.void]) -> dict[int, bytes]:
    return {
        job_id: TEXT[at : at + length]
        for job_id, at, length in zip(
            rows["id"].tolist(), rows["data_at"].tolist(), rows["data_len"].tolist(), strict=True
        )
    }


@pytest.mark.parametrize("piece", [CHANGED, 100, 1], ids=["at once", "in hundreds", "one by one"])
def test_memory_stays_near_a_fresh_load_while_sizes_change(piece: int) -> None:
    rng = np.random.default_rng(11)
    rows = definitions(np.arange(JOBS), rng)
    wheel = fresh(rows)
    sizes = []
    for changed in edits(rows, range(1, 11), rng):
        for start in range(0, len(changed), piece):
            wheel.apply(changed[start : start + piece], TEXT)
        sizes.append(wheel.nbytes)
    assert max(sizes) <= fresh(rows).nbytes * 1.12
    assert faults(wheel) == {}
    assert payloads(wheel) == expected(rows)
    assert faults(wheel) == {}


def test_seconds_go_on_with_what_the_edits_left() -> None:
    rng = np.random.default_rng(12)
    rows = definitions(np.arange(JOBS), rng)
    wheel = fresh(rows)
    for seq in (1, 4, 7):
        for changed in edits(rows, range(seq, seq + 3), rng):
            wheel.apply(changed, TEXT)
        assert payloads(wheel) == expected(rows)
        assert faults(wheel) == {}


def test_an_evacuation_without_memory_waits_and_loses_nothing() -> None:
    rng = np.random.default_rng(13)
    rows = definitions(np.arange(JOBS), rng)
    wheel = fresh(rows)
    refused = 0
    for changed in edits(rows, range(1, 7), rng):
        for start in range(0, len(changed), 50):
            part = changed[start : start + 50]
            fail_allocation_in(1 + start % 7)
            try:
                wheel.apply(part, TEXT)
            except MemoryError:
                refused += 1
            finally:
                fail_allocation_in(0)
            wheel.apply(part, TEXT)
    assert refused > 10
    assert faults(wheel) == {}
    assert payloads(wheel) == expected(rows)


def test_a_cleared_wheel_forgets_its_evacuations() -> None:
    rng = np.random.default_rng(14)
    rows = definitions(np.arange(JOBS), rng)
    wheel = fresh(rows)
    for changed in edits(rows, range(1, 3), rng):
        wheel.apply(changed, TEXT)
    wheel.clear()
    rows["op"] = OP_LOAD
    rows["seq"] = 0
    wheel.apply(rows, TEXT)
    assert faults(wheel) == {}
    assert payloads(wheel) == expected(rows)
