"""A long and hard life of a wheel: every kind of edit, drain, sweep, fault, clear, and memory that runs out.

`lead` leads it and gives the resident size after each of its turns. An operation is a row applied, a
second drained, a shard swept, or a fault made and mended.
"""

import gc
import random
from collections.abc import Callable
from pathlib import Path
from resource import getpagesize

import numpy as np
from numpy.typing import NDArray

from mainspring.wheel import (
    DEFINITION,
    FAULTS,
    KIND_CRON,
    KIND_INTERVAL,
    KIND_ONCE,
    MIN,
    NEVER,
    OP_DELETE,
    OP_INSERT,
    OP_UPDATE,
    SHARDS,
    Frames,
    Wheel,
    shard_of,
)
from mainspring.wheel.memory import fail_allocation_in

NOW = 1_764_500_000
JOBS = 5000
ROWS = 20_000
TEXT = b"".join(b"%06d" % i for i in range(1000))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()


def random_rows(wheel: Wheel, chance: np.random.Generator, seq: int) -> NDArray[np.void]:
    rows = np.zeros(ROWS, DEFINITION)
    rows["id"] = chance.integers(0, JOBS, ROWS)
    rows["seq"] = np.arange(seq, seq + ROWS)
    rows["op"] = chance.choice([OP_INSERT, OP_UPDATE, OP_UPDATE, OP_DELETE], ROWS)
    rows["kind"] = chance.choice([KIND_INTERVAL, KIND_INTERVAL, KIND_CRON, KIND_ONCE], ROWS)
    rows["every_s"] = chance.choice([1, 5, 60, 4000, 86_400], ROWS)
    rows["cron"] = wheel.cron("*/5 * * * *", "Europe/Vienna")
    rows["route"] = wheel.route("default")
    rows["run_at"] = wheel.now + chance.integers(-100, 5000, ROWS)
    rows["starts_at"] = chance.choice([MIN, wheel.now - 5], ROWS)
    rows["ends_at"], rows["boost_until"], rows["jitter_s"] = NEVER, MIN, -1
    rows["phase_s"] = chance.choice([-1, 3], ROWS)
    rows["changed_at"] = wheel.now + chance.integers(-10, 10, ROWS)
    rows["enabled"] = chance.random(ROWS) < 0.9
    rows["first_run_soon"], rows["catch_up"] = chance.integers(0, 2, ROWS), chance.integers(0, 3, ROWS)
    rows["key_len"] = chance.choice([0, 10, 36], ROWS)
    rows["data_len"] = chance.choice([0, 20, 200, 5000], ROWS, p=[0.2, 0.5, 0.29, 0.01])
    return rows


def survive(call: Callable[[], object], failing_at: int) -> None:
    """With memory that runs out at that allocation, and then once more with enough."""
    fail_allocation_in(failing_at)
    try:
        call()
    except MemoryError:
        pass
    finally:
        fail_allocation_in(0)
    call()


def apply_all(wheel: Wheel, rows: NDArray[np.void], chance: random.Random) -> int:
    at = 0
    while at < len(rows):
        part = rows[at : at + chance.choice([1, 32, 1000, 5000])]
        survive(lambda part=part: wheel.apply(part, TEXT), chance.randint(1, 20))  # type: ignore[misc]
        at += len(part)
    return len(rows)


def drain_some(wheel: Wheel, seconds: int, late_s: int, chance: random.Random) -> int:
    frames, end = Frames(), wheel.now + seconds

    def drain_on() -> None:
        while wheel.now < end:
            frames.reset(0)
            wheel.drain(wheel.now + 1, wheel.now + 1 + late_s, frames)

    survive(drain_on, chance.randint(1, 5))
    return seconds


def hurt_and_sweep(wheel: Wheel, chance: random.Random) -> int:
    for _ in range(20):
        job_id = chance.randrange(JOBS)
        try:
            wheel._inject(chance.choice(FAULTS), job_id)
        except KeyError:
            continue  # gone, paused, or finished
        shard = shard_of(job_id)
        survive(lambda shard=shard: wheel.sweep(shard), chance.randint(1, 6))  # type: ignore[misc]
    for shard in range(SHARDS):
        assert not any(wheel.check(shard).values())
    return 20 + SHARDS


def lead(operations: int) -> list[int]:
    chance, numbers = random.Random(5), np.random.default_rng(5)
    wheel, done, sizes = Wheel(NOW), 0, []
    while done < operations:
        done += apply_all(wheel, random_rows(wheel, numbers, done + 1), chance)
        done += drain_some(wheel, 30, chance.choice([0, 0, 100]), chance)
        done += hurt_and_sweep(wheel, chance)
        if chance.random() < 0.2:
            wheel.clear()
        elif chance.random() < 0.2:
            wheel = Wheel(wheel.now)
        gc.collect()
        sizes.append(resident_bytes())
    return sizes
