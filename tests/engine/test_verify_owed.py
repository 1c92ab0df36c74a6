"""What verify says was owed, held against the twin of the schedule code, second by second."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from schedule_cases import ODD_ZONES, PATIENT, expressions, vectors

from mainspring.changelog_tailer import (
    BEGINNING,
    CATCH_UP_ALL,
    CATCH_UP_NONE,
    NEVER,
    OP_DELETE,
    OP_INSERT,
    OP_LOAD,
    OP_UPDATE,
    ROW,
)
from mainspring.engine.verify.crons import spread
from mainspring.engine.verify.effect import Effect
from mainspring.engine.verify.history import history_of
from mainspring.engine.verify.owed import Owed
from mainspring.engine.verify.verifying import due_with_policies
from mainspring.engine.verify.wall import base_instants
from mainspring.wheel import ScheduleError, parse_cron
from mainspring.wheel.definition import Schedule
from mainspring.wheel.twin import base_instants as watched
from mainspring.wheel.twin import job_hash, next_fires, spread_of, words_of

NOW = 1_764_500_000
NO_ROWS = np.empty(0, ROW)
SLACK_S = 2


def rows(*definitions: dict[str, Any]) -> NDArray[np.void]:
    """Rows as the decoder gives them; what a definition leaves out is null."""
    made = np.zeros(len(definitions), ROW)
    made["run_at"] = made["ends_at"] = NEVER
    made["starts_at"] = made["boost_until"] = BEGINNING
    made["phase_s"] = made["jitter_s"] = -1
    made["enabled"] = 1
    for row, definition in zip(made, definitions, strict=True):
        for name, value in definition.items():
            row[name] = value
    return made


def change(op: int, at: float, **definition: Any) -> dict[str, Any]:
    """A row of the log, the only one of its transaction."""
    return {"op": op, "changed_at": int(at * 1e6), "seq": int(at * 1e6)} | definition


def owed_of(*table: dict[str, Any], crons: tuple[tuple[str, str], ...] = ()) -> Owed:
    history = history_of(rows(*table), NO_ROWS, NO_ROWS, crons=[("", ""), *crons], effect=Effect(SLACK_S))
    return Owed(history)


def changed(before: dict[str, Any], *changes: dict[str, Any]) -> Owed:
    """One job that is changed."""
    history = history_of(
        NO_ROWS, rows(before), rows(*changes), crons=[("", "")], effect=Effect(slack_s=SLACK_S)
    )
    return Owed(history)


def runs(owed: Owed, first: int, stop: int) -> tuple[list[int], list[int]]:
    """Instants that must and that may have a run, of a history with one job."""
    step = owed.step(first, stop)
    assert owed.jobs == 1
    return (step.must + first).tolist(), (step.may + first).tolist()


def fires_within(schedule: Schedule, job_id: int, first: int, stop: int) -> list[int]:
    fires: list[int] = []
    while not fires or fires[-1] < stop:
        following = next_fires(schedule, job_id, fires[-1] if fires else first - 1, 1)
        if not following:
            return fires
        fires += following
    return fires[:-1]


@st.composite
def definitions(draw: st.DrawFn) -> tuple[dict[str, Any], Schedule]:
    """An interval job, with window and boost now and then."""
    fields: dict[str, Any] = {"every_s": draw(st.integers(1, 5000))}
    if draw(st.booleans()):
        fields["phase_s"] = draw(st.integers(0, 10_000))
    if draw(st.booleans()):
        fields["starts_at"] = NOW + draw(st.integers(-500, 500))
        fields["ends_at"] = fields["starts_at"] + draw(st.integers(1, 900))
    if draw(st.booleans()):
        fields |= {
            "boost_every_s": draw(st.integers(1, 500)),
            "boost_until": NOW + draw(st.integers(-99, 900)),
        }
    return fields, Schedule(**fields)


@PATIENT
@given(st.integers(-(2**63), 2**63 - 1), definitions(), st.integers(1, 700))
def test_intervals_run_when_the_twin_says(
    job_id: int, definition: tuple[dict[str, Any], Schedule], span_s: int
) -> None:
    fields, schedule = definition
    must, may = runs(owed_of({"job_id": job_id} | fields), NOW, NOW + span_s)
    assert must == fires_within(schedule, job_id, NOW, NOW + span_s)
    assert may == []


@settings(parent=PATIENT, max_examples=20)
@given(expressions(), st.sampled_from(ODD_ZONES), st.integers(0, 3 * 10**9), st.integers(1, 40_000))
def test_walls_fire_when_a_watcher_of_the_clock_says(
    expression: str, tz: str, first: int, span_s: int
) -> None:
    try:
        parse_cron(expression)
    except ScheduleError:
        return
    found = base_instants(words_of(expression, None), tz, first, first + span_s)
    expected = []
    for instant in watched(expression, tz, first - 1):
        if instant > first + span_s:
            break
        expected.append(instant)
    assert found.tolist() == expected


def test_walls_fire_as_recorded_about_changes_of_the_clock() -> None:
    for case in vectors("cron_dst.jsonl"):
        expected = case["next_epoch"]
        words = words_of(case["expr"], None)
        found = base_instants(words, case["tz"], case["from_epoch"] + 1, expected[-1])
        assert found.tolist() == expected, (case["n"], case["expr"], case["tz"])


@settings(parent=PATIENT, max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(["*/7 * * * *", "* * * * *", "H/3 * * * *", "*/5 * * * * *", "H H * * *", "0 * * * THU"]),
    st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu"]),
    st.integers(1, 10**6),
    st.none() | st.integers(0, 5000),
    st.integers(0, 10**6),
)
def test_cron_jobs_run_when_the_twin_says(
    expression: str, tz: str, job_id: int, jitter_s: int | None, later: int
) -> None:
    fields = {"job_id": job_id, "cron": 1, "jitter_s": -1 if jitter_s is None else jitter_s}
    first = NOW + later
    must, may = runs(owed_of(fields, crons=((expression, tz),)), first, first + 900)
    schedule = Schedule(cron=expression, tz=tz, jitter_s=jitter_s)
    assert must == fires_within(schedule, job_id, first, first + 900)
    assert may == []


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**31 - 1))
def test_spreading_in_halves_is_exact(job_id: int, window_s: int) -> None:
    hashes = np.array([job_hash(job_id)], np.uint64)
    assert spread(hashes, np.array([window_s])).tolist() == [spread_of(job_id, window_s)]


# ------------------------------------------------------------------------------------------------ changes


def test_a_run_beside_a_change_is_owed_only_where_both_definitions_give_it() -> None:
    owed = changed(
        {"job_id": 1, "every_s": 4, "phase_s": 0, "op": OP_LOAD},
        change(OP_UPDATE, NOW + 20.5, job_id=1, every_s=6, phase_s=0),
    )
    must, may = runs(owed, NOW, NOW + 60)
    before = [at for at in range(NOW, NOW + 20) if at % 4 == 0]  # the clocks may differ by a second
    beside = range(NOW + 20, NOW + 23)
    after = [at for at in range(NOW + 23, NOW + 60) if at % 6 == 0]
    assert must == before + [at for at in beside if at % 12 == 0] + after
    assert may == [at for at in beside if (at % 4 == 0) != (at % 6 == 0)]
    assert len(may) == 2


def test_a_run_that_both_definitions_give_is_owed_beside_their_change() -> None:
    owed = changed(
        {"job_id": 1, "every_s": 4, "phase_s": 0, "op": OP_LOAD},
        change(OP_UPDATE, NOW + 20.5, job_id=1, every_s=2, phase_s=0),
    )
    must, may = runs(owed, NOW + 20, NOW + 23)
    assert must == [at for at in range(NOW + 20, NOW + 23) if at % 4 == 0]
    assert may == [at for at in range(NOW + 20, NOW + 23) if at % 4 == 2]
    assert len(must) + len(may) == 2


def test_a_job_owes_nothing_before_its_insert_after_its_delete_and_while_paused() -> None:
    grid = {"job_id": 1, "every_s": 1}
    owed = changed(
        {"job_id": 1, "op": OP_DELETE},
        change(OP_INSERT, NOW + 10, **grid),
        change(OP_UPDATE, NOW + 30, **grid, enabled=0),
        change(OP_UPDATE, NOW + 50, **grid),
        change(OP_DELETE, NOW + 70, job_id=1),
    )
    must, may = runs(owed, NOW, NOW + 100)
    assert must == [*range(NOW + 13, NOW + 30), *range(NOW + 53, NOW + 70)]
    assert may == [at for edge in (10, 30, 50, 70) for at in range(NOW + edge, NOW + edge + 3)]


def test_all_changes_of_one_transaction_are_open_until_its_last() -> None:
    first = change(OP_UPDATE, NOW + 10, job_id=1, every_s=1) | {"seq": int((NOW + 40) * 1e6)}
    history = history_of(
        NO_ROWS,
        rows({"job_id": 1, "every_s": 2, "op": OP_LOAD}, {"job_id": 2, "op": OP_DELETE}),
        rows(first, change(OP_INSERT, NOW + 40, job_id=2, every_s=7)),
        crons=[("", "")],
        effect=Effect(SLACK_S),
    )
    of_first = history.job == 0
    assert history.sure_after[of_first].tolist()[1] == NOW + 42
    assert history.may_after[of_first].tolist()[1] == NOW + 9


def test_while_postgres_was_away_a_change_is_open_until_it_was_back() -> None:
    effect = Effect(SLACK_S, [(NOW + 10, NOW + 60)])
    latest = effect.latest(np.array([NOW + 1.0, NOW + 30.0, NOW + 61.0]))
    assert latest.tolist() == [NOW + 3, NOW + 62, NOW + 63]


def test_a_one_shot_runs_once_known_before_its_instant_or_up_to_a_day_after() -> None:
    def of(committed: float) -> tuple[list[int], list[int]]:
        once = change(OP_INSERT, committed, job_id=1, run_at=NOW + 50)
        return runs(changed({"job_id": 1, "op": OP_DELETE}, once), NOW, NOW + 100)

    assert of(NOW + 10) == ([NOW + 50], [])
    assert of(NOW + 49.5) == ([NOW + 50], [])
    assert of(NOW + 80) == ([NOW + 50], [])
    assert of(NOW + 50 + 86_500) == ([], [])


def test_a_late_one_shot_is_not_owed_yet_while_its_second_is_not_settled() -> None:
    rows_of = (
        rows({"job_id": 1, "op": OP_DELETE}),
        rows(change(OP_INSERT, NOW + 80, job_id=1, run_at=NOW + 50)),
    )
    history = history_of(NO_ROWS, *rows_of, crons=[("", "")], effect=Effect(SLACK_S))
    assert runs(Owed(history, settled=NOW + 81), NOW, NOW + 100) == ([], [NOW + 50])
    assert runs(Owed(history, settled=NOW + 83), NOW, NOW + 100) == ([NOW + 50], [])


def test_a_late_one_shot_that_is_deleted_at_once_may_have_run_or_not() -> None:
    once = change(OP_INSERT, NOW + 80, job_id=1, run_at=NOW + 50)
    owed = changed({"job_id": 1, "op": OP_DELETE}, once, change(OP_DELETE, NOW + 81, job_id=1))
    assert runs(owed, NOW, NOW + 100) == ([], [NOW + 50])


def test_a_one_shot_is_skipped_by_the_policy_and_in_its_second_or_one_soon_after_its_commit() -> None:
    once = {"job_id": 1, "run_at": NOW + 50}
    in_time = changed({"job_id": 1, "op": OP_DELETE}, change(OP_INSERT, NOW + 10, **once, catch_up=2))
    late = changed({"job_id": 1, "op": OP_DELETE}, change(OP_INSERT, NOW + 80.5, **once, catch_up=2))
    for owed, due, until in ((in_time, NOW + 50, NOW + 50), (late, NOW + 81, NOW + 80 + SLACK_S + 1)):
        first, last, policy, _ = due_with_policies(owed.history, np.array([0]), np.array([NOW + 50]))
        assert (first.tolist(), last.tolist(), policy.tolist()) == ([due], [until], [CATCH_UP_NONE])


def test_a_run_is_skipped_by_the_policy_of_its_time() -> None:
    grid = {"job_id": 1, "every_s": 1}
    owed = changed(
        {"op": OP_LOAD, **grid, "catch_up": CATCH_UP_NONE},
        change(OP_UPDATE, NOW + 30, **grid, catch_up=CATCH_UP_ALL),
        change(OP_DELETE, NOW + 60, job_id=1),
    )
    at = np.array([NOW + 10, NOW + 40, NOW + 59])
    found, until, last, first = due_with_policies(owed.history, np.zeros(3, np.int64), at)
    assert found.tolist() == until.tolist() == at.tolist()
    assert last.tolist() == first.tolist() == [CATCH_UP_NONE, CATCH_UP_ALL, CATCH_UP_ALL]


def test_around_a_change_of_policy_a_run_may_have_been_skipped_by_either() -> None:
    grid = {"job_id": 1, "every_s": 1}
    owed = changed(
        {"op": OP_LOAD, **grid, "catch_up": CATCH_UP_NONE},
        change(OP_UPDATE, NOW + 30.6, **grid, catch_up=CATCH_UP_ALL),
    )
    at = np.array([NOW + 29, NOW + 30, NOW + 31, NOW + 32 + SLACK_S])
    _, _, last, first = due_with_policies(owed.history, np.zeros(4, np.int64), at)
    assert last.tolist() == [CATCH_UP_NONE, CATCH_UP_ALL, CATCH_UP_ALL, CATCH_UP_ALL]
    assert first.tolist() == [CATCH_UP_NONE, CATCH_UP_NONE, CATCH_UP_NONE, CATCH_UP_ALL]


@pytest.mark.parametrize(
    ("inserted_at", "due"), [(NOW + 10, NOW + 50), (NOW + 50.2, NOW + 51)], ids=["in time", "late"]
)
def test_a_one_shot_beside_a_change_of_its_policy_was_due_by_the_change_that_brought_it(
    inserted_at: float, due: int
) -> None:
    once = {"job_id": 1, "run_at": NOW + 50}
    owed = changed(
        {"job_id": 1, "op": OP_DELETE},
        change(OP_INSERT, inserted_at, **once, catch_up=CATCH_UP_NONE),
        change(OP_UPDATE, NOW + 50.6, **once, catch_up=CATCH_UP_ALL),
    )
    found, _, _, first = due_with_policies(owed.history, np.array([0]), np.array([NOW + 50]))
    assert (found.tolist(), first.tolist()) == ([due], [CATCH_UP_NONE])


def test_a_one_shot_that_stood_there_before_all_changes_was_due_in_its_second() -> None:
    once = {"job_id": 1, "run_at": NOW + 50, "changed_at": (NOW + 60) * 1_000_000}
    owed = changed({"op": OP_LOAD, **once}, change(OP_UPDATE, NOW + 60, job_id=1, run_at=NOW + 50))
    found, _, _, _ = due_with_policies(owed.history, np.array([0]), np.array([NOW + 50]))
    assert found.tolist() == [NOW + 50]


def test_an_edit_of_what_has_run_does_not_run_it_again() -> None:
    once = {"job_id": 1, "run_at": NOW + 5}
    owed = changed({"op": OP_LOAD, **once}, change(OP_UPDATE, NOW + 60, **once, catch_up=1))
    assert runs(owed, NOW, NOW + 100) == ([NOW + 5], [])


SOON = {"job_id": 1, "every_s": 5000, "phase_s": 0, "first_run_soon": 1}
SOON_AT = NOW + 20 + 1 + job_hash(1) % 5


def test_a_first_run_soon_is_owed_at_the_instant_that_follows_from_the_insert() -> None:
    owed = changed({"job_id": 1, "op": OP_DELETE}, change(OP_INSERT, NOW + 20.7, **SOON))
    assert runs(owed, NOW, NOW + 90) == ([SOON_AT], [])


@pytest.mark.parametrize("gone_s", [0.1, 1.0, 4.0])
def test_a_first_run_soon_may_be_missing_where_the_job_was_deleted_before_it(gone_s: float) -> None:
    changes = change(OP_INSERT, NOW + 20.7, **SOON), change(OP_DELETE, NOW + 20.7 + gone_s, job_id=1)
    assert runs(changed({"job_id": 1, "op": OP_DELETE}, *changes), NOW, NOW + 90) == ([], [SOON_AT])


def test_a_first_run_soon_outside_its_window_is_none() -> None:
    owed = changed({"job_id": 1, "op": OP_DELETE}, change(OP_INSERT, NOW + 20, **SOON, ends_at=SOON_AT))
    assert runs(owed, NOW, NOW + 90) == ([], [])


def test_a_quarantined_job_owes_nothing_and_is_counted() -> None:
    owed = owed_of({"job_id": 1, "cron": 1}, crons=(("61 * * * *", "UTC"),))
    assert runs(owed, NOW, NOW + 4000) == ([], [])
    assert owed.history.quarantined == 1
