"""Random expressions, zones and instants: the evaluator against a clock played through minute by minute."""

import itertools
import threading

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from schedule_cases import ODD_ZONES, PATIENT, expressions, instants, job_ids, zones

from mainspring.wheel import twin
from mainspring.wheel.cron_eval import CompiledCron
from mainspring.wheel.definition import NEVER
from mainspring.wheel.errors import ScheduleError
from mainspring.wheel.zones import load_zone

NOW = 1_764_504_000


def compiled(expression: str, tz: str) -> CompiledCron:
    try:
        return CompiledCron(expression, tz)
    except ScheduleError as refusal:
        assume("never occurs" not in str(refusal))
        raise


def instant_near_a_change(draw: st.DrawFn, tz: str) -> int:
    """Often within hours of a clock change, where the errors live; else anywhere from 1990 to 2100."""
    changes = [int(instant) for instant in load_zone(tz).starts if 631_152_000 < instant < 4_102_444_800]
    if not changes or draw(st.booleans()):
        return draw(instants())
    return draw(st.sampled_from(changes)) + draw(st.integers(-30 * 3600, 4 * 3600))


@st.composite
def moments(draw: st.DrawFn) -> tuple[str, int]:
    tz = draw(zones)
    return tz, instant_near_a_change(draw, tz)


hashed = expressions(hashed=True)


@settings(PATIENT, max_examples=200)
@given(hashed, moments(), job_ids)
def test_the_evaluator_visits_what_a_watched_clock_visits(
    expression: str, moment: tuple[str, int], job_id: int
) -> None:
    tz, after = moment
    cron = compiled(expression, tz)
    for base in itertools.islice(twin.base_instants(expression, tz, after, job_id), 4):
        assert cron.next_unremembered(after, job_id) == base
        after = base


@PATIENT
@given(hashed, moments(), job_ids, st.data())
def test_next_is_later_and_the_same_from_any_moment_between(
    expression: str, moment: tuple[str, int], job_id: int, data: st.DataObject
) -> None:
    tz, after = moment
    cron = compiled(expression, tz)
    due = cron.next(after, job_id)
    assert due > after
    between = data.draw(st.integers(after, due - 1))
    assert cron.next(between, job_id) == cron.next_unremembered(between, job_id) == due


@PATIENT
@given(
    hashed, zones, st.lists(instants(), min_size=2, max_size=12), st.lists(job_ids, min_size=1, max_size=3)
)
def test_the_memo_never_changes_the_answer_whatever_the_order_of_questions(
    expression: str, tz: str, questions: list[int], ids: list[int]
) -> None:
    cron = compiled(expression, tz)
    fires = [cron.next_unremembered(question, ids[0]) for question in questions]
    for question in (*questions, *fires, *questions):
        for job_id in ids:
            assert cron.next(question, job_id) == cron.next_unremembered(question, job_id)


@PATIENT
@given(hashed, moments(), job_ids)
def test_the_fire_before_a_moment_is_the_last_one(
    expression: str, moment: tuple[str, int], job_id: int
) -> None:
    """A spread job asks from a moment past its base instant, so the memo must know that one."""
    tz, at = moment
    cron = compiled(expression, tz)
    base = cron.last(at, job_id)
    assert base <= at < cron.next_unremembered(base, job_id)
    assert cron.next_unremembered(base - 1, job_id) == base
    assert cron.last(base, job_id) == base


@settings(PATIENT, max_examples=200)
@given(hashed, moments(), job_ids)
def test_every_call_ends(expression: str, moment: tuple[str, int], job_id: int) -> None:
    """How soon is measured by `make bench`; an endless search would hang here."""
    tz, after = moment
    cron = compiled(expression, tz)
    for _ in range(5):
        after = cron.next_unremembered(after, job_id)
    assert after < NEVER


