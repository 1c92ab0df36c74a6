"""Rows of a file that are plainly good, on a short way to the staging table; any other is read exactly.

Millions of jobs share a few schedules, zones and routes: what lies between key and payload is judged once
for each spelling. A payload goes to Postgres as the bytes that it is in the file, so no digit of it can
change, and a fast parser says whether it is JSON. That parser is blind to digits, to a name that stands twice
and to what Postgres makes of it. So whatever might differ there is left alone, and nothing is refused here:
what is wrong with a row, `json_record`, `csv_record` and `read_definition` tell.
"""

import re
from functools import lru_cache
from typing import Any, Final

import orjson

from mainspring.engine.jobs.definition import DefinitionError, read_definition
from mainspring.engine.jobs.fields import INT8_MAX, INT8_MIN, KEY_BYTES_MAX, PAYLOAD_BYTES_MAX, value_of_text
from mainspring.engine.jobs.records import Record, csv_record, json_record
from mainspring.engine.jobs.staging import NULL, joined_row, staged_middle

# Some megabytes at most; a fleet of one-shots, each at its own instant, gains nothing from more.
_MIDDLES_MAX: Final = 8192
_ID = re.compile(r"-?[0-9]{1,18}", re.ASCII)
# A few bytes such as 1e9999 are many digits to Postgres, or more than it takes.
_EXPONENT = re.compile(rb"[\[:,\s]-?[0-9.]+[eE]")
_HINT_TABLE: Final = bytes.maketrans(b"123456789.E", b"0000000000e")
_BLANK: Final = b" \t\r\n"
# To COPY the end of a cell; to JSON nothing between two tokens, and not allowed within one.
_BLANKS_OF_COPY: Final = b"\t\r\n"


def json_row(number: int, line: bytes | None) -> bytes | Record | None:
    """The staged row of a line, or its record; None for a blank one. In the place of `json_record`."""
    row = None if line is None else _row_of_line(number, line)
    return json_record(number, line) if row is None else row


def csv_row(number: int, header: tuple[str, ...], cells: list[str]) -> bytes | Record:
    """The staged row of the cells, or their record. In the place of `csv_record`."""
    row = _row_of_cells(number, header, cells)
    return csv_record(number, header, cells) if row is None else row


def _row_of_line(number: int, line: bytes) -> bytes | None:
    before, named, after = line.partition(b'"payload":')
    if named:
        # All that may follow an object is no object: its end is the last brace but one.
        end = after.rfind(b"}", 0, after.rfind(b"}")) + 1
        payload = _payload_cell(after[:end].strip(_BLANK))
        fields = None if payload is None else _fields_around(before, after[end:].strip(_BLANK))
    else:
        payload, fields = NULL, _fields_of(line)
    if payload is None or fields is None or "payload" in fields:  # spelled otherwise, or twice
        return None
    job_id, key = fields.pop("id", None), fields.pop("key", None)
    if not (job_id is None or _is_id(job_id)) or not (key is None or _is_key(key)):
        return None
    middle = _middle_of_json(orjson.dumps(fields))
    if middle is None:
        return None
    id_cell = NULL if job_id is None else b"%d" % job_id
    return joined_row(number, id_cell, NULL if key is None else key.encode(), middle, payload)


def _fields_around(before: bytes, after: bytes) -> dict[str, Any] | None:
    """Of a line without its payload: each side that is not bare has to be members of an object by itself."""
    head, rest = before.rstrip(_BLANK), after[:-1].rstrip(_BLANK)
    sides = []
    if head.endswith(b","):
        sides.append(head[:-1] + b"}")
    elif head != b"{":
        return None
    if rest.startswith(b","):
        sides.append(b"{" + rest[1:] + b"}")
    elif rest or not after:
        return None
    fields: dict[str, Any] = {}
    for side in sides:
        members = _fields_of(side)
        if members is None or not fields.keys().isdisjoint(members):
            return None
        fields |= members
    return fields


def _fields_of(text: bytes) -> dict[str, Any] | None:
    """The members of an object that has some, each name once and spelled plainly."""
    if b"\\" in text:
        return None
    try:
        fields = orjson.loads(text)
    except ValueError:
        return None
    return fields if type(fields) is dict and fields and _names_are_unique(text, fields) else None


def _row_of_cells(number: int, header: tuple[str, ...], cells: list[str]) -> bytes | None:
    if len(cells) != len(header):
        return None
    fields = dict(zip(header, cells, strict=True))
    job_id, key, text = fields.pop("id", ""), fields.pop("key", ""), fields.pop("payload", "")
    if (job_id and _ID.fullmatch(job_id) is None) or (key and not _is_key(key)) or not text.isprintable():
        return None
    payload = _payload_cell(text.encode()) if text else NULL
    middle = _middle_of_cells(tuple(fields.items()))
    if payload is None or middle is None:
        return None
    id_cell = b"%d" % int(job_id) if job_id else NULL
    return joined_row(number, id_cell, key.encode() or NULL, middle, payload)


@lru_cache(_MIDDLES_MAX)
def _middle_of_json(text: bytes) -> bytes | None:
    """By text and not by values: to Python 1, 1.0 and true are the same."""
    return _middle(orjson.loads(text))


@lru_cache(_MIDDLES_MAX)
def _middle_of_cells(cells: tuple[tuple[str, str], ...]) -> bytes | None:
    try:
        return _middle({name: value_of_text(name, cell) for name, cell in cells if cell})
    except ValueError:
        return None


def _middle(fields: dict[str, object]) -> bytes | None:
    try:
        definition = read_definition(fields)
    except DefinitionError:
        return None
    return staged_middle(definition, says_enabled=fields.get("enabled") is not None)


def _is_id(value: object) -> bool:
    return type(value) is int and INT8_MIN <= value <= INT8_MAX


def _is_key(value: object) -> bool:
    """And one that COPY takes as it is: no backslash, no control character, no half of a surrogate pair."""
    if not isinstance(value, str) or not value.isprintable() or "\\" in value:
        return False
    size = len(value) if value.isascii() else len(value.encode())
    return 1 <= size <= KEY_BYTES_MAX and not (value.isascii() and value.isdigit())


def _payload_cell(text: bytes) -> bytes | None:
    """Of an object, as nearly all are. Postgres writes a blank after each colon and comma, and no more."""
    if not text.startswith(b"{") or 2 * len(text) > PAYLOAD_BYTES_MAX:
        return None
    try:
        members = orjson.loads(text)
    except ValueError:
        return None
    if b"\\u" in text or not _names_are_unique(text, members) or _holds_exponent(text):
        return None
    return text.translate(None, _BLANKS_OF_COPY).replace(b"\\", b"\\\\")


def _holds_exponent(text: bytes) -> bool:
    """Also where a string looks like it; the first look is for speed alone, most texts end with it."""
    return b"0e" in text.translate(_HINT_TABLE) and _EXPONENT.search(text) is not None


def _names_are_unique(text: bytes, value: object) -> bool:
    r"""Of a JSON text without \u: a name that was dropped because it stands twice took its colon with it."""
    return text.count(b":") == orjson.dumps(value).count(b":")
