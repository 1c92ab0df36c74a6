"""Window, boost, spread and one-shots: the compiled way against the twin, and each rule by itself."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from schedule_cases import PATIENT, Y1990, instants, job_ids, schedules

from mainspring.wheel import twin
from mainspring.wheel.definition import NEVER, Schedule
from mainspring.wheel.errors import ScheduleError
from mainspring.wheel.schedule import Plan, next_fires, phase_of, spread_of

NOON = 1_764_504_000  # 2025-11-30 12:00 UTC
CRONS = st.sampled_from(
    [
        "*/10 * * * *",
        "30 2 * * *",
        "0 9 * * 1-5",
        "@hourly",
        "15,45 1-3 * * *",
        "0 12 */2 * *",
        "H * * * *",
        "H(0-29)/10 H/6 * * *",
        "H 0 2,L-1,15W * FRI#2,1L",
        "H/20 */30 * * * *",
        "7,50 0 3 * * *",
    ]
)


@settings(PATIENT, max_examples=150)
@given(schedules(CRONS), st.none() | job_ids, st.integers(-150_000, 150_000))
def test_c_and_python_agree_on_every_kind_of_schedule(
    schedule: Schedule, job_id: int | None, offset: int
) -> None:
    assume(job_id is not None or "H" not in (schedule.cron or ""))
    after = (schedule.starts_at or schedule.run_at or schedule.boost_until or Y1990 + 10**9) + offset
    assert next_fires(schedule, job_id, after, 4) == twin.next_fires(schedule, job_id, after, 4)


@PATIENT
@given(schedules(CRONS), job_ids, instants(Y1990 + 10**9, Y1990 + 2 * 10**9), st.data())
def test_next_is_the_same_asked_from_any_moment_before_it(
    schedule: Schedule, job_id: int, after: int, data: st.DataObject
) -> None:
    plan = Plan(schedule, job_id)
    due = plan.next(after)
    assert due > after
    between = data.draw(st.integers(after, min(due - 1, after + 10**8)))
    assert plan.next(between) == due
    assert Plan(schedule, job_id).next(between) == due


def test_runs_lie_in_the_half_open_window() -> None:
    schedule = Schedule(every_s=10, phase_s=0, starts_at=NOON, ends_at=NOON + 30)
    assert next_fires(schedule, 1, NOON - 500, 9) == [NOON, NOON + 10, NOON + 20]


def test_the_window_judges_the_spread_instant_and_not_its_base() -> None:
    job_id = next(i for i in range(1000) if spread_of(i, 60) == 40)
    late = Schedule(cron="@hourly", starts_at=NOON + 30, ends_at=NOON + 41)
    assert next_fires(late, job_id, NOON - 9999, 2) == [NOON + 40]
    early = Schedule(cron="@hourly", starts_at=NOON, ends_at=NOON + 40)
    assert next_fires(early, job_id, NOON - 9999, 2) == []


@pytest.mark.parametrize(("window", "fires"), [((5, 6), [5]), ((6, 9), []), ((1, 5), []), ((None, 6), [5])])
def test_a_one_shot_runs_once_and_only_inside_its_window(
    window: tuple[int | None, int], fires: list[int]
) -> None:
    assert next_fires(Schedule(run_at=5, starts_at=window[0], ends_at=window[1]), 1, -100, 3) == fires
    assert next_fires(Schedule(run_at=5), 1, 5, 3) == []


def test_a_boost_is_fast_and_lets_go_by_itself() -> None:
    until = NOON + 60
    schedule = Schedule(every_s=3600, boost_every_s=7, boost_until=until)
    fires = next_fires(schedule, 42, NOON, 12)
    fast = [instant for instant in fires if instant < until]
    assert len(fast) in (8, 9)
    assert {instant % 7 for instant in fast} == {phase_of(42, 7)}
    assert {instant % 3600 for instant in fires if instant >= until} == {phase_of(42, 3600)}


def test_a_boost_of_a_cron_job_ends_in_its_own_times() -> None:
    schedule = Schedule(cron="0 12 * * *", jitter_s=0, boost_every_s=600, boost_until=NOON + 1800)
    fires = next_fires(schedule, 42, NOON, 5)
    assert fires[-2:] == [NOON + 86_400, NOON + 2 * 86_400]
    assert len(fires) == 5


def test_the_phase_is_the_owners_where_given() -> None:
    assert next_fires(Schedule(every_s=60, phase_s=7), 42, NOON, 2) == [NOON + 7, NOON + 67]
    assert next_fires(Schedule(every_s=60, phase_s=67), 42, NOON, 1) == [NOON + 7]


def test_cron_jobs_are_spread_over_their_minute_unless_told_otherwise() -> None:
    ids = range(2000)
    spread = {Plan(Schedule(cron="@daily"), i).next(NOON) % 86_400 for i in ids}
    assert spread == set(range(60))
    for jitter_s in (0, 1):
        assert {Plan(Schedule(cron="@daily", jitter_s=jitter_s), i).next(NOON) % 86_400 for i in ids} == {0}


def test_an_h_and_the_default_spread_reach_every_second_of_the_hour() -> None:
    every_hour = Schedule(cron="H * * * *")
    assert {Plan(every_hour, i).next(NOON) % 3600 for i in range(60_000)} == set(range(3600))


def test_six_fields_fire_on_their_second_unless_told_to_spread() -> None:
    exact = Schedule(cron="*/20 * * * * *")
    assert {tuple(next_fires(exact, i, NOON, 2)) for i in range(50)} == {(NOON + 20, NOON + 40)}
    spread = Schedule(cron="*/20 * * * * *", jitter_s=600)
    assert {Plan(spread, i).next(NOON - 1) - NOON for i in range(2000)} == set(range(20))


def test_an_h_without_an_id_is_refused_by_name() -> None:
    with pytest.raises(ScheduleError, match=r"'H 4 [*] [*] [*]' draws its H from the job's id; give the id"):
        next_fires(Schedule(cron="H 4 * * *"), None, NOON, 1)


def test_a_spread_longer_than_the_gap_is_cut_to_it() -> None:
    schedule = Schedule(cron="*/5 * * * *", jitter_s=86_400)
    for job_id in range(200):
        fires = next_fires(schedule, job_id, NOON, 50)
        assert {instant - spread_of(job_id, 300) for instant in fires} <= set(
            range(NOON - 300, NOON + 15_300, 300)
        )
        assert len(set(fires)) == 50
        assert fires == sorted(fires)


def test_without_an_id_nothing_is_hashed() -> None:
    assert next_fires(Schedule(cron="@hourly", jitter_s=600), None, NOON, 2) == [NOON + 3600, NOON + 7200]
    assert next_fires(Schedule(every_s=60), None, NOON, 1) == [NOON + 60]


def test_a_bad_expression_or_zone_is_refused_when_the_schedule_is_compiled() -> None:
    with pytest.raises(ScheduleError, match="cron hour: '25' at character 3"):
        Plan(Schedule(cron="0 25 * * *"))
    with pytest.raises(ScheduleError, match="did you mean Europe/Berlin"):
        Plan(Schedule(cron="0 5 * * *", tz="Europe/Brelin"))


def test_never_is_the_answer_when_all_is_over() -> None:
    assert Plan(Schedule(every_s=60, ends_at=NOON), 1).next(NOON) == NEVER
    assert Plan(Schedule(run_at=NOON), 1).next(NOON) == NEVER
