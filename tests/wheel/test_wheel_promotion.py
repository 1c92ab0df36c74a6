"""From the far lists to the slots: hours of any size, and whatever a fault left in one."""

import random

import pytest
from wheel_rows import Job, drain_until, faults, found_in, put

from mainspring.wheel import FAULTS, OP_DELETE, Schedule, Wheel, shard_of

NOW = 1_764_500_000
FAR_S = 9000
HERD = [i for i in range(300_000) if shard_of(i) == 5]


@pytest.mark.parametrize("jobs", [1, 15, 16, 511, 512, 513, 1024, 1025])
def test_an_hour_of_any_size_comes_whole(jobs: int) -> None:
    wheel = Wheel(NOW)
    put(wheel, *(Job(i, Schedule(run_at=NOW + FAR_S)) for i in HERD[:jobs]))
    assert sorted(drain_until(wheel, NOW + FAR_S)) == [(i, NOW + FAR_S) for i in HERD[:jobs]]
    assert faults(wheel) == {}


@pytest.mark.parametrize("others", [0, 3])
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "one_period_late"])
def test_an_hour_with_a_fault_in_it_is_passed_and_the_rest_of_it_runs(fault: str, others: int) -> None:
    wheel = Wheel(NOW)
    put(wheel, *(Job(i, Schedule(run_at=NOW + FAR_S)) for i in HERD[: others + 1]))
    wheel._inject(fault, HERD[0])
    runs = drain_until(wheel, NOW + FAR_S + 10)
    assert [run for run in sorted(runs) if run[0] != HERD[0]] == [
        (i, NOW + FAR_S) for i in HERD[1 : others + 1]
    ]
    wheel.sweep(5)
    assert faults(wheel) == {}


def test_hours_that_are_over_or_empty_leave_nothing_behind() -> None:
    """One job alone at a time in an hour of its own: as it moves near, and as it is deleted."""
    wheel = Wheel(NOW)
    put(wheel, Job(HERD[0], Schedule(every_s=7200)))
    sizes = []
    for hour in range(500):
        put(wheel, Job(HERD[1], Schedule(run_at=NOW + 3600 * (hour + 3))))
        put(wheel, Job(HERD[1]), op=OP_DELETE)
        sizes.append(wheel.nbytes)
    assert len(set(sizes)) == 1
    assert len(drain_until(wheel, NOW + 7200)) == 1
    size = wheel.nbytes
    assert len(drain_until(wheel, NOW + 12 * 7200)) == 11
    assert wheel.nbytes == size
    assert faults(wheel) == {}


@pytest.mark.parametrize("seed", range(6))
def test_each_hour_is_found_after_others_were_dropped(seed: int) -> None:
    """Hours that share a place in the map, dropped in any order."""
    rng = random.Random(seed)
    wheel = Wheel(NOW)
    hours = dict(zip(HERD, rng.sample(range(3, 300), 60), strict=False))
    put(wheel, *(Job(i, Schedule(run_at=NOW + 3600 * hour + 1800)) for i, hour in hours.items()))
    for i in rng.sample(sorted(hours), 55):
        put(wheel, Job(i), op=OP_DELETE)
        del hours[i]
        assert found_in(wheel.check(5)) == {}
    assert {i: wheel.next_due(i) for i in HERD[:60] if i in wheel} == {
        i: NOW + 3600 * hour + 1800 for i, hour in hours.items()
    }
