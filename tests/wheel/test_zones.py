"""Zone tables against the standard library's arithmetic over the same data."""

import importlib.resources
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedule_cases import ODD_ZONES, PATIENT, instants, zones

from mainspring.wheel import twin
from mainspring.wheel.errors import ScheduleError
from mainspring.wheel.zone_rules import changes_of, year_of, year_start
from mainspring.wheel.zones import load_zone

NAMES = importlib.resources.files("tzdata").joinpath("zones").read_text("ascii").split()


def offset_by_library(name: str, instant: int) -> int:
    wall = twin.wall_time(instant, twin.zone_of(name))
    return int((wall - datetime.fromtimestamp(instant, UTC).replace(tzinfo=None)).total_seconds())


@PATIENT
@given(zones, instants())
def test_the_offset_at_any_instant_is_the_librarys(name: str, instant: int) -> None:
    assert load_zone(name).offset_at(instant) == offset_by_library(name, instant)


@pytest.mark.parametrize("name", ODD_ZONES)
def test_every_change_until_2500_falls_on_its_second(name: str) -> None:
    zone = load_zone(name)
    for start in zone.starts[(zone.starts > year_start(1971)) & (zone.starts < year_start(2500))].tolist():
        for instant in (start - 1, start):
            assert zone.offset_at(instant) == offset_by_library(name, instant)


def test_every_zone_of_the_package_is_read() -> None:
    assert len(NAMES) > 500
    for name in NAMES:
        zone = load_zone(name)
        assert np.all(np.diff(zone.starts) > 0)
        assert np.all(np.diff(zone.offsets) != 0)
        assert np.all(zone.reached[1:] >= zone.reached[:-1])
        assert np.all(np.abs(zone.offsets) < 86_400)
        for instant in (year_start(2024), year_start(2024) + 180 * 86_400, year_start(2090)):
            assert zone.offset_at(instant) == offset_by_library(name, instant), name


@PATIENT
@given(zones, st.integers(year_start(2400), year_start(9000)), st.integers(1, 20))
def test_the_years_to_come_repeat_in_cycles_of_400(name: str, instant: int, cycles: int) -> None:
    zone = load_zone(name)
    assert zone.offset_at(instant + cycles * 146_097 * 86_400) == zone.offset_at(instant)


def test_a_zone_is_read_once() -> None:
    assert load_zone("Europe/Berlin") is load_zone("Europe/Berlin")


@pytest.mark.parametrize(
    ("name", "mend"),
    [
        ("Europe/Brelin", "did you mean Europe/Berlin"),
        ("europe/berlin", "did you mean Europe/Berlin"),
        ("utc", "did you mean UTC"),
        ("", "write an IANA name"),
        ("../../etc/passwd", "write an IANA name"),
        ("/etc/localtime", "write an IANA name"),
        ("Europe/Berlin\n", "did you mean Europe/Berlin"),
        ("Europe", "did you mean Europe/"),
        ("__init__", "write an IANA name"),
        ("zone.tab", "write an IANA name"),
        ("x" * 10_000, "write an IANA name"),
    ],
)
def test_an_unknown_zone_is_refused_with_the_nearest_names(name: str, mend: str) -> None:
    with pytest.raises(ScheduleError, match=r"^tz: '.*' is not a time zone that tzdata knows; ") as refusal:
        load_zone(name)
    assert mend in str(refusal.value)
    assert len(str(refusal.value)) < 200


def test_the_rule_of_all_years_is_written_out() -> None:
    instants, offsets = changes_of("CET-1CEST,M3.5.0,M10.5.0/3", 2026, 2028)
    assert [datetime.fromtimestamp(instant, UTC).isoformat() for instant in instants] == [
        "2026-03-29T01:00:00+00:00",
        "2026-10-25T01:00:00+00:00",
        "2027-03-28T01:00:00+00:00",
        "2027-10-31T01:00:00+00:00",
    ]
    assert offsets.tolist() == [7200, 3600, 7200, 3600]


def test_julian_dates_and_plain_day_numbers_differ_by_the_leap_day() -> None:
    julian, _ = changes_of("AAA0BBB,J60/0,J300/0", 2027, 2029)
    plain, _ = changes_of("AAA0BBB,59/0,299/0", 2027, 2029)
    assert (julian - plain).tolist() == [0, 0, 86_400, 86_400]


def test_daylight_time_without_end_is_one_offset() -> None:
    _, offsets = changes_of("XXX3EDT4,0/0,J365/23", 2026, 2030)
    assert offsets.tolist()[:-1] == [-4 * 3600] * 4


def test_a_rule_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not of the form"):
        changes_of("EST5EDT", 2026, 2027)


@PATIENT
@given(st.integers(-(10**11), 10**11))
def test_an_instant_lies_in_its_year(instant: int) -> None:
    assert year_start(year_of(instant)) <= instant < year_start(year_of(instant) + 1)
