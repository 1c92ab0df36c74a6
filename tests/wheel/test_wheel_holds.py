"""The record of lock holds: each one while that is wanted, none otherwise. How long, no test says."""

import pytest
from wheel_rows import drain, every, put

from mainspring.wheel import Wheel

NOW = 1_764_500_000


def test_holds_are_counted_only_while_that_is_wanted_and_a_switch_forgets() -> None:
    wheel = Wheel(NOW)
    put(wheel, *(every(i, 1) for i in range(2000)))
    assert wheel.lock_holds(500, 1000) == (0, 0, 0)
    wheel.time_locks()
    for job_id in range(300):
        wheel.next_due(job_id)
    wheel.time_locks(False)
    assert wheel.lock_holds() == (0,)
    wheel.time_locks()
    for job_id in range(300):
        wheel.next_due(job_id)
    assert wheel.lock_holds() == (300,)
    wheel.time_locks(False)
    wheel.next_due(1)
    assert wheel.lock_holds() == (0,)


def test_each_shard_that_is_drained_is_held_and_a_longer_hold_is_a_higher_part() -> None:
    wheel = Wheel(NOW)
    put(wheel, *(every(i, 1) for i in range(20_000)))
    wheel.time_locks()
    drain(wheel)
    count, least, median, longest = wheel.lock_holds(1, 500, 1000)
    assert count >= 256
    assert 0 < least <= median <= longest


def test_an_edit_is_a_hold_as_well() -> None:
    wheel = Wheel(NOW)
    wheel.time_locks()
    put(wheel, every(1, 60))
    count, longest = wheel.lock_holds(1000)
    assert (count, longest > 0) == (1, True)


@pytest.mark.parametrize("part", [0, -1, 1001])
def test_a_part_is_one_of_a_thousand(part: int) -> None:
    with pytest.raises(ValueError, match="per_mille"):
        Wheel(NOW).lock_holds(part)
