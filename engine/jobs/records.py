"""Reads job files, JSON lines or CSV, as records: one mapping of fields a job, with its line number.

Nothing here holds more than one line. What is wrong with a line is a record too, so that a reader
goes on and the caller can name every bad line.
"""

import csv
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, Final, NamedTuple, TypeVar, overload

from mainspring.engine.jobs.definition import Problem, field_problem
from mainspring.engine.jobs.errors import JobsError
from mainspring.engine.jobs.fields import shown, value_of_text
from mainspring.engine.jobs.json_text import read_json

LINE_BYTES_MAX: Final = 1 << 20
_BOM: Final = b"\xef\xbb\xbf"
_TOO_LONG: Final = f"longer than {LINE_BYTES_MAX} bytes: give a payload a reference instead"


Header = tuple[str, ...]
Made = TypeVar("Made")


class Record(NamedTuple):
    """One job of a file: the line it begins on, and its fields or what keeps them from being read."""

    line: int
    fields: Mapping[str, object]
    problems: tuple[Problem, ...] = ()


class HeaderError(JobsError):
    """The first line of a CSV file does not name columns of a job."""


def json_record(number: int, line: bytes | None) -> Record | None:
    """The record of a line; None for a blank one, and a ``line`` of None was too long."""
    try:
        if line is None:
            raise ValueError(_TOO_LONG)
        text = line.decode()
        if text.isspace():
            return None
        fields = read_json(text)
    except UnicodeDecodeError as error:
        return _bad(number, f"not UTF-8 at byte {error.start + 1}: save the file as UTF-8")
    except ValueError as error:
        return _bad(number, str(error))
    if isinstance(fields, dict):
        return Record(number, fields)
    return _bad(number, f"{shown(fields)} is no job: write one JSON object a line")


def csv_record(number: int, header: Header, row: list[str]) -> Record:
    """The record of a row; an empty cell is a field left out."""
    if len(row) != len(header):
        return _bad(number, f"has {len(row)} cells, the header {len(header)}: quote cells that hold a comma")
    try:
        "".join(row).encode()
    except UnicodeEncodeError:
        return _bad(number, "not UTF-8: save the file as UTF-8")
    fields: dict[str, object] = {}
    problems = []
    for name, cell in zip(header, row, strict=True):
        if cell:
            try:
                fields[name] = value_of_text(name, cell)
            except ValueError as error:
                problems.append(Problem(name, str(error)))
    return Record(number, fields, tuple(problems))


@overload
def read_json_lines(stream: BinaryIO) -> Iterator[Record]: ...
@overload
def read_json_lines(stream: BinaryIO, made: Callable[[int, bytes | None], Made | None]) -> Iterator[Made]: ...
def read_json_lines(
    stream: BinaryIO, made: Callable[[int, bytes | None], Any] = json_record
) -> Iterator[Any]:
    """What is ``made`` of each line of a file with one JSON object a line; blank lines are passed over."""
    for number, line in lines(stream):
        if (record := made(number, line)) is not None:
            yield record


@overload
def read_csv(stream: BinaryIO) -> Iterator[Record]: ...
@overload
def read_csv(stream: BinaryIO, made: Callable[[int, Header, list[str]], Made]) -> Iterator[Made | Record]: ...
def read_csv(stream: BinaryIO, made: Callable[[int, Header, list[str]], Any] = csv_record) -> Iterator[Any]:
    """What is ``made`` of each row of a CSV file (RFC 4180, comma, header of column names).

    Raises HeaderError where the header is wrong, for then no line can be right.
    """
    oversize: list[int] = []
    rows = _csv_rows(_csv_lines(stream, oversize))
    header = _header(rows)
    for number, row in rows:
        if oversize:
            yield _bad(oversize.pop(0), _TOO_LONG)
        elif isinstance(row, csv.Error):
            yield _bad(number, f"not CSV: {row}")
        elif row:
            yield made(number, header, row)


def _csv_rows(source: Iterator[str]) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """Rows and what is none, each with the line it begins on."""
    reader = csv.reader(source, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            yield number, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield number, error


def _csv_lines(stream: BinaryIO, oversize: list[int]) -> Iterator[str]:
    """Lines as `csv` takes them; one that is too long is a blank one, and its number noted in `oversize`."""
    for number, line in lines(stream):
        if line is None:
            oversize.append(number)
            yield "\n"
        else:
            # Bytes that are no UTF-8 become lone surrogates: csv cannot go on after an error of its source.
            yield line.decode(errors="surrogateescape")


def lines(stream: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Each line with its number from 1, line end included; None for one of more than LINE_BYTES_MAX bytes.

    A byte order mark before the first line is dropped.
    """
    number = 0
    while line := stream.readline(LINE_BYTES_MAX + 1):
        number += 1
        if number == 1 and line.startswith(_BOM):
            line = line[len(_BOM) :] or b"\n"
        if len(line) > LINE_BYTES_MAX:
            _skip_rest(stream, line)
            yield number, None
        else:
            yield number, line


def _skip_rest(stream: BinaryIO, line: bytes) -> None:
    while line and not line.endswith(b"\n"):
        line = stream.readline(LINE_BYTES_MAX)


def _header(rows: Iterator[tuple[int, list[str] | csv.Error]]) -> Header:
    """The column names of the first row that is not blank; none for an empty file."""
    number, header = next(((number, row) for number, row in rows if row), (1, []))
    if isinstance(header, csv.Error):
        raise HeaderError(f"line {number}: not CSV: {header}")
    for name in header:
        if problem := field_problem(name):
            raise HeaderError(f"line {number}: {problem}")
        if header.count(name) > 1:
            raise HeaderError(f"line {number}: {name}: stands twice in the header: remove one of the columns")
    return tuple(header)


def _bad(number: int, message: str) -> Record:
    return Record(number, {}, (Problem("", message),))
