"""Definitions as rows of Postgres' text COPY format, for the table that an import stages them in."""

import re
from datetime import datetime
from typing import Final

from mainspring.engine.jobs.definition import Definition

COLUMNS: Final = ("line", *Definition._fields)

_SPECIAL = re.compile(r"[\\\t\n\r]")
_DEFAULTS: Final = Definition()
_ESCAPES: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_ENABLED: Final = Definition._fields.index("enabled")


def staged_row(line: int, definition: Definition, *, says_enabled: bool) -> str:
    """One row; ``enabled`` is null where the file does not say it, so that a paused job stays paused."""
    cells = [
        cell if value is default else _cell(value)
        for value, default, cell in zip(definition, _DEFAULTS, _DEFAULT_CELLS, strict=True)
    ]
    if not says_enabled:
        cells[_ENABLED] = "\\N"
    return "\t".join([str(line), *cells]) + "\n"


def _cell(value: object) -> str:
    if value is None:
        return "\\N"
    if value is True or value is False:
        return "t" if value else "f"
    if isinstance(value, str):
        return value if _SPECIAL.search(value) is None else _SPECIAL.sub(_escaped, value)
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _escaped(match: re.Match[str]) -> str:
    return _ESCAPES[match.group()]


_DEFAULT_CELLS: Final = tuple(map(_cell, _DEFAULTS))
