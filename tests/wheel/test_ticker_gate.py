"""What holds the tick thread back beside the clock: a gate, and a wall clock that has stepped."""

import pytest
from wheel_rows import every

from wheel.test_ticker_thread import LATE_S, NOW, Stage, ticking

HOUR = 3600


def test_nothing_behind_the_gate_is_drained_and_all_of_it_once_the_gate_moves() -> None:
    stage = Stage(every(1, 1))
    stage.ticker.gate = NOW + 1
    with ticking(stage):
        stage.clock.set(NOW + 2.5)
        stage.until("gate")
        assert stage.runs == [(1, NOW + 1)]
        stage.ticker.gate = NOW + 2
        stage.until("clock")
    assert stage.runs == [(1, NOW + 1), (1, NOW + 2)]


def test_a_gate_far_ahead_lets_no_second_come_early() -> None:
    stage = Stage(every(1, 1))
    stage.ticker.gate = NOW + HOUR
    with ticking(stage):
        assert stage.at(NOW + 1) == [(1, NOW + 1)]


def test_what_was_late_behind_the_gate_needs_its_permit_all_the_same() -> None:
    stage = Stage(every(1, 1))
    stage.ticker.gate = NOW
    with ticking(stage):
        stage.clock.set(NOW + LATE_S + 1)
        stage.until("gate")
        stage.ticker.gate = NOW + 9
        stage.until("permit")


@pytest.mark.parametrize("by_s", [8 * HOUR, -12 * HOUR, 5.5, -5.5])
def test_a_clock_that_steps_and_comes_back_makes_no_run_early_or_twice_and_no_silence(by_s: float) -> None:
    with ticking(Stage(every(1, 1))) as stage:
        assert stage.at(NOW + 1.5) == [(1, NOW + 1)]
        stage.clock.step(by_s)
        stage.until("step")
        stage.clock.set(stage.clock.now() + 1)
        stage.until("step")
        assert stage.runs == [(1, NOW + 1)]
        stage.clock.step(-by_s)
        stage.until("clock")
        assert stage.runs == [(1, NOW + 1), (1, NOW + 2)]
        assert stage.at(NOW + 3.5) == [(1, NOW + 3)]


@pytest.mark.parametrize("by_s", [1.5, 4.5])
def test_a_small_step_is_followed_and_does_not_add_up(by_s: float) -> None:
    with ticking(Stage(every(1, 1))) as stage:
        for _ in range(4):
            stage.clock.step(by_s)
            stage.clock.set(stage.clock.now())
            stage.ticker.permit(NOW + HOUR)
            stage.until("clock")
        assert stage.whole[-1] == int(stage.clock.now())


def test_a_step_that_is_trusted_is_worked_through_as_a_stall() -> None:
    with ticking(Stage(every(1, 1))) as stage:
        stage.clock.step(10)
        stage.until("step")
        stage.ticker.trust(10.0)
        stage.until("permit")
        stage.ticker.permit(NOW + HOUR)
        stage.until("clock")
        assert stage.whole == [NOW + n for n in range(1, 11)]


def test_a_machine_that_was_suspended_has_not_stepped() -> None:
    """Both clocks went on, which is all that passing time is."""
    with ticking(Stage(every(1, 1))) as stage:
        stage.clock.set(NOW + HOUR)
        stage.until("permit")


def test_a_clock_that_is_off_at_the_start_holds_the_first_second() -> None:
    stage = Stage(every(1, 1))
    stage.clock.step(8 * HOUR)
    stage.ticker.trust(0.0)
    with ticking(stage):
        stage.until("step")
        stage.clock.step(-8 * HOUR)
        assert stage.at(NOW + 1) == [(1, NOW + 1)]
    assert stage.runs == [(1, NOW + 1)]
