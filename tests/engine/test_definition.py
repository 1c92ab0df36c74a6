"""Definitions as users write them: what is taken, and how each fault is told."""

from datetime import UTC, datetime

import pytest

from mainspring.engine.jobs.definition import Definition, DefinitionError, judge_cron, read_definition


def problems_of(fields: dict[str, object]) -> dict[str, str]:
    with pytest.raises(DefinitionError) as refused:
        read_definition(fields)
    return {problem.field: problem.message for problem in refused.value.problems}


def test_a_schedule_alone_makes_a_job_and_the_rest_takes_its_default() -> None:
    assert read_definition({"every_s": 60}) == Definition(every_s=60)
    assert Definition(every_s=60).route == "default"
    assert Definition(every_s=60).catch_up == "all"


def test_every_column_can_be_given() -> None:
    fields = {
        "id": -(2**63), "key": "wéb-1", "cron": "*/5 9-17 * * MON-FRI", "tz": "Europe/Vienna", "phase_s": 0,
        "jitter_s": 2**31 - 1, "starts_at": "2026-01-01T00:00:00+01:00", "ends_at": 4_102_444_800,
        "boost_every_s": 5, "boost_until": "2026-06-01T00:00:00.000001Z", "catch_up": "latest",
        "first_run_soon": True, "enabled": False, "route": "a.b-c._d", "payload": {"ä": [1, None]},
    }  # fmt: skip
    definition = read_definition(fields)
    assert definition.starts_at == datetime(2025, 12, 31, 23, tzinfo=UTC)
    assert definition.ends_at == datetime(2100, 1, 1, tzinfo=UTC)
    assert definition.boost_until == datetime(2026, 6, 1, 0, 0, 0, 1, tzinfo=UTC)
    assert definition.payload == '{"ä": [1, null]}'
    assert definition._asdict().keys() == fields.keys() | {"every_s", "run_at"}


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("every_s", 0, "1 to 2147483647"),
        ("every_s", -1, "1 to 2147483647"),
        ("every_s", 2**31, "out of range"),
        ("every_s", True, "true is no whole number"),
        ("every_s", "60", '"60" is no whole number'),
        ("every_s", [60], "a list is no whole number"),
        ("id", 2**63, "out of range"),
        ("id", -(2**63) - 1, "out of range"),
        ("key", "", "0 bytes"),
        ("key", "k" * 256, "256 bytes"),
        ("key", "ü" * 128, "256 bytes"),
        ("key", "0042", "all digits"),
        ("key", "a\0b", "U+0000"),
        ("key", "\ud800", "surrogate"),
        ("key", 7, "no text"),
        ("route", "", "cannot end a subject"),
        ("route", "a b", "cannot end a subject"),
        ("route", "a\r\nPUB x", "cannot end a subject"),
        ("route", "a\n", "cannot end a subject"),
        ("route", "a.*", "cannot end a subject"),
        ("route", "a.>", "cannot end a subject"),
        ("route", "a.", "cannot end a subject"),
        ("route", "a..b", "cannot end a subject"),
        ("route", "é", "cannot end a subject"),
        ("route", "a.b.c.d.e.f.g.h.i", "1 to 8 tokens"),
        ("route", "r" * 129, "128 characters"),
        ("catch_up", "newest", "all, latest, none"),
        ("enabled", 1, "true nor false"),
        ("enabled", "true", "true nor false"),
        ("phase_s", -1, "0 to 2147483647"),
        ("jitter_s", 2**31, "out of range"),
        ("starts_at", "2026-01-01T00:00:00", "no offset"),
        ("starts_at", "soon", "no time"),
        ("ends_at", 1_764_500_000_000, "not milliseconds"),
        ("ends_at", "infinity", "no time"),
        ("payload", "x" * 65_535, "65537 bytes"),
        ("payload", {"a": "\0"}, "U+0000"),
        ("payload", ["\ud83d"], "surrogate"),
    ],
)
def test_a_bad_value_is_named_with_its_field_and_the_mend(field: str, value: object, told: str) -> None:
    problems = problems_of({"cron": "@daily", field: value} if field != "every_s" else {field: value})
    assert list(problems) == [field]
    assert told in problems[field]


