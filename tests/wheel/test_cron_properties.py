"""Random expressions, zones and instants: the evaluator against a clock played through minute by minute."""

import itertools
import threading
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from schedule_cases import ODD_ZONES, PATIENT, expressions, instants, zones

from mainspring.wheel import twin
from mainspring.wheel.cron_eval import CompiledCron
from mainspring.wheel.errors import ScheduleError
from mainspring.wheel.zones import load_zone

NOW = 1_764_504_000
CALL_MAX_S = 0.005


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


@settings(PATIENT, max_examples=120)
@given(expressions(), moments())
def test_the_evaluator_visits_what_a_watched_clock_visits(expression: str, moment: tuple[str, int]) -> None:
    tz, after = moment
    cron = compiled(expression, tz)
    for base in itertools.islice(twin.base_instants(expression, tz, after), 4):
        assert cron.next_unremembered(after) == base
        after = base


@PATIENT
@given(expressions(), moments(), st.data())
def test_next_is_later_and_the_same_from_any_moment_between(
    expression: str, moment: tuple[str, int], data: st.DataObject
) -> None:
    tz, after = moment
    cron = compiled(expression, tz)
    due = cron.next(after)
    assert due > after
    between = data.draw(st.integers(after, due - 1))
    assert cron.next(between) == cron.next_unremembered(between) == due


@PATIENT
@given(expressions(), zones, st.lists(instants(), min_size=2, max_size=12))
def test_the_memo_never_changes_the_answer_whatever_the_order_of_questions(
    expression: str, tz: str, questions: list[int]
) -> None:
    cron = compiled(expression, tz)
    for question in (*questions, *[cron.next_unremembered(question) for question in questions], *questions):
        assert cron.next(question) == cron.next_unremembered(question)


@settings(PATIENT, max_examples=200)
@given(expressions(), moments())
def test_every_call_ends_within_milliseconds(expression: str, moment: tuple[str, int]) -> None:
    tz, after = moment
    cron = compiled(expression, tz)
    assert min(timed(cron, after) for _ in range(3)) < CALL_MAX_S


def timed(cron: CompiledCron, after: int) -> float:
    started = time.thread_time()
    cron.next_unremembered(after)
    return time.thread_time() - started


@pytest.mark.parametrize("expression", ["0 0 29 2 *", "* * 29 2 *", "0 0 29 2 */7", "58-59 */3 * * */7"])
@pytest.mark.parametrize("tz", ODD_ZONES)
def test_rare_dates_cost_microseconds_in_every_zone(expression: str, tz: str) -> None:
    cron = CompiledCron(expression, tz)
    assert min(timed(cron, 4_000_000_000) for _ in range(20)) < 100e-6


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


def test_threads_that_share_a_group_read_whole_answers() -> None:
    cron = CompiledCron("*/7 * * * *", "Pacific/Chatham")
    answers = {after: cron.next_unremembered(after) for after in range(NOW, NOW + 200_000, 61)}
    wrong: list[int] = []

    def ask(first: int) -> None:
        order = list(answers)[first:] + list(answers)[:first]
        for _ in range(3):
            wrong.extend(after for after in order if cron.next(after) != answers[after])

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
