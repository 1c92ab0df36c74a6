"""Spreading and draws over a million ids of each kind: chi-square rejects no window, and nothing moves a job.

Ids and hash are fixed, so these statistics never change; a limit of four standard deviations either way also
catches ids that go through unhashed, which would be spread too evenly.
"""

import math
import os
import random
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable
from itertools import repeat

import numpy as np
import pytest
from numpy.typing import NDArray
from wheel_rows import Job, put

from mainspring.wheel import Schedule, Wheel, next_fires, spread_of
from mainspring.wheel.cron_eval import CompiledCron

MILLION = 1_000_000
WINDOWS = (10, 59, 60, 300, 3600, 86_400)
DEVIATIONS_MAX = 4.0
NOON = 1_764_504_000


def sequential() -> Iterable[int]:
    return range(MILLION)


def scattered() -> Iterable[int]:
    draw = random.Random(20260301)
    return [draw.randrange(-(2**63), 2**63) for _ in range(MILLION)]


def from_uuids() -> Iterable[int]:
    """The first eight bytes of version 7 UUIDs: a clock, the version, and twelve random bits."""
    draw = random.Random(7)
    first = 1_764_504_000_000 << 16 | 0x7000
    return [(first + (i // 3 << 16)) | draw.getrandbits(12) for i in range(MILLION)]


KINDS = pytest.mark.parametrize("ids", [sequential, scattered, from_uuids])


def deviations(places: NDArray[np.int64], cells: int) -> float:
    """How far chi-square is from its mean, in standard deviations. Algorithm: Wilson and Hilferty, 1931."""
    counts = np.bincount(places, minlength=cells)
    assert len(counts) == cells, "a place lies outside the window"
    mean, freedom = len(places) / cells, cells - 1
    chi_square = float(((counts - mean) ** 2).sum()) / mean
    spread = 2 / (9 * freedom)
    return (math.cbrt(chi_square / freedom) - (1 - spread)) / math.sqrt(spread)


def places(of: Callable[..., int], ids: Iterable[int], *rest: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(map(of, ids, *rest), np.int64, MILLION)


def test_the_version_7_ids_are_those_of_uuids() -> None:
    made = uuid.UUID(int=next(iter(from_uuids())) << 64 | 2 << 62)
    assert (made.version, made.variant) == (7, uuid.RFC_4122)


@KINDS
def test_no_window_is_spread_unevenly(ids: Callable[[], Iterable[int]]) -> None:
    chosen = ids()
    found = {window: deviations(places(spread_of, chosen, repeat(window)), window) for window in WINDOWS}
    assert max(map(abs, found.values())) < DEVIATIONS_MAX, found


@KINDS
def test_an_h_and_its_spread_are_uniform_together(ids: Callable[[], Iterable[int]]) -> None:
    chosen = ids()
    seconds = places(spread_of, chosen, repeat(60))
    minutes = places(CompiledCron("H * * * *", "UTC").outcome, chosen)
    days = places(CompiledCron("0 H * * H", "UTC").outcome, chosen)
    found = {
        "minute": deviations(minutes, 60),
        "minute and second": deviations(minutes * 60 + seconds, 3600),
        "hour and weekday": deviations(days, 24 * 7),
        "minute, hour and weekday": deviations(days * 60 + minutes, 24 * 7 * 60),
    }
    assert max(map(abs, found.values())) < DEVIATIONS_MAX, found


def test_ids_that_are_not_hashed_would_be_noticed() -> None:
    assert deviations(np.arange(MILLION) % 60, 60) < -DEVIATIONS_MAX
    assert deviations(np.arange(MILLION) % 59 * 2 % 60, 60) > DEVIATIONS_MAX


SCHEDULES = (
    Schedule(every_s=3600),
    Schedule(cron="@daily", tz="Asia/Tokyo"),
    Schedule(cron="H H * * *", jitter_s=600),
    Schedule(cron="H H 0 * * H"),
)
IN_ANOTHER_PROCESS = """
import sys
from mainspring.wheel import Schedule, next_fires
schedules, noon = eval(sys.argv[1]), int(sys.argv[2])
print([[next_fires(schedule, i, noon, 3) for i in range(-50, 50)] for schedule in schedules])
"""


@pytest.mark.parametrize("seed", ["0", "1", "4294967295"])
def test_a_job_keeps_its_instants_in_another_process(seed: str) -> None:
    command = [sys.executable, "-P", "-c", IN_ANOTHER_PROCESS, repr(SCHEDULES), str(NOON)]
    ended = subprocess.run(
        command, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
    )
    here = [[next_fires(schedule, i, NOON, 3) for i in range(-50, 50)] for schedule in SCHEDULES]
    assert ended.stdout.strip() == repr(here)


def test_a_job_keeps_its_instants_in_another_wheel_whatever_came_before_it() -> None:
    jobs = [Job(i, schedule) for i, schedule in enumerate(SCHEDULES * 50)]
    wheels = [Wheel(NOON), Wheel(NOON)]
    put(wheels[0], *jobs)
    put(wheels[1], *reversed(jobs))
    for job in jobs:
        expected = next_fires(job.schedule, job.id, NOON, 1)
        assert [wheel.next_due(job.id) for wheel in wheels] == expected * 2
