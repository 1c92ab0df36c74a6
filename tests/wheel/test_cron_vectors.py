"""The recorded cron cases through the compiled evaluator, and the refusals through the parser."""

from typing import Any

import pytest
from schedule_cases import vectors

from mainspring.wheel import twin
from mainspring.wheel.cron_eval import CompiledCron
from mainspring.wheel.definition import NEVER, Schedule
from mainspring.wheel.errors import ScheduleError
from mainspring.wheel.schedule import next_fires


def fires_of(case: dict[str, Any]) -> list[int]:
    return next_fires(
        Schedule(cron=case["expr"], tz=case["tz"]), None, case["from_epoch"], len(case["next_epoch"])
    )


CHANGING_FOR_EVER = {
    "America/New_York",
    "Europe/London",
    "Europe/Berlin",
    "Antarctica/Troll",
    "Pacific/Chatham",
}
FILES = [("cron_next.jsonl", 315), ("cron_dst.jsonl", 72), ("cron_ext.jsonl", 65)]
NAMES = pytest.mark.parametrize("name", [name for name, _ in FILES])


@pytest.mark.parametrize(("name", "count"), FILES)
def test_every_recorded_fire_time_is_met(name: str, count: int) -> None:
    cases = vectors(name)
    assert len(cases) == count
    for case in cases:
        assert fires_of(case) == case["next_epoch"], (case["n"], case["expr"], case["tz"])


@NAMES
def test_the_twin_meets_the_recorded_fire_times_as_well(name: str) -> None:
    for case in vectors(name):
        bases = twin.base_instants(case["expr"], case["tz"], case["from_epoch"])
        expected = case["next_epoch"][:1] if case["tag"] == "real" else case["next_epoch"][:2]
        assert [next(bases) for _ in expected] == expected, (case["n"], case["expr"], case["tz"])


@NAMES
def test_the_memo_gives_what_the_bare_rule_gives(name: str) -> None:
    for case in vectors(name):
        cron = CompiledCron(case["expr"], case["tz"])
        for instant in (case["from_epoch"], *case["next_epoch"]):
            for moment in (instant - 1, instant, instant + 1):
                assert cron.next(moment) == cron.next_unremembered(moment), case["n"]


def test_every_real_expression_is_taken() -> None:
    assert len([CompiledCron(case["expr"], case["tz"]) for case in vectors("real_expressions.jsonl")]) == 178


@pytest.mark.parametrize("case", vectors("cron_invalid.jsonl"), ids=lambda case: case["n"])
def test_what_must_be_refused_is_refused_with_field_token_and_mend(case: dict[str, Any]) -> None:
    with pytest.raises(ScheduleError) as refusal:
        CompiledCron(case["expr"], "UTC")
    field, _, rest = str(refusal.value).partition(": ")
    problem, _, mend = rest.partition("; ")
    assert field in {
        "cron expression",
        "cron second",
        "cron minute",
        "cron hour",
        "cron day of month",
        "cron month",
        "cron weekday",
    }
    assert problem[0] in "'\"", "the token is quoted"
    assert mend
    assert len(str(refusal.value)) < 240
    assert str(refusal.value).isascii()
    assert str(refusal.value).isprintable()


def test_a_recorded_instant_beyond_the_last_written_out_year_is_found_too() -> None:
    cycle_s = 146_097 * 86_400
    for case in vectors("cron_dst.jsonl"):
        # A zone without rule for the years to come repeats nothing; those that change for ever do so alike.
        if case["tz"] in CHANGING_FOR_EVER:
            later = {**case, "from_epoch": case["from_epoch"] + 5 * cycle_s}
            assert fires_of(later) == [instant + 5 * cycle_s for instant in case["next_epoch"]], case["n"]


def test_there_is_nothing_after_the_edge_of_64_bits() -> None:
    cron = CompiledCron("* * * * *", "Europe/Berlin")
    assert cron.next(2**62) == cron.next(2**63 - 1) == cron.next_unremembered(2**63 - 1) == NEVER
    assert cron.next(2**62 - 61) == cron.next_unremembered(2**62 - 61)
    assert cron.next(-(2**63)) == cron.next_unremembered(-(2**63))
