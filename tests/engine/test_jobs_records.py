"""Job files, good and bad: each line becomes a record with its number."""

import io
import itertools
from collections.abc import Iterator
from typing import BinaryIO, cast

import pytest

from mainspring.engine.jobs.records import (
    LINE_BYTES_MAX,
    HeaderError,
    Record,
    lines,
    read_csv,
    read_json_lines,
)


def json_records(data: bytes) -> list[Record]:
    return list(read_json_lines(io.BytesIO(data)))


def csv_records(data: bytes) -> list[Record]:
    return list(read_csv(io.BytesIO(data)))


def told(record: Record) -> str:
    assert record.problems, f"line {record.line} was taken"
    return "; ".join(map(str, record.problems))


def test_a_line_is_a_job_and_blank_lines_are_passed_over() -> None:
    records = json_records(b'{"every_s": 5}\n\n  \r\n{"every_s": 6}')
    assert [(record.line, record.fields) for record in records] == [(1, {"every_s": 5}), (4, {"every_s": 6})]


def test_an_empty_file_holds_no_jobs() -> None:
    assert json_records(b"") == csv_records(b"") == []


def test_a_byte_order_mark_is_dropped() -> None:
    assert json_records(b'\xef\xbb\xbf{"every_s": 5}\n')[0].fields == {"every_s": 5}
    assert csv_records(b"\xef\xbb\xbfevery_s\n5\n")[0].fields == {"every_s": 5}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not JSON"),
        (b"every_s: 5", "not JSON"),
        (b'{"every_s": 5} {"every_s": 6}', "not JSON"),
        (b'{"key": "\xff"}', "not UTF-8 at byte 10"),
        (b'\xff\xfe{\x00"', "not UTF-8 at byte 1"),
        (b'{"key": "\x00"}', "not JSON"),
        (b"[1]", "a list is no job"),
        (b"5", "5 is no job"),
        (b'{"every_s": 5, "every_s": 6}', "stands twice"),
        (b'{"every_s": NaN}', "NaN is not JSON"),
        (b"{" * 100_000, "not JSON"),
        (b'{"payload": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"every_s": ' + b"9" * 5000 + b"}", "digits"),
        (b" " * (LINE_BYTES_MAX + 5) + b'{"every_s": 5}', "longer than"),
    ],
)
def test_a_bad_line_is_told_by_number_and_the_next_is_read(line: bytes, reason: str) -> None:
    bad, good = json_records(line + b'\n{"every_s": 6}\n')
    assert bad.line == 1
    assert reason in told(bad)
    assert good == Record(2, {"every_s": 6})


def test_a_line_without_an_end_does_not_fill_the_memory() -> None:
    class Endless(io.RawIOBase):
        def __init__(self) -> None:
            self.sent = 0

        def readline(self, size: int | None = -1) -> bytes:
            assert size is not None
            assert 0 < size <= LINE_BYTES_MAX + 1
            self.sent += size
            return b"x" * size if self.sent < 50 * LINE_BYTES_MAX else b""

    assert list(lines(cast(BinaryIO, Endless()))) == [(1, None)]


def test_a_csv_row_is_a_job_whose_empty_cells_are_left_out() -> None:
    (record,) = csv_records(b'key,every_s,enabled,payload\r\n"a,""b""\nc",60,f,"{""x"": [1.10]}"\r\n')
    assert record.line == 2
    assert record.fields["key"] == 'a,"b"\nc'
    assert record.fields["every_s"] == 60
    assert record.fields["enabled"] is False
    assert str(record.fields["payload"]) == "{'x': [Decimal('1.10')]}"
    assert csv_records(b"key,every_s\n,5\n")[0].fields == {"every_s": 5}


def test_a_csv_record_is_numbered_by_the_line_it_begins_on() -> None:
    records = csv_records(b'key,every_s\n"a\nb",5\n\n"c",6\n')
    assert [record.line for record in records] == [2, 5]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"key,evry_s", "did you mean every_s?"),
        (b"key,every_s,key", "stands twice"),
        (b"key,every_s,", "unknown field"),
        (b"key;every_s", "unknown field"),
        (b"id,created_at", "set by the database"),
    ],
)
def test_a_csv_header_that_names_no_columns_refuses_the_file(header: bytes, reason: str) -> None:
    with pytest.raises(HeaderError, match=r"^line 1: ") as refused:
        csv_records(header + b"\n1,2\n")
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"a", "has 1 cells, the header 3"),
        (b"a,5,null,6", "has 4 cells"),
        (b"a\xff,5,", "not UTF-8"),
        (b"a,5,{x}", "payload: not JSON"),
        (b"a,soon,", "every_s"),
        (b'"a"b,5,', "not CSV"),
        (b"a," + b"9" * 200_000 + b",", "not CSV"),
    ],
)
def test_a_bad_csv_row_is_told_by_number_and_the_next_is_read(row: bytes, reason: str) -> None:
    bad, good = csv_records(b"key,every_s,payload\n" + row + b"\nb,6,null\n")
    assert bad.line == 2
    assert reason in told(bad)
    assert good == Record(3, {"key": "b", "every_s": 6, "payload": None})


def test_a_huge_csv_line_is_told_without_being_held() -> None:
    def chunks() -> Iterator[bytes]:
        yield b"key,every_s\n"
        yield from itertools.repeat(b"a,", 2 * LINE_BYTES_MAX)
        yield b"\nb,6\n"

    bad, good = csv_records(b"".join(chunks()))
    assert bad.problems
    assert good.fields == {"key": "b", "every_s": 6}