@pytest.mark.parametrize("tz", ODD_ZONES)
@pytest.mark.parametrize(
    ("expression", "days_apart"),
    [
        ("0 0 29 2 *", 8 * 366),  # 1896 to 1904, and 2096 to 2104
        ("0 0 29 2 0", 366),
        ("0 0 29 2 */7", 40 * 366),  # the Sundays of 29 February
        ("0 0 * 2 MON#5", 40 * 366),
        ("0 0 L-28 2 SUN", 366),
        ("59 59 23 31 12 ?", 366),
    ],
)
def test_rare_dates_come_in_every_zone(expression: str, tz: str, days_apart: int) -> None:
    cron = CompiledCron(expression, tz)
    after = 4_000_000_000
    for _ in range(12):
        due = cron.next_unremembered(after)
        assert after < due <= after + days_apart * 86_400
        after = due


def test_a_million_questions_of_one_minute_cost_one_evaluation_a_fire() -> None:
    cron = CompiledCron("* * * * *", "Europe/Berlin")
    cron.next(NOW)
    started_with = cron.evaluations
    for minute in range(100):
        for second in (0, 1, 30, 59, 59, 30, 0):
            assert cron.next(NOW + 60 * minute + second) == NOW + 60 * (minute + 1)
    assert cron.evaluations - started_with <= 100


def test_questions_on_both_sides_of_a_fire_do_not_evaluate_again() -> None:
    cron = CompiledCron("0 * * * *", "UTC")
    assert cron.next(NOW) == NOW + 3600
    settled = cron.evaluations
    for _ in range(1000):
        assert cron.next(NOW + 3600) == NOW + 7200
        assert cron.next(NOW + 3599) == NOW + 3600
    assert cron.evaluations == settled


def test_a_million_jobs_with_an_h_cost_one_evaluation_an_outcome_and_fire() -> None:
    cron = CompiledCron("H * * * *", "Europe/Berlin")
    ids = range(20_000)
    assert {cron.outcome(job_id) for job_id in ids} == set(range(60))
    for job_id in ids:
        cron.next(NOW, job_id)
    started_with = cron.evaluations
    assert started_with == 4 * 60
    for hour in range(1, 5):  # the first of these fires was foreseen
        for job_id in ids:
            cron.next(NOW + 3600 * hour, job_id)
    assert cron.evaluations - started_with == 3 * 60


def test_outcomes_that_crowd_each_other_out_stay_right() -> None:
    """More of them than the shared table has places: 60 seconds of 60 minutes of 24 hours."""
    crons = [CompiledCron("H H H * * *", tz) for tz in ("Europe/Berlin", "Asia/Tokyo")]
    for job_id in range(0, 60_000, 3):
        for cron in crons:
            assert cron.next(NOW, job_id) == cron.next_unremembered(NOW, job_id)


def test_a_group_made_anew_never_reads_what_an_earlier_one_left() -> None:
    for minute in range(200):
        cron = CompiledCron(f"H {minute % 24} * * *", "UTC")
        assert cron.next(NOW, 7) == cron.next_unremembered(NOW, 7)


@pytest.mark.parametrize("expression", ["*/7 * * * *", "H/7 * * * *"])
def test_threads_that_share_a_group_read_whole_answers(expression: str) -> None:
    cron = CompiledCron(expression, "Pacific/Chatham")
    answers = {after: cron.next_unremembered(after, 5) for after in range(NOW, NOW + 200_000, 61)}
    wrong: list[int] = []

    def ask(first: int) -> None:
        order = list(answers)[first:] + list(answers)[:first]
        for _ in range(3):
            wrong.extend(after for after in order if cron.next(after, 5) != answers[after])

    threads = [threading.Thread(target=ask, args=(start,)) for start in (0, 500, 1000, 2000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_two_groups_of_one_zone_outlive_each_other() -> None:
    first, second = CompiledCron("0 3 * * *", "Asia/Tokyo"), CompiledCron("0 4 * * *", "Asia/Tokyo")
    due = first.next(NOW)
    del first
    assert second.next(NOW) == due + 3600
