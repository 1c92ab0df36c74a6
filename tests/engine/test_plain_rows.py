"""The short way of an import says of each row what the long one says, or leaves it to that."""

import csv
import io
import json
from decimal import Decimal
from typing import Any

import asyncpg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mainspring.engine.jobs.definition import DefinitionError, read_definition
from mainspring.engine.jobs.fields import PAYLOAD_BYTES_MAX
from mainspring.engine.jobs.json_text import read_json
from mainspring.engine.jobs.plain_rows import csv_row, json_row
from mainspring.engine.jobs.records import Record, csv_record, json_record
from mainspring.engine.jobs.staging import staged_row

PLAIN = (
    b'{"id": 7, "key": "a", "every_s": 30, "enabled": true, "payload": {"url": "https://a.org", "n": 1.10}}'
)


def exactly(record: Record | None) -> bytes | None:
    """The row that the long way stages; None where it refuses."""
    if record is None or record.problems:
        return None
    try:
        definition = read_definition(record.fields)
    except DefinitionError:
        return None
    return staged_row(record.line, definition, says_enabled=record.fields.get("enabled") is not None)


def same(short: bytes, long: bytes | None) -> bool:
    """Whether two rows stage the same: the short way leaves the spelling of a payload to Postgres."""
    if long is None:
        return False
    *ours, payload = short.rstrip(b"\n").split(b"\t")
    *theirs, other = long.rstrip(b"\n").split(b"\t")
    return ours == theirs and (payload == other or _value(payload) == _value(other))


def _value(cell: bytes) -> Any:
    """Numbers by their digits, as jsonb keeps them."""
    value = read_json(cell.replace(b"\\\\", b"\\").decode())
    return _digits(value)


