"""Instants and durations as people write them, in files and on the command line.

An instant is a ``datetime`` in UTC with microseconds here, because that is what the table holds;
``epoch_s`` makes of it the whole second that everything behind the table counts in.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_S_MIN: Final = -62_135_596_800  # 0001-01-01T00:00:00Z
EPOCH_S_MAX: Final = 253_402_300_799  # 9999-12-31T23:59:59Z

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_DURATION = re.compile(r"(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?", re.ASCII)
_MEND = "write ISO 8601 with an offset, such as 2026-03-01T09:00:00Z, or whole epoch seconds"


def instant_of_epoch(seconds: int) -> datetime:
    """Epoch seconds as an instant; ValueError outside the years 1 to 9999."""
    if not EPOCH_S_MIN <= seconds <= EPOCH_S_MAX:
        raise ValueError(f"{seconds} lies outside the years 1 to 9999: {_MEND} (seconds, not milliseconds)")
    return EPOCH + timedelta(seconds=seconds)


def read_instant(text: str) -> datetime:
    """ISO 8601 with an offset, or epoch seconds in decimal, as an instant in UTC.

    ValueError says what is wrong with the text and how to write it.
    """
    if _WHOLE.fullmatch(text):
        return instant_of_epoch(int(text))
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{_short(text)} is no time: {_MEND}") from None
    if instant.tzinfo is None:
        raise ValueError(f"{_short(text)} has no offset: {_MEND}")
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{_short(text)} lies outside the years 1 to 9999 in UTC: {_MEND}") from None


def read_duration(text: str) -> int:
    """``90``, ``90s``, ``5m``, ``1h30m`` or ``1d`` as whole seconds; ValueError otherwise."""
    if _WHOLE.fullmatch(text):
        return int(text)
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise ValueError(f"{_short(text)} is no duration: write whole seconds, or 90s, 5m, 1h30m, 1d")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def epoch_s(instant: datetime) -> int:
    """The whole epoch second at or after the instant: a run is never early."""
    since = instant - EPOCH
    return since.days * 86_400 + since.seconds + (since.microseconds > 0)


def iso(instant: datetime) -> str:
    """ISO 8601 in UTC with ``Z``; microseconds only where there are any."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def iso_of_epoch(seconds: int) -> str:
    """Epoch seconds as ISO 8601 in UTC, or the plain number where no calendar of ours reaches."""
    if EPOCH_S_MIN <= seconds <= EPOCH_S_MAX:
        return iso(instant_of_epoch(seconds))
    return str(seconds)


def _short(text: str) -> str:
    return ascii(text if len(text) <= 40 else text[:37] + "...")
