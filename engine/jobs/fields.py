"""One reader a column of ``mainspring.jobs``: what it takes, within which limits, and what to do otherwise.

A reader is handed a value as JSON has it (str, int, bool, Decimal, list, dict; null never comes here)
and gives the value as :class:`mainspring.engine.jobs.definition.Definition` holds it. It raises ValueError
with the value, shortened, and the mend; the caller puts the column's name in front.
"""

import json
import re
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Final

from mainspring.engine.jobs.instants import instant_of_epoch, read_duration, read_instant
from mainspring.engine.jobs.json_text import read_json, write_json

Reader = Callable[[object], object]

INT4_MAX: Final = 2**31 - 1
INT8_MIN: Final = -(2**63)
INT8_MAX: Final = 2**63 - 1
KEY_BYTES_MAX: Final = 255
PAYLOAD_BYTES_MAX: Final = 65_536
CRON_CHARACTERS_MAX: Final = 256
CATCH_UP: Final = ("all", "latest", "none")

_ROUTE = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+){0,7}", re.ASCII)
_ROUTE_MEND = "give 1 to 8 tokens of letters, digits, _ and - joined by dots, 128 characters at most"
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)


def shown(value: object) -> str:
    """A value as an error shows it: JSON, plain ASCII, 48 characters at most."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value[:64]) if isinstance(value, str) else json.dumps(value, default=str).strip('"')
    return text if len(text) <= 48 else text[:45] + "..."


def _integer(low: int, high: int, mend: str) -> Reader:
    def read(value: object) -> int:
        # `type() is` and not isinstance: true is an int to Python and a mistake here.
        if type(value) is not int:
            raise ValueError(f"{shown(value)} is no whole number: {mend}")
        if not low <= value <= high:
            raise ValueError(f"{shown(value)} is out of range: {mend}")
        return value

    return read


def _string(value: object, mend: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} is no text: {mend}")
    if "\0" in value:
        raise ValueError(f"{shown(value)} holds the character U+0000, which Postgres cannot store: remove it")
    return value


def _utf8_length(text: str) -> int:
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise ValueError(f"{shown(text)} holds half of a surrogate pair: write whole characters") from None


def _key(value: object) -> str:
    mend = f"give 1 to {KEY_BYTES_MAX} bytes that are not all digits"
    key = _string(value, mend)
    if not 1 <= _utf8_length(key) <= KEY_BYTES_MAX:
        raise ValueError(f"{shown(key)} is {_utf8_length(key)} bytes long: {mend}")
    if _DIGITS.fullmatch(key):
        raise ValueError(f"{shown(key)} is all digits and would be taken for an id: {mend}")
    return key


def _route(value: object) -> str:
    return _checked_route(_string(value, _ROUTE_MEND))


@lru_cache(maxsize=4096)
def _checked_route(route: str) -> str:
    """Cached: a fleet shares its routes."""
    if len(route) > 128 or _ROUTE.fullmatch(route) is None:
        raise ValueError(f"{shown(route)} cannot end a subject: {_ROUTE_MEND}")
    return route


def _cron(value: object) -> str:
    expression = _string(value, 'give a cron expression such as "*/5 * * * *"')
    if len(expression) > CRON_CHARACTERS_MAX:
        raise ValueError(f"{len(expression)} characters are too many: {CRON_CHARACTERS_MAX} at most")
    return expression


def _tz(value: object) -> str:
    return _string(value, "give the name of an IANA zone such as Europe/Vienna")


def _instant(value: object) -> datetime:
    if type(value) is int:
        return instant_of_epoch(value)
    return read_instant(_string(value, "write ISO 8601 with an offset, or whole epoch seconds"))


def _catch_up(value: object) -> str:
    if isinstance(value, str) and value in CATCH_UP:
        return value
    raise ValueError(f"{shown(value)} is no catch-up policy: give one of {', '.join(CATCH_UP)}")


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError(f"{shown(value)} is neither true nor false: give one of them")


def _payload(value: object) -> str:
    text = write_json(value)
    if (size := _utf8_length(text)) > PAYLOAD_BYTES_MAX:
        raise ValueError(
            f"{size} bytes of JSON are too many: give {PAYLOAD_BYTES_MAX} at most, or a reference"
        )
    return text


_SECONDS = f"give whole seconds from 1 to {INT4_MAX}"
_SECONDS_OR_0 = f"give whole seconds from 0 to {INT4_MAX}"

READERS: Final[dict[str, Reader]] = {
    "id": _integer(INT8_MIN, INT8_MAX, "give a signed 64-bit integer, or leave it out"),
    "key": _key,
    "every_s": _integer(1, INT4_MAX, _SECONDS),
    "cron": _cron,
    "run_at": _instant,
    "tz": _tz,
    "phase_s": _integer(0, INT4_MAX, _SECONDS_OR_0),
    "jitter_s": _integer(0, INT4_MAX, _SECONDS_OR_0),
    "starts_at": _instant,
    "ends_at": _instant,
    "boost_every_s": _integer(1, INT4_MAX, _SECONDS),
    "boost_until": _instant,
    "catch_up": _catch_up,
    "first_run_soon": _boolean,
    "enabled": _boolean,
    "route": _route,
    "payload": _payload,
}

_DURATIONS = frozenset({"every_s", "phase_s", "jitter_s", "boost_every_s"})
_TRUTH: Final = {"true": True, "t": True, "false": False, "f": False}


def value_of_text(name: str, text: str) -> object:
    """What a CSV cell or a flag says, as JSON would have it; what is no such thing stays text for the reader.

    Whole numbers, ``true``/``false`` (also ``t``/``f``, as psql writes them), durations such as ``5m``
    for the columns in seconds, and JSON for ``payload`` (ValueError where it is none).
    """
    if name == "payload":
        return read_json(text)
    if name == "id" and _INTEGER.fullmatch(text):
        return int(text)
    if name in _DURATIONS:
        return read_duration(text)
    if name in {"first_run_soon", "enabled"}:
        return _TRUTH.get(text.lower(), text)
    return text
