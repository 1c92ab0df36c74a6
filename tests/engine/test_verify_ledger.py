"""The ledger finds what is missing, doubled and unexpected, in whatever order and however late it comes."""

import numpy as np
import pytest

from engine.test_verify_owed import NOW, change, changed, owed_of
from mainspring.changelog_tailer import OP_DELETE, OP_INSERT
from mainspring.engine.verify import ledger as ledger_module
from mainspring.engine.verify.ledger import OPEN_S, Ledger
from mainspring.engine.verify.refusal import CannotJudge

SPAN_S = 1000


def ledger_of_two(step_s: int = 10) -> Ledger:
    """Two jobs that run each second, judged in short steps."""
    ledger = Ledger(owed_of({"job_id": 7, "every_s": 1}, {"job_id": -3, "every_s": 1}), NOW, NOW + SPAN_S)
    ledger.step_s = step_s
    return ledger


def take(ledger: Ledger, *runs: tuple[int, int]) -> None:
    job_ids, at = np.array(runs, np.int64).reshape(-1, 2).T
    ledger.take(job_ids, at)


def everything(job_id: int) -> list[tuple[int, int]]:
    return [(job_id, at) for at in range(NOW, NOW + SPAN_S)]


def absent(ledger: Ledger) -> int:
    return sum(map(len, ledger.absent.values()))


@pytest.mark.parametrize("step_s", [1, 7, 10, 600])
@pytest.mark.parametrize("at_once", [1, 97, 2000])
def test_every_run_once_is_clean_whatever_the_steps_and_chunks(step_s: int, at_once: int) -> None:
    ledger = ledger_of_two(step_s)
    runs = sorted(everything(7) + everything(-3), key=lambda run: run[1])
    for start in range(0, len(runs), at_once):
        take(ledger, *runs[start : start + at_once])
    ledger.finish()
    assert (ledger.owed, ledger.stored, absent(ledger)) == (2 * SPAN_S, 2 * SPAN_S, 0)
    assert ledger.duplicate.count == ledger.unexpected.count == 0


def test_a_stream_in_the_wrong_order_is_judged_the_same() -> None:
    ledger = ledger_of_two()
    for run in reversed(everything(7) + everything(-3)):
        take(ledger, run)
    ledger.finish()
    assert (ledger.stored, absent(ledger), ledger.duplicate.count, ledger.unexpected.count) == (2000, 0, 0, 0)


@pytest.mark.parametrize("apart_s", [0, 5, OPEN_S + 20, SPAN_S - 50])
def test_a_duplicate_is_found_however_far_apart(apart_s: int) -> None:
    ledger = ledger_of_two()
    again = (7, NOW + 20)
    for job_id, at in everything(7):
        take(ledger, (job_id, at), (-3, at))
        if at == again[1] + apart_s:
            take(ledger, again)
    ledger.finish()
    assert ledger.duplicate.ids == [f"7@{NOW + 20}"]
    assert (ledger.duplicate.count, ledger.unexpected.count, absent(ledger)) == (1, 0, 0)


def test_a_run_that_comes_very_late_is_not_missing_and_the_second_time_a_duplicate() -> None:
    ledger = ledger_of_two()
    late = (7, NOW + 3)
    take(ledger, *[run for run in everything(7) + everything(-3) if run != late])
    take(ledger, late)
    take(ledger, late)
    take(ledger, (-3, NOW + SPAN_S), (7, NOW - 1))  # beside the span
    ledger.finish()
    assert (ledger.stored, absent(ledger)) == (2 * SPAN_S, 0)
    assert ledger.duplicate.ids == [f"7@{NOW + 3}"]


def test_what_nobody_owes_is_unexpected_early_or_late() -> None:
    ledger = Ledger(owed_of({"job_id": 7, "every_s": 2, "phase_s": 0}), NOW, NOW + SPAN_S)
    ledger.step_s = 10
    take(ledger, (7, NOW + 1), (8, NOW + 1))
    take(ledger, *[(7, at) for at in range(NOW, NOW + SPAN_S, 2)])
    take(ledger, (7, NOW + 3))
    ledger.finish()
    assert sorted(ledger.unexpected.ids) == [f"7@{NOW + 1}", f"7@{NOW + 3}", f"8@{NOW + 1}"]
    assert (ledger.unexpected.count, ledger.duplicate.count, absent(ledger)) == (3, 0, 0)


def test_a_run_that_a_change_left_open_may_come_or_not_but_not_twice() -> None:
    owed = changed({"job_id": 7, "op": OP_DELETE}, change(OP_INSERT, NOW + 10, job_id=7, every_s=1))
    ledger = Ledger(owed, NOW, NOW + 20)
    take(ledger, *[(7, at) for at in range(NOW + 11, NOW + 20)])
    take(ledger, (7, NOW + 11))
    ledger.finish()
    assert (ledger.owed, ledger.either, absent(ledger)) == (7, 2, 0)
    assert (ledger.duplicate.ids, ledger.unexpected.ids) == ([f"7@{NOW + 11}"], [])


def test_more_absent_runs_than_memory_is_kept_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "ABSENT_MAX", 100)
    with pytest.raises(CannotJudge, match="shorter"):
        ledger_of_two().finish()


def test_ids_are_kept_of_the_first_and_all_are_counted() -> None:
    ledger = Ledger(owed_of({"job_id": 7, "every_s": 1}), NOW, NOW + 3000)
    take(ledger, *[(9, at) for at in range(NOW, NOW + 3000)])
    assert ledger.unexpected.count == 3000
    assert len(ledger.unexpected.ids) == ledger_module.IDS_MAX
