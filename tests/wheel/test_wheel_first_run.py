"""The first run soon: one instant that follows from the insert, whoever applies it and whenever."""

import pytest
from wheel_rows import Change, Job, Run, batch, drain, drain_until, faults, put, runs_of

from mainspring.wheel import (
    CATCH_UP_ALL,
    CATCH_UP_LATEST,
    CATCH_UP_NONE,
    OP_DELETE,
    OP_INSERT,
    OP_LOAD,
    OP_UPDATE,
    Frames,
    Schedule,
    Wheel,
    job_hash,
)
from mainspring.wheel.memory import fail_allocation_in

NOW = 1_764_500_000
SELDOM = Schedule(every_s=10_000_000)
IDS = range(1, 40)


def soon(job_id: int, inserted_at: int) -> int:
    return inserted_at + 1 + job_hash(job_id) % 5


def insert(wheel: Wheel, inserted_at: int, op: int = OP_INSERT, **job: object) -> int:
    jobs = [Job(n, SELDOM, first_run_soon=True, **job) for n in IDS]  # type: ignore[arg-type]
    return wheel.apply(*batch(wheel, [Change(job, op, at=inserted_at) for job in jobs]))


def each_once(inserted_at: int) -> list[Run]:
    return sorted((n, soon(n, inserted_at)) for n in IDS)


@pytest.mark.parametrize("late_s", [-3, 0, 1, 3, 5, 80, 86_000])
def test_whenever_it_is_applied_it_is_the_same_run(late_s: int) -> None:
    """Also a day later: nobody could have missed it before."""
    wheel = Wheel(NOW)
    insert(wheel, NOW - late_s)
    assert sorted(drain_until(wheel, NOW + 12)) == each_once(NOW - late_s)
    assert faults(wheel) == {}


def test_more_than_a_day_later_it_comes_no_more() -> None:
    wheel = Wheel(NOW)
    insert(wheel, NOW - 86_410)
    assert drain_until(wheel, NOW + 12) == []


def test_one_that_is_late_comes_in_frames_of_its_own_that_tell_since_when() -> None:
    wheel, frames = Wheel(NOW), Frames()
    insert(wheel, NOW - 100)
    found, whole = [], False
    while not whole:
        frames.reset(0)
        whole = wheel.drain(NOW + 1, NOW + 1, frames)
        if len(frames):
            assert frames.due_since == min(at for _, at in runs_of(frames))
        found += runs_of(frames)
    assert sorted(found) == each_once(NOW - 100)


@pytest.mark.parametrize("catch_up", [CATCH_UP_ALL, CATCH_UP_LATEST, CATCH_UP_NONE])
def test_catch_up_judges_a_late_one_by_the_second_that_gives_it(catch_up: int) -> None:
    wheel = Wheel(NOW)
    insert(wheel, NOW - 50, catch_up=catch_up)
    runs = drain(wheel, NOW + 1 + 60)
    assert sorted(runs) == ([] if catch_up == CATCH_UP_NONE else each_once(NOW - 50))
    other = Wheel(NOW)
    insert(other, NOW - 50, catch_up=catch_up)
    assert sorted(drain(other, NOW + 1)) == each_once(NOW - 50)


@pytest.mark.parametrize("op", [OP_UPDATE, OP_DELETE])
def test_a_job_that_is_gone_or_paused_before_its_late_run_has_none(op: int) -> None:
    wheel = Wheel(NOW)
    insert(wheel, NOW - 50)
    put(wheel, *(Job(n, SELDOM, enabled=False) for n in IDS), op=op)
    assert drain_until(wheel, NOW + 12) == []


def test_a_load_that_tells_the_second_brings_the_run_that_is_still_to_come_and_no_other() -> None:
    """As a replacement does it, over what it has from the table; what came before is settled."""
    wheel = Wheel(NOW)
    put(wheel, *(Job(n, SELDOM) for n in IDS), op=OP_LOAD)
    insert(wheel, NOW - 2, OP_LOAD)
    put(wheel, *(Job(n, SELDOM, data="1") for n in IDS), op=OP_LOAD)
    coming = [run for run in each_once(NOW - 2) if run[1] > NOW]
    assert 0 < len(coming) < len(IDS)
    assert sorted(drain_until(wheel, NOW + 12)) == coming
    assert faults(wheel) == {}


def test_a_load_without_a_second_brings_none() -> None:
    wheel = Wheel(NOW)
    put(wheel, *(Job(n, SELDOM, first_run_soon=True) for n in IDS), op=OP_LOAD)
    assert drain_until(wheel, NOW + 12) == []


def test_outside_its_window_it_is_none() -> None:
    wheel = Wheel(NOW)
    ended = Schedule(every_s=10_000_000, ends_at=NOW + 3)
    changes = [Change(Job(n, ended, first_run_soon=True), at=NOW) for n in IDS]
    wheel.apply(*batch(wheel, changes))
    assert sorted(drain_until(wheel, NOW + 12)) == [run for run in each_once(NOW) if run[1] < NOW + 3]


def test_without_memory_for_a_late_one_nothing_is_applied_and_the_repeat_is_whole() -> None:
    for failing_at in range(1, 8):
        wheel = Wheel(NOW)
        fail_allocation_in(failing_at)
        try:
            insert(wheel, NOW - 50)
        except MemoryError:
            fail_allocation_in(0)
            changes = [
                Change(Job(n, SELDOM, first_run_soon=True), at=NOW - 50) for n in IDS if n not in wheel
            ]
            wheel.apply(*batch(wheel, changes))
        finally:
            fail_allocation_in(0)
        assert sorted(drain_until(wheel, NOW + 2)) == each_once(NOW - 50)
        assert faults(wheel) == {}
