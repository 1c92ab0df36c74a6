"""The watermark: the newest second that is settled, as are all before it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.engine.publishing.settlement import EARLIER_S, Settlement


def test_a_drained_second_without_runs_is_settled_at_once() -> None:
    settlement = Settlement(100, "a")
    settlement.begin(101, "b")
    settlement.drained(101)
    assert (settlement.watermark, settlement.mark) == (101, "b")


def test_a_second_that_is_acknowledged_but_not_fully_drained_is_not_settled() -> None:
    settlement = Settlement(100, "a")
    settlement.begin(101, "b")
    settlement.owe(101, 1)
    settlement.settle(101)
    assert settlement.watermark == 100
    settlement.drained(101)
    assert settlement.watermark == 101


def test_one_lost_acknowledgement_holds_the_watermark_before_every_later_second() -> None:
    settlement = Settlement(100, 0)
    for second in (101, 102, 103):
        settlement.begin(second, second)
        settlement.owe(second, 2)
        settlement.drained(second)
    settlement.settle(101)
    settlement.settle(102, 2)
    settlement.settle(103, 2)
    assert (settlement.watermark, settlement.mark) == (100, 0)
    settlement.settle(101)
    assert (settlement.watermark, settlement.mark) == (103, 103)


@pytest.mark.parametrize("second", [100, 102])
def test_a_second_out_of_order_is_refused(second: int) -> None:
    with pytest.raises(ValueError, match="does not follow 100"):
        Settlement(100, None).begin(second, None)


@given(
    owed=st.lists(st.integers(0, 3), min_size=1, max_size=12),
    order=st.randoms(use_true_random=False),
)
def test_the_watermark_is_the_last_second_before_the_first_open_one(owed: list[int], order) -> None:  # type: ignore[no-untyped-def]
    settlement = Settlement(0, 0)
    for second, runs in enumerate(owed, start=1):
        settlement.begin(second, second)
        settlement.owe(second, runs)
        settlement.drained(second)
    open_runs = {second: runs for second, runs in enumerate(owed, start=1) if runs}
    answers = [second for second, runs in open_runs.items() for _ in range(runs)]
    order.shuffle(answers)
    for second in answers:
        expected = min((s for s, runs in open_runs.items() if runs), default=len(owed) + 1) - 1
        assert settlement.watermark == expected
        settlement.settle(second)
        open_runs[second] -= 1
    assert settlement.watermark == len(owed)


def test_a_second_that_was_begun_and_not_drained_may_be_begun_again() -> None:
    settlement = Settlement(100, "a")
    settlement.begin(101, "b")
    settlement.owe(101, 2)
    settlement.begin(101, "b")
    settlement.owe(101, 1)
    settlement.drained(101)
    settlement.settle(101, 2)
    assert settlement.watermark == 100
    settlement.settle(101)
    assert settlement.watermark == 101


@pytest.mark.parametrize("second", [99, 100, 102])
def test_a_second_that_is_not_open_cannot_be_settled(second: int) -> None:
    settlement = Settlement(100, "a")
    settlement.begin(101, "b")
    with pytest.raises(ValueError, match="is not open"):
        settlement.settle(second)


def test_after_a_leap_the_second_that_follows_stands_for_all_that_were_leapt_over() -> None:
    settlement = Settlement(100, "a")
    settlement.begin(101, "b")
    settlement.leapt(102, 899)
    with pytest.raises(ValueError, match="does not follow 101"):
        settlement.begin(899, "c")
    settlement.begin(900, "c")
    settlement.owe(900, 1)
    settlement.drained(900)
    settlement.begin(901, "d")
    settlement.drained(901)
    settlement.drained(101)
    assert settlement.watermark == 101
    settlement.settle(900)
    assert (settlement.watermark, settlement.mark) == (901, "d")


@given(spans=st.lists(st.integers(1, 40), min_size=1, max_size=30), recovered=st.booleans())
def test_the_earlier_mark_is_that_of_some_seconds_before_or_an_older_one(
    spans: list[int], recovered: bool
) -> None:
    """A mark is the second itself here; after a restart the one before stands for what is not known."""
    settlement = Settlement(100, 100, earlier=95 if recovered else None)
    marks = {100: 100}
    for span in spans:
        first = settlement.watermark + 1
        if span > 1:
            settlement.leapt(first, first + span - 2)
        settlement.begin(first + span - 1, first + span - 1)
        settlement.drained(first + span - 1)
        marks |= dict.fromkeys(range(first, first + span), first + span - 1)
        back = settlement.watermark - EARLIER_S
        assert settlement.earlier == marks.get(back, 95 if recovered else 100)
