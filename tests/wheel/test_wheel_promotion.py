"""From the far lists to the slots: hours of any size, and whatever a fault left in one."""

import pytest
from wheel_rows import Job, drain_until, faults, put

from mainspring.wheel import FAULTS, Schedule, Wheel, shard_of

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
