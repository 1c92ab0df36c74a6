"""Why a run did or did not come: each rule with its reason, and the verdict against the schedule itself."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_cases import PATIENT, expressions, job_ids, zones

from mainspring.engine.jobs.cron_words import cron_words
from mainspring.engine.jobs.definition import Definition
from mainspring.engine.jobs.explain import Verdict, facts, runs_after, runs_before, verdict
from mainspring.engine.jobs.instants import instant_of_epoch, read_instant
from mainspring.wheel import Schedule, ScheduleError, next_fires, parse_cron, phase_of, spread_of

NOON = 1_764_504_000  # 2025-11-30 12:00 UTC, a Sunday
SPRING, AUTUMN = 1_774_746_000, 1_792_890_000  # Vienna 2026: 02:00 becomes 03:00, and 03:00 becomes 02:00


def judged(at: int, *, now: int = NOON, **fields: Any) -> Verdict:
    return verdict(Definition(id=42, **fields), at, now, 90)


def epoch(text: str) -> int:
    return int(read_instant(text).timestamp())


CASES: list[tuple[dict[str, Any], int, bool, str]] = [
    ({"every_s": 60}, NOON + 1, False, f"off the grid: the grid is every 60 s at phase {phase_of(42, 60)} s"),
    ({"every_s": 60, "phase_s": 1}, NOON + 1, True, "the grid is every 60 s at phase 1 s"),
    ({"every_s": 60, "phase_s": 1, "enabled": False}, NOON + 1, False, "the job was paused then"),
    (
        {"every_s": 60, "phase_s": 0, "starts_at": instant_of_epoch(NOON + 60)},
        NOON,
        False,
        "outside the window: it starts at 2025-11-30T12:01:00Z",
    ),
    (
        {"every_s": 60, "phase_s": 0, "ends_at": instant_of_epoch(NOON)},
        NOON,
        False,
        "outside the window: it ended at 2025-11-30T12:00:00Z",
    ),
    (
        {"every_s": 60, "phase_s": 0, "boost_every_s": 7, "boost_until": instant_of_epoch(NOON + 999)},
        next(at for at in range(NOON, NOON + 600, 60) if at % 7 != phase_of(42, 7)),
        False,
        "the job was boosted until 2025-11-30T12:16:39Z: until then it runs every 7 s",
    ),
    ({"run_at": instant_of_epoch(NOON)}, NOON, True, "it is a one-shot at 2025-11-30T12:00:00Z"),
    ({"run_at": instant_of_epoch(NOON)}, NOON + 5, False, "it is a one-shot at 2025-11-30T12:00:00Z"),
    (
        {"cron": "0 12 * * *"},
        NOON,
        False,
        f"spread: 2025-11-30T12:00:00+00:00 is named, and the id puts its run {spread_of(42, 60)} s after it",
    ),
    (
        {"cron": "0 12 * * *"},
        NOON + spread_of(42, 60),
        True,
        f"and the id spreads it by {spread_of(42, 60)} s of 60 s",
    ),
    (
        {"cron": "30 9-11 * * MON", "jitter_s": 0},
        NOON,
        False,
        "the wall shows 2025-11-30T12:00:00+00:00, and minute 0 is not 30 and hour 12 is not 9, 10 or 11",
    ),
    ({"cron": "0 12 * * MON", "jitter_s": 0}, NOON, False, "Sunday 30 is no day that it names"),
    (
        {"cron": "0 12 L * *", "jitter_s": 0},
        NOON,
        True,
        "2025-11-30T12:00:00+00:00 is named by the expression",
    ),
    (
        {"cron": "30 2 * * *", "tz": "Europe/Vienna", "jitter_s": 0},
        SPRING,
        True,
        "gap: its time was skipped, so it runs at the first moment after",
    ),
    (
        {"cron": "30 2 * * *", "tz": "Europe/Vienna", "jitter_s": 0},
        SPRING + 1800,
        False,
        "the clock of Europe/Vienna went from 02:00 to 03:00 at 2026-03-29T01:00:00Z",
    ),
    (
        {"cron": "30 2 * * *", "tz": "Europe/Vienna", "jitter_s": 0},
        AUTUMN + 1800,
        False,
        "overlap: 2026-10-25T02:30:00+01:00 is shown for the second time, and a fixed time runs at the first",
    ),
    ({"cron": "61 * * * *"}, NOON, False, "the job was quarantined: cron: minute: '61'"),
    ({"cron": "0 * * * *", "tz": "Mars/Olympus"}, NOON, False, "the job was quarantined: tz: 'Mars/Olympus'"),
]


@pytest.mark.parametrize(("fields", "at", "due", "reason"), CASES)
def test_each_rule_gives_its_reason(fields: dict[str, Any], at: int, due: bool, reason: str) -> None:
    found = judged(at, **fields)
    assert found.due is due
    assert any(reason in told for told in found.reasons), found.reasons


DELIVERIES: list[tuple[dict[str, Any], int, str]] = [
    ({}, -10, "it is still to come"),
    ({}, 90, "if the engine missed that, it is owed for 90 s"),
    ({}, 91, "older than the catch-up, 90 s"),
    ({"catch_up": "latest"}, 91, "older than the catch-up, 60 s"),
    ({"catch_up": "none"}, 0, "catch_up is none"),
    ({"every_s": 86_400}, 86_400, "it is owed for 86400 s"),
    ({"every_s": 7200}, 7201, "older than the catch-up, 7200 s"),
    ({"every_s": 3600}, 91, "older than the catch-up, 90 s"),
    ({"every_s": None, "run_at": instant_of_epoch(NOON)}, 80_000, "it is owed for 86400 s"),
]


@pytest.mark.parametrize(("fields", "age_s", "told"), DELIVERIES)
def test_a_due_run_is_told_with_what_is_owed_of_it(fields: dict[str, Any], age_s: int, told: str) -> None:
    definition = {"every_s": 60} | fields
    if definition["every_s"]:
        definition["phase_s"] = NOON % definition["every_s"]
    found = judged(NOON, now=NOON + age_s, **definition)
    assert found.due
    assert told in found.reasons[-1]


def test_a_job_that_was_not_there_has_no_run() -> None:
    assert verdict(None, NOON, NOON, 90).reasons == ["the job was not there yet: it was created later"]


@settings(PATIENT, max_examples=200)
@given(expressions(hashed=True), zones, job_ids, st.none() | st.integers(0, 7200), st.integers(0, 90))
def test_the_verdict_is_that_of_the_schedule(
    expression: str, tz: str, job_id: int, jitter_s: int | None, offset: int
) -> None:
    job = Definition(id=job_id, cron=expression, tz=tz, jitter_s=jitter_s)
    try:
        (due,) = next_fires(job.schedule(), job_id, NOON, 1)
    except ScheduleError:
        assert not verdict(job, NOON, NOON, 90).due
        return
    assert verdict(job, due, NOON, 90).due
    beside = due - offset
    found = verdict(job, beside, NOON, 90)
    assert found.due is (next_fires(job.schedule(), job_id, beside - 1, 1) == [beside])
    assert found.reasons


@settings(PATIENT, max_examples=100)
@given(
    st.sampled_from(["*/10 * * * *", "0 9 * * MON", "0 0 29 2 *", "H H * * *"]), job_ids, st.integers(1, 5)
)
def test_runs_before_are_the_last_ones(cron: str, job_id: int, count: int) -> None:
    schedule = Schedule(cron=cron)
    before = runs_before(schedule, job_id, NOON, count, 0)
    assert len(before) == count
    assert before[-1] <= NOON
    assert next_fires(schedule, job_id, before[0] - 1, count + 1)[:-1] == before
    assert runs_after(schedule, job_id, NOON, 1)[0] > NOON


def test_no_run_lies_before_the_job_was_there() -> None:
    schedule = Schedule(every_s=60, phase_s=0)
    assert runs_before(schedule, 1, NOON, 5, NOON - 60) == [NOON - 60, NOON]
    assert runs_before(schedule, 1, NOON, 5, NOON + 1) == []


WORDS = [
    ("*/15 9-17 * * MON-FRI", "at every 15 minutes from minute 0 of hours 9 to 17 on Monday to Friday"),
    ("0 9,17 1,15 * *", "at 09:00 and 17:00 on days 1 and 15"),
    ("* * * * *", "at every minute of every hour"),
    ("30 4 L-2,LW JAN-MAR 5L", "at 04:30 on 2 days before the last and the last Monday to Friday and on the"),
    ("0 0 */2 * 1", "if that is Monday"),
    ("10 0 0 1 1 *", "at 00:00:10 on day 1 in January"),
    ("*/10 * * * * *", "at every 10 seconds from second 0 of every minute of every hour"),
    ("H H(0-3) * * *", "at minute one of 0 to 59 drawn by id of hour one of 0 to 3 drawn by id"),
    ("0 12 15W * FRI#2", "at 12:00 on the Monday to Friday nearest to day 15 and on the second Friday"),
]


@pytest.mark.parametrize(("expression", "words"), WORDS)
def test_an_expression_is_told_in_words(expression: str, words: str) -> None:
    assert words in cron_words(parse_cron(expression))


@PATIENT
@given(expressions(hashed=True))
def test_every_expression_has_words(expression: str) -> None:
    try:
        spec = parse_cron(expression)
    except ScheduleError:
        return
    assert cron_words(spec).startswith("at ")
    assert cron_words(spec.drawn(tuple(0 for _ in spec.draws))).isprintable()


def test_the_facts_name_shard_phase_zone_and_draws() -> None:
    told = facts(Definition(id=42, cron="H H * * *", tz="Asia/Tokyo"))
    assert told["shard"] == "181 of 256"
    assert told["zone"].startswith("Asia/Tokyo, by tzdata 20")
    assert told["in words"] == "at 20:11"
    assert told["spread"] == f"{spread_of(42, 60)} s into 60 s, cut to the gap before the next"
    assert facts(Definition(id=42, every_s=60))["phase"] == f"{phase_of(42, 60)} s, hashed from the id"
    assert facts(Definition(id=42, run_at=datetime(2030, 1, 1, tzinfo=UTC)))["schedule"].startswith(
        "once at 2030"
    )
