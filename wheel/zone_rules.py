"""The rule at the end of a zone file: daylight saving for all years to come, written out as changes.

Format: the TZ variable of POSIX.1-2017 (8.3), with hours up to 167 either way (RFC 8536, 3.3.1), such as
`CET-1CEST,M3.5.0,M10.5.0/3`: two offsets with their sign turned, and when daylight time begins and ends.
"""

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

CYCLE_YEARS = 400
"""After this many years calendar and weekdays repeat exactly."""

Days = NDArray[np.int64]

_ABBREVIATION = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]+>)"
_TIME = r"[+-]?\d{1,3}(?::\d\d(?::\d\d)?)?"
_DATE = r"M\d+\.\d\.\d|J\d+|\d+"
FOOTER_PATTERN = re.compile(
    rf"{_ABBREVIATION}(?P<standard>{_TIME})"
    rf"(?:{_ABBREVIATION}(?P<daylight>{_TIME})?"
    rf",(?P<begin>{_DATE})(?:/(?P<begin_time>{_TIME}))?"
    rf",(?P<end>{_DATE})(?:/(?P<end_time>{_TIME}))?)?"
)


def changes_of(footer: str, first_year: int, end_year: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Instants (epoch s) and the UTC offsets (s) from then on, for the years [first_year, end_year).

    In order, int64; empty where the rule has no daylight time. Raises ValueError for another footer.
    """
    found = FOOTER_PATTERN.fullmatch(footer)
    if found is None and footer:
        raise ValueError(f"time zone rule {footer!r} is not of the form std offset dst [offset],start,end")
    if found is None or found["begin"] is None:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    standard = -_seconds(found["standard"])
    daylight = -_seconds(found["daylight"]) if found["daylight"] else standard + 3600
    years = np.arange(first_year, end_year, dtype=np.int64)
    begins = _dates(found["begin"])(years) * 86_400 + _seconds(found["begin_time"] or "2") - standard
    ends = _dates(found["end"])(years) * 86_400 + _seconds(found["end_time"] or "2") - daylight
    return _merged(begins, ends, standard, daylight)


def year_start(year: int) -> int:
    """The epoch second of 1 January, 0:00 UTC."""
    return int(_first_of_month(np.array([year], dtype=np.int64), 1)[0]) * 86_400


def year_of(instant: int) -> int:
    """The UTC year of an epoch second."""
    year = 1970 + instant // 31_556_952  # the mean year puts it right or one off
    return year + (instant >= year_start(year + 1)) - (instant < year_start(year))


def _merged(
    begins: NDArray[np.int64], ends: NDArray[np.int64], standard: int, daylight: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    instants = np.stack([begins, ends], axis=1).ravel()
    offsets = np.tile(np.array([daylight, standard], dtype=np.int64), len(begins))
    order = np.argsort(instants, kind="stable")
    instants, offsets = instants[order], offsets[order]
    # Daylight time that ends as the next begins never ends: of two changes in one instant the later holds.
    last_of_instant = np.append(instants[1:] != instants[:-1], True)
    return instants[last_of_instant], offsets[last_of_instant]


def _seconds(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    hours, minutes, seconds = [int(part) for part in (text.lstrip("+-") + ":0:0").split(":")[:3]]
    return sign * (hours * 3600 + minutes * 60 + seconds)


def _dates(rule: str) -> Callable[[Days], Days]:
    """A function from years to days since 1970-01-01."""
    if rule.startswith("M"):
        month, week, weekday = (int(part) for part in rule[1:].split("."))
        return lambda years: _weekday_of_month(years, month, week, weekday)
    if rule.startswith("J"):
        # Julian: 1-365, and 29 February has no number.
        day = int(rule[1:])
        return lambda years: _first_of_month(years, 1) + day - 1 + _is_leap(years) * (day > 59)
    return lambda years: _first_of_month(years, 1) + int(rule)


def _weekday_of_month(years: Days, month: int, week: int, weekday: int) -> Days:
    """The week-th such weekday of the month, the last one where week is 5; Sunday is 0."""
    first = _first_of_month(years, month)
    day = first + (weekday - (first + 4)) % 7 + 7 * (week - 1)
    following = _first_of_month(years + month // 12, month % 12 + 1)
    return np.where(day >= following, day - 7, day)


def _first_of_month(years: Days, month: int) -> Days:
    # Source: Howard Hinnant, "chrono-compatible low-level date algorithms": years that begin in March.
    shifted = years - (month <= 2)
    era, year_of_era = shifted // 400, shifted % 400
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def _is_leap(years: Days) -> Days:
    return np.asarray((years % 4 == 0) & ((years % 100 != 0) | (years % 400 == 0)), dtype=np.int64)