def test_all_faults_of_a_row_are_told_at_once() -> None:
    problems = problems_of({"every_s": 0, "route": "a b", "key": "12", "evry": 1, "ends_at": "x"})
    assert problems.keys() == {"every_s", "route", "key", '"evry"', "ends_at"}


def test_a_value_is_shown_shortened_and_in_plain_ascii() -> None:
    told = problems_of({"every_s": 5, "route": "\x1b[31m" + "x" * 10_000})["route"]
    assert told.isascii()
    assert len(told) < 200
    assert "\x1b" not in told


def test_an_unknown_field_gets_the_name_it_was_meant_to_be() -> None:
    assert "did you mean every_s?" in problems_of({"every": 5})['"every"']
    assert "known fields are id, key" in problems_of({"every_s": 5, "zzz": 5})['"zzz"']
    assert (
        "set by the database"
        in problems_of({"every_s": 5, "updated_at": "2026-01-01T00:00:00Z"})["updated_at"]
    )


@pytest.mark.parametrize("fields", [{}, {"key": "a"}, {"every_s": None, "cron": None}])
def test_a_job_without_a_schedule_is_refused(fields: dict[str, object]) -> None:
    assert "exactly one of every_s, cron and run_at" in problems_of(fields)[""]


def test_two_schedules_in_a_row_are_refused_with_both_named() -> None:
    assert "every_s and run_at" in problems_of({"every_s": 5, "run_at": 10})["run_at"]


def test_a_bad_schedule_is_not_also_called_a_missing_one() -> None:
    assert problems_of({"every_s": 1.5}).keys() == {"every_s"}


def test_null_is_the_default_except_for_the_payload() -> None:
    assert read_definition({"every_s": 5, "tz": None, "route": None, "enabled": None}) == Definition(
        every_s=5
    )
    assert read_definition({"every_s": 5, "payload": None}).payload == "null"
    assert read_definition({"every_s": 5}).payload is None


def test_a_boost_needs_both_of_its_columns_and_a_repeating_job() -> None:
    assert "both or neither" in problems_of({"every_s": 60, "boost_every_s": 5})["boost_until"]
    assert "both or neither" in problems_of({"every_s": 60, "boost_until": 5})["boost_every_s"]
    assert "one-shot" in problems_of({"run_at": 9, "boost_every_s": 5, "boost_until": 5})["boost_every_s"]


def test_an_empty_window_is_refused() -> None:
    assert "not after starts_at" in problems_of({"every_s": 60, "starts_at": 7, "ends_at": 7})["ends_at"]


def test_a_bad_expression_and_a_bad_zone_are_told_by_field_and_token() -> None:
    problems = problems_of({"cron": "61 * * * *", "tz": "Europe/Viena"})
    assert "minute" in problems["cron"]
    assert "'61'" in problems["cron"]
    assert "Europe/Vienna" in problems["tz"]


def test_a_date_that_never_occurs_is_refused_at_once() -> None:
    assert "never occurs" in problems_of({"cron": "0 0 30 2 *"})["cron"]


def test_what_the_engine_would_set_aside_says_why_and_a_good_job_does_not() -> None:
    assert "'99'" in (Definition(cron="99 * * * *").quarantine_reason() or "")
    assert Definition(cron="9 * * * *").quarantine_reason() is None
    assert judge_cron("@daily", "Nowhere/Land") is not None


def test_a_sub_second_instant_is_scheduled_at_the_second_after_it() -> None:
    job = read_definition({"run_at": "2026-01-01T00:00:00.000001Z", "ends_at": "1969-12-31T23:59:59.5Z"})
    assert job.schedule().run_at == 1_767_225_601
    assert job.schedule().ends_at == 0


def test_the_payload_limit_counts_the_text_as_postgres_spells_it() -> None:
    # `{"a": "..."}`: nine bytes around the string.
    assert read_definition({"every_s": 5, "payload": {"a": "x" * 65_527}}).payload is not None
    assert "65537 bytes" in problems_of({"every_s": 5, "payload": {"a": "x" * 65_528}})["payload"]
