"""Definitions as rows of Postgres' text COPY format, for the table that an import stages them in.

A row is put together of four parts: line, id and key, the *middle*, which jobs of a fleet have in common,
and the payload.
"""

import re
from datetime import datetime
from typing import Final

from mainspring.engine.jobs.definition import Definition

COLUMNS: Final = ("line", *Definition._fields)
NULL: Final = b"\\N"

_SPECIAL = re.compile(r"[\\\t\n\r]")
_DEFAULTS: Final = Definition()
_ESCAPES: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_MIDDLE: Final = range(Definition._fields.index("key") + 1, Definition._fields.index("payload"))
_ENABLED: Final = _MIDDLE.index(Definition._fields.index("enabled"))


def staged_row(line: int, definition: Definition, *, says_enabled: bool) -> bytes:
    """One row; ``enabled`` is null where the file does not say it, so that a paused job stays paused."""
    job_id, key, payload = map(_cell, (definition.id, definition.key, definition.payload))
    middle = staged_middle(definition, says_enabled=says_enabled)
    return joined_row(line, job_id.encode(), key.encode(), middle, payload.encode())


def staged_middle(definition: Definition, *, says_enabled: bool) -> bytes:
    """The cells between key and payload."""
    cells = [
        _DEFAULT_CELLS[place] if definition[place] is _DEFAULTS[place] else _cell(definition[place])
        for place in _MIDDLE
    ]
    if not says_enabled:
        cells[_ENABLED] = _cell(None)
    return "\t".join(cells).encode()


def joined_row(line: int, job_id: bytes, key: bytes, middle: bytes, payload: bytes) -> bytes:
    """The row of these parts, each in COPY's spelling."""
    return b"%d\t%b\t%b\t%b\t%b\n" % (line, job_id, key, middle, payload)


def _cell(value: object) -> str:
    if value is None:
        return NULL.decode()
    if value is True or value is False:
        return "t" if value else "f"
    if isinstance(value, str):
        return value if _SPECIAL.search(value) is None else _SPECIAL.sub(_escaped, value)
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _escaped(match: re.Match[str]) -> str:
    return _ESCAPES[match.group()]


_DEFAULT_CELLS: Final = tuple(map(_cell, _DEFAULTS))
