"""A failed allocation, whichever, leaves the wheel right and the call repeatable; memory comes to rest."""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from wheel_life import lead
from wheel_rows import Change, Job, batch, drain, drain_until, every, faults, put, runs_of

from mainspring.loadtest.resident import forbid_huge_pages
from mainspring.wheel import OP_DELETE, OP_INSERT, OP_UPDATE, Frames, Schedule, Wheel, shard_of
from mainspring.wheel.memory import fail_allocation_in

NOW = 1_764_500_000


@contextmanager
def failing(count: int) -> Iterator[None]:
    fail_allocation_in(count)
    try:
        yield
    finally:
        fail_allocation_in(0)


def fail_each(call: Callable[[], object], after_each: Callable[[], object]) -> int:
    """Fails the first allocation, then the second, until the call goes through; how often it failed."""
    for count in range(1, 10_000):
        try:
            with failing(count):
                call()
        except MemoryError:
            after_each()
        else:
            return count - 1
    raise AssertionError("never went through")


def jobs(count: int) -> list[Job]:
    kinds = (
        Schedule(every_s=60),
        Schedule(every_s=86_400, starts_at=NOW - 5),
        Schedule(run_at=NOW + 50_000),
        Schedule(cron="0 4 * * *"),
    )
    return [Job(i, kinds[i % 4], key=f"k{i}", data='"' + "x" * (i * 40 % 5000) + '"') for i in range(count)]


def test_applying_survives_the_failure_of_every_allocation() -> None:
    wheel = Wheel(NOW)
    rows, texts = batch(wheel, [Change(job, OP_INSERT, 1) for job in jobs(300)])
    failures = fail_each(
        lambda: wheel.apply(rows, texts), lambda: faults(wheel) == {} or pytest.fail(str(faults(wheel)))
    )
    assert failures > 50
    assert len(wheel) == 300
    assert faults(wheel) == {}


def test_the_error_says_how_far_it_came_and_a_repeat_finishes() -> None:
    wheel = Wheel(NOW)
    rows, texts = batch(wheel, [Change(job, OP_INSERT, 1) for job in jobs(300)])
    with failing(200), pytest.raises(MemoryError, match=r"after \d+ of 300 rows"):
        wheel.apply(rows, texts)
    before = len(wheel)
    assert 0 < before < 300
    assert wheel.apply(rows, texts) == 300 - before
    assert faults(wheel) == {}


def test_draining_survives_the_failure_of_every_allocation_and_loses_no_run() -> None:
    wheel, sound = Wheel(NOW), Wheel(NOW)
    crowd = [
        Job(i, Schedule(every_s=(1, 4000, 90_000)[i % 3], phase_s=(NOW + 1) % 4000)) for i in range(3000)
    ]
    crowd += [Job(-1 - i, Schedule(every_s=7000, phase_s=(NOW + 1) % 7000)) for i in range(1000)]
    for each in (wheel, sound):
        put(each, *crowd)
    runs, frames = [], Frames()

    def drain_on() -> None:
        whole = False
        while not whole:
            frames.reset(0)
            whole = wheel.drain(NOW + 1, NOW + 1, frames)
            runs.extend(runs_of(frames))

    failures = fail_each(drain_on, lambda: faults(wheel) == {} or pytest.fail(str(faults(wheel))))
    assert failures > 3
    assert runs == drain(sound)
    assert faults(wheel) == {}


def test_an_error_of_a_drain_never_takes_runs_or_skips_with_it() -> None:
    """Whoever drops the frames of a failed call drops nothing."""
    crowd = [
        Job(i, Schedule(every_s=(1, 90_000)[i % 2], phase_s=(NOW + 1) % 90_000), catch_up=i % 3)
        for i in range(4000)
    ]
    sound, frames = Wheel(NOW), Frames(2**20, 4096)
    put(sound, *crowd)
    assert sound.drain(NOW + 1, NOW + 61, frames)
    all_due = frames.due
    for count in range(1, 30, 3):
        wheel, due, whole = Wheel(NOW), 0, False
        put(wheel, *crowd)
        with failing(count):
            while not whole:
                frames.reset(0)
                try:
                    whole = wheel.drain(NOW + 1, NOW + 61, frames)
                except MemoryError:
                    assert (len(frames), frames.due, any(frames.skipped.values())) == (0, 0, False)
                    break
                due += frames.due
        while not whole:
            frames.reset(0)
            whole = wheel.drain(NOW + 1, NOW + 61, frames)
            due += frames.due
        assert due == all_due


SHARD = [i for i in range(60_000) if shard_of(i) == 3]


