"""What an edit makes of a definition."""

from datetime import UTC, datetime

import pytest

from mainspring.engine.jobs.definition import Definition, DefinitionError
from mainspring.engine.jobs.editing import changed_fields, edited

UNTIL = datetime(2030, 1, 1, tzinfo=UTC)
INTERVAL = Definition(id=1, key="a", every_s=60, phase_s=7, boost_every_s=5, boost_until=UNTIL, payload="{}")
CRON = Definition(id=2, cron="0 9 * * *", tz="Europe/Vienna", jitter_s=0, starts_at=UNTIL)


def test_only_what_is_given_changes() -> None:
    new = edited(INTERVAL, {"every_s": 30, "route": "a.b"})
    assert changed_fields(INTERVAL, new) == {"every_s": 30, "route": "a.b"}


def test_an_interval_that_becomes_a_cron_sheds_its_phase_and_keeps_its_boost() -> None:
    new = edited(INTERVAL, {"cron": "@hourly"})
    assert changed_fields(INTERVAL, new) == {"every_s": None, "cron": "@hourly", "phase_s": None}


def test_a_cron_that_becomes_an_interval_sheds_zone_and_jitter() -> None:
    new = edited(CRON, {"every_s": 5})
    assert changed_fields(CRON, new) == {"cron": None, "every_s": 5, "tz": "UTC", "jitter_s": None}


def test_what_becomes_a_one_shot_sheds_the_boost_too() -> None:
    new = edited(INTERVAL, {"run_at": "2031-01-01T00:00:00Z"})
    assert (new.every_s, new.phase_s, new.boost_every_s, new.boost_until) == (None, None, None, None)
    assert new.kind == "once"


def test_a_field_of_the_new_kind_that_is_given_stays() -> None:
    assert edited(INTERVAL, {"cron": "@hourly", "tz": "Asia/Tokyo"}).tz == "Asia/Tokyo"


def test_a_field_is_cleared_to_its_default() -> None:
    new = edited(CRON, {}, ["tz", "starts_at", "jitter_s"])
    assert (new.tz, new.starts_at, new.jitter_s) == ("UTC", None, None)


@pytest.mark.parametrize(
    ("changes", "clear", "told"),
    [
        ({"every_s": 0}, [], "every_s: 0 is out of range"),
        ({"every_s": 5, "cron": "@daily"}, [], "exactly one"),
        ({}, ["every_s"], "cannot be cleared"),
        ({}, ["evry"], "unknown field"),
        ({"key": "b"}, ["key"], "both given and cleared"),
        ({}, ["boost_until"], "both or neither"),
        ({"starts_at": 7, "ends_at": 7}, [], "not after starts_at"),
        ({"cron": "61 * * * *"}, [], "minute"),
    ],
)
def test_an_edit_that_leaves_no_good_job_is_refused(
    changes: dict[str, object], clear: list[str], told: str
) -> None:
    with pytest.raises(DefinitionError, match=told):
        edited(INTERVAL, changes, clear)


def test_another_zone_for_a_bad_cron_mends_it() -> None:
    broken = CRON._replace(tz="Mars/Olympus")
    assert edited(broken, {"tz": "UTC"}).quarantine_reason() is None
