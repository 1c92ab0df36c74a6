"""A gap record excuses as many runs as it counts, of the policies that its reasons belong to, and no more."""

import numpy as np
import pytest

from mainspring.changelog_tailer import CATCH_UP_ALL, CATCH_UP_LATEST, CATCH_UP_NONE
from mainspring.engine.failover.gaps import Gap
from mainspring.engine.verify.gaps import Told, excuse

NOW = 1_764_500_000


def excused(gaps: list[Gap], policy: int, *at: int) -> tuple[list[int], dict[str, int]]:
    instants = np.array(at, np.int64) + NOW
    found, skipped = excuse(gaps, instants, instants, np.full(len(at), policy, np.uint8))
    return (instants[found] - NOW).tolist(), dict(skipped)


def gap(first: int, last: int, **skipped: int | None) -> Gap:
    return Gap.from_dict({"from": NOW + first, "to": NOW + last, "skipped": skipped})


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (CATCH_UP_NONE, "none"),
        (CATCH_UP_LATEST, "latest"),
        (CATCH_UP_LATEST, "window"),
        (CATCH_UP_ALL, "window"),
    ],
)
def test_the_oldest_are_excused_as_many_as_are_counted(policy: int, reason: str) -> None:
    assert excused([gap(10, 20, **{reason: 2})], policy, 15, 11, 19) == ([15, 11], {reason: 2})


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (CATCH_UP_NONE, "window"),
        (CATCH_UP_NONE, "latest"),
        (CATCH_UP_LATEST, "none"),
        (CATCH_UP_ALL, "latest"),
        (CATCH_UP_ALL, "none"),
    ],
)
def test_a_reason_excuses_no_job_of_another_policy(policy: int, reason: str) -> None:
    assert excused([gap(10, 20, **{reason: 5})], policy, 15) == ([], {})


@pytest.mark.parametrize("policy", [CATCH_UP_ALL, CATCH_UP_LATEST, CATCH_UP_NONE])
def test_what_lies_before_the_first_start_is_excused_whatever_its_policy(policy: int) -> None:
    assert excused([gap(0, 9, start=None)], policy, 8, 9, 10) == ([8, 9], {"start": 2})


def test_a_gap_excuses_its_first_and_last_second_and_nothing_beside_them() -> None:
    assert excused([gap(10, 20, none=9)], CATCH_UP_NONE, 9, 10, 20, 21) == ([10, 20], {"none": 2})


def test_a_run_that_may_have_been_due_in_the_gap_is_excused() -> None:
    due, until = (
        np.array([NOW + 7, NOW + 8, NOW + 20, NOW + 21]),
        np.array([NOW + 9, NOW + 10, NOW + 23, NOW + 23]),
    )
    found, _ = excuse([gap(10, 20, none=9)], due, until, np.full(4, CATCH_UP_NONE, np.uint8))
    assert found.tolist() == [False, True, True, False]


def test_what_was_not_counted_excuses_all() -> None:
    assert excused([gap(0, 99, window=None)], CATCH_UP_ALL, *range(50)) == (list(range(50)), {"window": 50})


def test_a_count_serves_one_gap_alone_and_each_run_is_excused_once() -> None:
    gaps = [gap(0, 10, none=1), gap(5, 20, none=1)]
    assert excused(gaps, CATCH_UP_NONE, 5, 6, 7) == ([5, 6], {"none": 2})


def test_window_serves_all_and_latest_together() -> None:
    instants = np.array([NOW, NOW + 1, NOW + 2])
    policies = np.array([CATCH_UP_ALL, CATCH_UP_LATEST, CATCH_UP_ALL], np.uint8)
    found, skipped = excuse([gap(0, 9, window=2, latest=0)], instants, instants, policies)
    assert (int(found.sum()), dict(skipped)) == (2, {"window": 2})


def test_a_run_of_which_either_policy_may_have_held_is_excused_by_the_reason_of_either_and_once() -> None:
    instants = np.array([NOW, NOW + 1, NOW + 2])
    last = np.full(3, CATCH_UP_ALL, np.uint8)
    first = np.array([CATCH_UP_NONE, CATCH_UP_NONE, CATCH_UP_ALL], np.uint8)
    found, skipped = excuse([gap(0, 9, none=1, window=1)], instants, instants, last, first)
    assert (found.tolist(), dict(skipped)) == ([True, True, False], {"window": 1, "none": 1})


def test_dead_letters_are_told_by_job_and_instant() -> None:
    told = Told(NOW, [], frozenset({(7, NOW)}))
    assert told.is_dead(np.array([7, 7, 8]), np.array([NOW, NOW + 1, NOW])).tolist() == [True, False, False]
    assert Told(NOW, []).is_dead(np.array([7]), np.array([NOW])).tolist() == [False]
