"""A Schedule is checked when it is made: what is wrong is named, with its value and the mend."""

from typing import Any

import pytest

from mainspring.wheel.definition import Schedule
from mainspring.wheel.errors import ScheduleError

BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "schedule: 'nothing' is set; set exactly one of every_s, cron and run_at"),
    ({"every_s": 5, "cron": "* * * * *"}, "schedule: 'every_s and cron' is set; set exactly one"),
    ({"every_s": 0}, "every_s: 0 is out of range; write a number from 1 to 2147483647"),
    ({"every_s": -60}, "every_s: -60 is out of range"),
    ({"every_s": 2**31}, "every_s: 2147483648 is out of range"),
    ({"every_s": 1.5}, "every_s: 1.5 is not a whole number"),
    ({"every_s": True}, "every_s: True is not a whole number"),
    ({"every_s": 60, "phase_s": -1}, "phase_s: -1 is out of range"),
    ({"cron": "@daily", "jitter_s": -1}, "jitter_s: -1 is out of range"),
    ({"run_at": 2**63}, "run_at: 9223372036854775808 is out of range"),
    (
        {"every_s": 60, "starts_at": 10, "ends_at": 10},
        "ends_at: 10 is not after starts_at 10, so the window is",
    ),
    ({"every_s": 60, "boost_every_s": 5}, "boost_every_s: 5 stands alone; set both"),
    ({"every_s": 60, "boost_until": 5}, "boost_until: 5 stands alone; set both"),
    ({"every_s": 60, "boost_every_s": 0, "boost_until": 5}, "boost_every_s: 0 is out of range"),
    ({"run_at": 60, "boost_every_s": 1, "boost_until": 5}, "boost_every_s: 1 has no meaning for a one-shot"),
]


@pytest.mark.parametrize(("fields", "message"), BAD)
def test_a_definition_that_cannot_be_kept_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ScheduleError) as refusal:
        Schedule(**fields)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"every_s": 1},
        {"every_s": 2**31 - 1, "phase_s": 2**31 - 1},
        {"cron": "0 4 * * *", "tz": "Asia/Tokyo", "jitter_s": 0},
        {"run_at": -5},
        {"every_s": 60, "starts_at": 10, "ends_at": 11, "boost_every_s": 1, "boost_until": 5},
    ],
)
def test_a_definition_at_the_limits_is_taken(fields: dict[str, Any]) -> None:
    schedule = Schedule(**fields)
    assert all(getattr(schedule, field) == value for field, value in fields.items())


def test_the_message_stays_one_short_line_whatever_was_pasted() -> None:
    error = ScheduleError("tz", "Mars/\nOlympus\x1b[31m" + "x" * 5000, "is not a time zone", "write UTC")
    assert str(error).isprintable()
    assert len(str(error)) < 120