def _digits(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _digits(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_digits(member) for member in value]
    return format(value, "f") if isinstance(value, Decimal) else (type(value), value)


def agree(line: bytes) -> bool:
    """Whether the short way took the line; fails where the long one says anything else."""
    short = json_row(1, line)
    if isinstance(short, bytes):
        assert same(short, exactly(json_record(1, line))), line
        return True
    assert short == json_record(1, line)
    return False


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "id": st.one_of(st.integers(), st.sampled_from([0, -(2**63), 2**63 - 1, 2**63, True, 1.0, "7", None])),
    "key": st.one_of(
        st.text(max_size=6), st.sampled_from(["", "12", "a\\b", "ü" * 128, "x" * 256, "payload", None])
    ),
    "every_s": st.sampled_from([1, 30, 0, True, 30.0, "30", 2**31, None]),
    "cron": st.sampled_from(["* * * * *", "61 * * * *", "H H * * *", 5]),
    "run_at": st.sampled_from(["2027-01-01T00:00:00Z", 1800000000, "soon", 10**20]),
    "tz": st.sampled_from(["UTC", "Asia/Tokyo", "Mars/Olympus", 1]),
    "enabled": st.sampled_from([True, False, None, 1, "t"]),
    "route": st.sampled_from(["a.b", "a b", "x", ""]),
    "payload": VALUES,
    "note": VALUES,
}


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Objects that are nearly jobs, in any order, with any blanks; some names twice, some bytes changed."""
    names = draw(st.lists(st.sampled_from(list(FIELDS)), min_size=1, max_size=6))
    if "every_s" not in names and draw(st.booleans()):
        names.insert(0, "every_s")
    ascii_only, colon, comma = (
        draw(st.booleans()),
        *draw(st.sampled_from([(":", ","), (": ", ", "), (" : ", "\t,")])),
    )
    encode = json.JSONEncoder(ensure_ascii=ascii_only, separators=(comma, colon)).encode
    members = [f"{encode(name)}{colon}{encode(draw(FIELDS[name]))}" for name in names]
    line = bytearray(("{" + comma.join(members) + "}").encode(errors="surrogatepass"))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        place = draw(st.integers(0, len(line) - 1))
        line[place : place + draw(st.integers(0, 1))] = draw(
            st.sampled_from([b"", b",", b'"', b"}", b"{", b"\\", b" ", b"e9"])
        )
    return bytes(line) + draw(st.sampled_from([b"\n", b"\r\n", b"", b" \x0b"]))


@given(lines())
@example(b'{"every_s": 5, "payload": {"a": 1, "a": 2}}')
@example(b'{"every_s": 5, "payload": {"a": 1, "\\u0061": 2}}')
@example(b'{"every_s": 5, "every_s": 6}')
@example(b'{"every_s": 5, "payload": {}, "every_s": 5}')
@example(b'{"every_s": 5, "payload" : null}')
@example(b'{"every_s": 5, "payload" : null, "payload": {}}')
@example(b'{"every_s": 5, "payload": {}, "payload" : null}')
@example(b'{"every_s": 5, "payload": {},}')
@example(b'{,"payload": {}, "every_s": 5}')
@example(b'{"every_s": 5, "key": "abc,"payload":{}, x"}')
@example(b'{"every_s": 5 "payload": {}}')
@example(b'{"every_s": 5, "payload": {}}}')
@example(b'{"every_s": 5, "payload": {"a": 1e-9999}}')
@example(b'{"every_s": 5, "payload": {"a": [1E400]}}')
@example(b'{"every_s": 5, "payload": {"a": 123456789012345678901234567890.10}}')
@example(b'{"every_s": 5, "payload": {"a\\":": 1}}')
@example(b'{"every_s": 5, "payload": {"a": "\\\\t"}}')
@example(b'{"every_s": 5,\t"payload": {"a":\t1}\t}')
@example(b'{"every_s": 5, "payload": {"a": 1}} {"every_s": 5, "payload": {"a": 1}}')
def test_a_line_comes_to_the_same_by_both_ways(line: bytes) -> None:
    agree(line)


def test_plain_lines_take_the_short_way_wherever_the_payload_stands() -> None:
    job = json.loads(PLAIN)
    payload = job.pop("payload")
    for names in ("first", "last", "amid"):
        members = list(job.items())
        members.insert({"first": 0, "amid": 2, "last": len(members)}[names], ("payload", payload))
        for separators in ((",", ":"), (", ", ": ")):
            assert agree(json.dumps(dict(members), separators=separators).encode() + b"\n")
    assert agree(PLAIN)
    assert agree(b'{"every_s": 30}')
    assert agree('{"key": "zürich", "every_s": 30, "payload": {"a": "q\\"\\n\\\\ü"}}'.encode())


@pytest.mark.parametrize(
    "size", [PAYLOAD_BYTES_MAX // 2 - 10, PAYLOAD_BYTES_MAX // 2, PAYLOAD_BYTES_MAX, 100_000]
)
def test_a_large_payload_is_measured_as_postgres_writes_it(size: int) -> None:
    agree(json.dumps({"every_s": 5, "payload": {"a": "x" * size}}).encode())
    agree(json.dumps({"every_s": 5, "payload": {"a": [1] * (size // 2)}}, separators=(",", ":")).encode())


def test_values_that_python_holds_to_be_equal_are_not_taken_for_each_other() -> None:
    assert agree(b'{"every_s": 1, "enabled": true}')
    for line in (b'{"every_s": true, "enabled": true}', b'{"every_s": 1, "enabled": 1}', b'{"every_s": 1.0}'):
        assert not agree(line)
        assert exactly(json_record(1, line)) is None


CELLS = {
    "id": ["", "7", "-0", "007", "+7", "9223372036854775808", "7.0", "x"],
    "key": ["", "web-1", "12", "a\\b", "a\tb", "zürich", "\udcff", "x" * 256],
    "every_s": ["", "30", "5m", "0", "x"],
    "cron": ["", "H H * * *", "61 * * * *"],
    "enabled": ["", "t", "FALSE", "1"],
    "route": ["", "a.b", "a b"],
    "payload": ["", '{"a": 1.10}', '{"a": 1, "a": 2}', "null", "{x}",
                '{"a":\n"\\\\b"}', '{"a": "\udcff"}', '{"a": 1e999}'],
}  # fmt: skip


@given(st.lists(st.sampled_from(list(CELLS)), min_size=1, unique=True), st.data())
def test_a_csv_row_comes_to_the_same_by_both_ways(names: list[str], data: st.DataObject) -> None:
    header = tuple(names)
    cells = [data.draw(st.sampled_from(CELLS[name])) for name in names]
    short, long = csv_row(3, header, cells), csv_record(3, header, cells)
    if isinstance(short, bytes):
        assert same(short, exactly(long)), cells
    else:
        assert short == long


def test_plain_csv_rows_take_the_short_way() -> None:
    text = 'id,key,every_s,enabled,payload\n7,web-1,5m,t,"{""a"": [1.10]}"\n'
    header, cells = csv.reader(io.StringIO(text))
    assert isinstance(csv_row(2, tuple(header), cells), bytes)


async def test_postgres_reads_of_both_ways_the_same_bytes(database: str) -> None:
    """What a payload is to Postgres, from the file's own bytes and from those that the long way writes."""
    connection = await asyncpg.connect(database)
    for text in (
        '{"a": 1.10, "b": -0, "c": -0.0, "d": 123456789012345678901234567890.5000}',
        '{"b":1,"a":{"z":[],"y":{}}}',
        '{"q": "\\"\\\\\\/\\b\\f\\n\\r\\t", "ü": "\U0001f600\x7f"}',
    ):
        line = f'{{"every_s": 5, "payload": {text}}}'.encode()
        short, long = json_row(1, line), exactly(json_record(1, line))
        assert isinstance(short, bytes)
        assert long is not None
        cells = [row.rstrip(b"\n").split(b"\t")[-1] for row in (short, long)]
        spelled = [
            await connection.fetchval("select ($1::text::jsonb)::text", cell.replace(b"\\\\", b"\\").decode())
            for cell in cells
        ]
        assert spelled[0] == spelled[1]
    await connection.close()
