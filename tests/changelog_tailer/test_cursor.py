"""The cursor as it is stored, and the wait between two tries."""

import json
import random

import pytest

from mainspring.changelog_tailer import Cursor
from mainspring.changelog_tailer.backoff import FIRST_S, Backoff

CURSOR = Cursor(7382911, 3, "10:20:11,14", database=5, log_table=16400)


def test_a_cursor_survives_json() -> None:
    assert Cursor.from_dict(json.loads(json.dumps(CURSOR.to_dict()))) == CURSOR


def test_the_same_log_at_another_snapshot_is_the_same_log() -> None:
    assert CURSOR.same_log(CURSOR.at("30:30:"))
    assert CURSOR.at("30:31:").xmax == 31


@pytest.mark.parametrize(
    "snapshot", ["", "1:2", "1:2:3,", "1:2:'", "1:2:3\n", "a:b:", "1:2:3;drop table x", "-1:2:", None, 5]
)
def test_what_is_no_snapshot_is_refused_before_it_gets_into_sql(snapshot: object) -> None:
    with pytest.raises(ValueError, match="snapshot"):
        Cursor(1, 1, snapshot)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="snapshot"):
        Cursor.from_dict(CURSOR.to_dict() | {"snapshot": snapshot})


@pytest.mark.parametrize("field", ["system_identifier", "timeline"])
def test_numbers_that_are_none_are_refused(field: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        Cursor.from_dict(CURSOR.to_dict() | {field: "x"})


def test_waits_double_up_to_the_cap_and_start_again_after_a_success() -> None:
    backoff = Backoff(1.0, draw=random.Random(1))
    waits = [backoff.failed() for _ in range(8)]
    bounds = [min(FIRST_S * 2**i, 1.0) for i in range(8)]
    assert all(bound / 2 <= wait <= bound for wait, bound in zip(waits, bounds, strict=True))
    backoff.reset()
    assert backoff.failed() <= FIRST_S


def test_two_waiters_do_not_march_in_step() -> None:
    one, other = Backoff(30.0), Backoff(30.0)
    assert [one.failed() for _ in range(8)] != [other.failed() for _ in range(8)]


@pytest.mark.parametrize("cap_s", [0, -1.0])
def test_a_cap_that_is_no_time_is_refused(cap_s: float) -> None:
    with pytest.raises(ValueError, match="cap_s"):
        Backoff(cap_s)
