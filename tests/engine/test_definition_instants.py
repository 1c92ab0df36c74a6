"""Times and durations as people write them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.engine.jobs.instants import epoch_s, iso, iso_of_epoch, read_duration, read_instant

INSTANTS = st.datetimes(timezones=st.just(UTC))


@given(INSTANTS)
def test_an_instant_that_was_written_is_read_again_to_the_microsecond(instant: datetime) -> None:
    assert read_instant(iso(instant)) == instant


@given(st.integers(-62_135_596_800, 253_402_300_799))
def test_a_whole_second_is_the_same_in_both_spellings(second: int) -> None:
    assert epoch_s(read_instant(str(second))) == second
    assert epoch_s(read_instant(iso_of_epoch(second))) == second


@given(INSTANTS)
def test_the_epoch_second_is_the_first_that_is_not_early(instant: datetime) -> None:
    second = epoch_s(instant)
    assert second - 1 < (instant - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() + 1e-3
    if instant.microsecond == 0:
        assert read_instant(str(second)) == instant


@pytest.mark.parametrize(
    "text", ["2038-01-19T03:14:08Z", "2106-02-07T06:28:16+00:00", "1969-12-31T23:59:59-05:00"]
)
def test_times_beyond_32_bits_and_before_1970_are_read(text: str) -> None:
    assert read_instant(text) == datetime.fromisoformat(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-13-01T00:00:00Z",
        "2026-01-01",
        "1e9",
        "1764500000.5",
        "9" * 18,
        "0001-01-01T00:00:00+14:00",
    ],
)
def test_what_is_no_time_is_refused_with_the_way_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match="write ISO 8601 with an offset"):
        read_instant(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("1d", 86_400), ("0", 0), ("-5", -5)],
)
def test_durations_are_read_in_seconds(text: str, seconds: int) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "5x", "1.5h", "5m1h", "5 m", "1_000", "٣"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        read_duration(text)