def hurt(*, lost: bool) -> Wheel:
    """A shard with every fault that a sweep needs memory for, some minutes old."""
    wheel = Wheel(NOW)
    put(wheel, *(every(i, 30, catch_up=i % 2) for i in SHARD))
    drain_until(wheel, NOW + 40)
    for i, job_id in enumerate(SHARD):
        wheel._inject(("dropped", "wrong_slot", "unindexed", "index_stray", "one_period_late")[i % 5], job_id)
    if lost:
        # Up to the second before the first misplaced entry is met.
        drain_until(wheel, NOW + 41)
    return wheel


@pytest.mark.parametrize("lost", [False, True])
def test_a_sweep_without_memory_heals_nothing_and_says_so(lost: bool) -> None:
    wheel, sound = hurt(lost=lost), hurt(lost=lost)
    found = faults(wheel)

    def nothing_is_healed() -> None:
        assert faults(wheel) == found

    failures = fail_each(lambda: wheel.sweep(3), nothing_is_healed)
    assert failures > 3
    assert faults(wheel) == {}
    sound.sweep(3)
    assert drain_until(wheel, NOW + 200) == drain_until(sound, NOW + 200)


def test_a_drain_that_meets_strays_without_memory_loses_no_run() -> None:
    wheel, sound = hurt(lost=True), hurt(lost=True)
    for each in (wheel, sound):
        for job_id in SHARD[5:]:
            put(each, every(job_id, 1), op=OP_DELETE)
        each._inject("doubled", SHARD[4])
    runs, frames = [], Frames()

    def drain_on() -> None:
        while wheel.now < NOW + 100:
            frames.reset(0)
            wheel.drain(wheel.now + 1, wheel.now + 1, frames)
            runs.extend(runs_of(frames))

    failures = fail_each(drain_on, lambda: None)
    assert failures > 0
    assert runs == drain_until(sound, NOW + 100)


def test_proving_needs_no_memory() -> None:
    wheel = Wheel(NOW)
    put(wheel, *(every(i, 60) for i in SHARD))
    with failing(1):
        assert not any(wheel.check(3).values())
        assert not any(wheel.sweep(3).values())


def test_a_wheel_that_cannot_be_made_leaks_nothing_and_says_so() -> None:
    with failing(1), pytest.raises(MemoryError):
        Wheel(NOW)


def test_reserving_and_registering_say_when_memory_is_short() -> None:
    wheel = Wheel(NOW)
    with failing(1):
        for call in (lambda: wheel.route("a"), lambda: wheel.reserve(100_000)):
            with pytest.raises(MemoryError):
                call()
    wheel.reserve(100_000)
    size = wheel.nbytes
    put(wheel, *(every(i, 60) for i in range(2000)))
    # One page of entries a shard in blocks of 2 MiB, some index tables; none for the records.
    assert wheel.nbytes <= size + 256 * 16_384 + 2**21 + 2**17
    assert faults(wheel) == {}


def test_replacing_payloads_over_and_over_comes_to_rest() -> None:
    wheel = Wheel(NOW)
    sizes = np.random.default_rng(3).choice([12, 40, 200, 900, 1800, 3000], 2000)
    after_warm_up = 0
    for turn in range(30):
        changed = [Job(i, data='"' + "x" * int(sizes[(i * 7 + turn) % 2000]) + '"') for i in range(2000)]
        wheel.apply(*batch(wheel, [Change(job, OP_UPDATE, turn + 1) for job in changed]))
        after_warm_up = wheel.nbytes if turn == 14 else after_warm_up
    assert wheel.nbytes <= after_warm_up * 1.1
    assert faults(wheel) == {}


@pytest.mark.slow
def test_a_million_operations_leave_the_resident_size_where_it_was() -> None:
    # In a process of its own: what other tests left behind comes to rest in its own time.
    # With small pages: the kernel makes a huge one of a few that are in use when it has the time.
    with multiprocessing.get_context("spawn").Pool(1, forbid_huge_pages) as process:
        sizes = process.apply(lead, (2_000_000,))
    half = len(sizes) // 2
    # The wheel grows and shrinks by blocks of 2 MiB as jobs come and go; eight bytes an operation would show.
    assert max(sizes[half:]) <= max(sizes[:half]) + 2**23


def test_adding_and_deleting_over_and_over_comes_to_rest() -> None:
    wheel = Wheel(NOW)
    sizes = []
    for turn in range(40):
        ids = range(turn * 1000, turn * 1000 + 1000)
        put(wheel, *(every(i, 5 + i % 4000, data="1") for i in ids))
        drain_until(wheel, wheel.now + 20)
        put(wheel, *(every(i, 5) for i in ids), op=OP_DELETE)
        sizes.append(wheel.nbytes)
    assert sizes[-1] <= sizes[20] * 1.01
    assert len(wheel) == 0
    assert faults(wheel) == {}
