"""The decoder against rows of every kind, cut anywhere, and against what is no COPY at all."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changelog_tailer.copy_format import (
    CHANGE,
    HEADER,
    INFINITY,
    JOB,
    LOG_COLUMNS,
    TRAILER,
    copy_of,
    row,
)
from mainspring.changelog_tailer import (
    BEGINNING,
    CATCH_UP_UNKNOWN,
    NEVER,
    OP_DELETE,
    OP_INSERT,
    OP_LOAD,
    OP_TRUNCATE,
    OP_UNKNOWN,
    OP_UPDATE,
    Decoder,
    Rows,
    RowsCorrupt,
)

OPS = {"load": OP_LOAD, "insert": OP_INSERT, "update": OP_UPDATE}
CATCH_UPS = {"all": 0, "latest": 1, "none": 2}

text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
int32 = st.integers(0, 2**31 - 1)
instant = st.none() | st.integers(-(10**17), 10**17) | st.sampled_from([INFINITY, -INFINITY])

jobs = st.fixed_dictionaries(
    {
        "job_id": st.integers(-(2**63), 2**63 - 1),
        "key": st.none() | text.filter(lambda key: len(key.encode()) <= 255),
        "every_s": st.none() | int32.filter(bool),
        "cron": st.none() | st.just("") | text.filter(lambda cron: len(cron) <= 256),
        "run_at": instant,
        "tz": text.filter(lambda tz: len(tz) <= 64),
        "phase_s": st.none() | int32,
        "jitter_s": st.none() | int32,
        "starts_at": instant,
        "ends_at": instant,
        "boost_every_s": st.none() | int32.filter(bool),
        "boost_until": instant,
        "catch_up": st.sampled_from(sorted(CATCH_UPS)),
        "first_run_soon": st.booleans(),
        "enabled": st.booleans(),
        "route": text,
        "payload": st.none() | text.filter(lambda payload: len(payload.encode()) <= 65536),
    }
)
changes = st.builds(
    lambda head, job: head | job,
    st.fixed_dictionaries(
        {
            "seq": st.integers(1, 2**63 - 1),
            "op": st.sampled_from(sorted(OPS)),
            "changed_at": st.integers(0, 10**17),
        }
    ),
    jobs,
)


def decoded(data: bytes, decoder: Decoder | None = None) -> Rows:
    """The rows of a whole COPY."""
    decoder = decoder or Decoder()
    decoder.begin()
    rows = decoder.decode(data)
    decoder.finish()
    return rows


def seconds(us: int | None, absent: int) -> int:
    if us is None:
        return absent
    if abs(us) == INFINITY:
        return NEVER if us > 0 else BEGINNING
    return math.ceil(us / 10**6) if abs(us) < 2**50 else -(-us // 10**6)


def expected(job: dict[str, Any]) -> dict[str, Any]:
    """What the decoder has to make of a row, said plainly."""
    return {
        "seq": job.get("seq", 0),
        "changed_at": job.get("changed_at", 0),
        "op": OPS[job.get("op", "load")],
        "job_id": job["job_id"],
        "run_at": seconds(job["run_at"], NEVER),
        "starts_at": seconds(job["starts_at"], BEGINNING),
        "ends_at": seconds(job["ends_at"], NEVER),
        "boost_until": seconds(job["boost_until"], BEGINNING),
        "every_s": job["every_s"] or 0,
        "phase_s": -1 if job["phase_s"] is None else job["phase_s"],
        "jitter_s": -1 if job["jitter_s"] is None else job["jitter_s"],
        "boost_every_s": job["boost_every_s"] or 0,
        "enabled": int(job["enabled"]),
        "first_run_soon": int(job["first_run_soon"]),
        "catch_up": CATCH_UPS[job["catch_up"]],
        "route": job["route"],
        "cron": ("", "") if job["cron"] is None else (job["cron"], job["tz"]),
        "key": job["key"],
        "payload": job["payload"],
    }


def seen(rows: Rows, position: int) -> dict[str, Any]:
    found = rows.rows[position]
    numbers = {name: int(found[name]) for name in found.dtype.names if not name.endswith(("_at", "_len"))}
    numbers |= {name: int(found[name]) for name in ("changed_at", "run_at", "starts_at", "ends_at")}
    return numbers | {
        "route": rows.routes[found["route"]],
        "cron": rows.crons[found["cron"]],
        "key": rows.key(position),
        "payload": rows.payload(position),
    }


@given(st.lists(jobs | changes, max_size=8))
def test_every_row_is_decoded_to_what_it_says(given_rows: list[dict[str, Any]]) -> None:
    rows = decoded(copy_of(given_rows))
    assert [seen(rows, i) for i in range(len(rows))] == [expected(job) for job in given_rows]


@given(st.lists(changes, max_size=4), st.data())
def test_a_copy_cut_into_pieces_anywhere_gives_the_same_rows(
    given_rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    whole = copy_of(given_rows)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    decoder, found = Decoder(), []
    for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        rows = decoder.decode(whole[start:stop])
        found += [seen(rows, i) for i in range(len(rows))]
    decoder.finish()
    assert found == [expected(job) for job in given_rows]


@given(st.lists(changes, min_size=1, max_size=2))
def test_a_copy_that_ends_too_early_is_noticed_wherever_it_ends(given_rows: list[dict[str, Any]]) -> None:
    whole = copy_of(given_rows)
    for stop in range(len(whole)):
        decoder = Decoder()
        decoder.decode(whole[:stop])
        with pytest.raises(RowsCorrupt, match="end too early"):
            decoder.finish()


@given(st.binary(max_size=200), st.booleans())
def test_bytes_of_any_kind_give_rows_or_an_error_and_never_more(noise: bytes, with_header: bool) -> None:
    decoder = Decoder()
    try:
        rows = decoder.decode(HEADER + noise if with_header else noise)
    except RowsCorrupt:
        return
    assert len(rows) <= len(noise)


@given(changes, st.data())
def test_a_field_of_the_wrong_length_marks_its_row_and_no_other(
    change: dict[str, Any], data: st.DataObject
) -> None:
    texts = ("key", "cron", "tz", "route", "op", "catch_up", "payload")
    broken = data.draw(st.sampled_from([name for name in change if name not in texts]))
    rows = decoded(copy_of([CHANGE, change | {broken: b"xyz"}, CHANGE]))
    assert rows.rows["op"].tolist() == [OP_INSERT, OP_UNKNOWN, OP_INSERT]


@pytest.mark.parametrize(
    "change",
    [
        {"op": "explode"},
        {"op": ""},
        {"op": None},
        {"op": "INSERT"},
        {"job_id": None},
        {"tz": None},
        {"route": None},
        {"catch_up": None},
        {"enabled": None},
        {"first_run_soon": None},
        {"every_s": 0},
        {"every_s": -5},
        {"phase_s": -1},
        {"jitter_s": -1},
        {"boost_every_s": 0},
        {"key": "k" * 256},
        {"payload": "x" * 65537},
        {"payload": b"\x02{}"},
        {"payload": b"\x01"},
        {"payload": b""},
        {"cron": "*" * 1025},
        {"tz": "x" * 257},
    ],
    ids=str,
)
def test_a_row_no_writer_of_the_table_can_make_is_marked_unknown(change: dict[str, Any]) -> None:
    rows = decoded(copy_of([CHANGE | change, CHANGE]))
    assert rows.rows["op"].tolist() == [OP_UNKNOWN, OP_INSERT]
    assert rows.rows["job_id"].tolist() == [0 if change.get("job_id", 1) is None else 1, 1]


def test_a_row_of_the_table_with_a_null_id_is_marked_unknown() -> None:
    assert decoded(copy_of([JOB | {"job_id": None}])).rows["op"].tolist() == [OP_UNKNOWN]


def test_another_catch_up_is_left_to_the_judge() -> None:
    rows = decoded(copy_of([CHANGE | {"catch_up": "some"}]))
    assert rows.rows["catch_up"].tolist() == [CATCH_UP_UNKNOWN]
    assert rows.rows["op"].tolist() == [OP_INSERT]


def test_deletes_and_truncates_carry_no_definition() -> None:
    gone: dict[str, Any] = dict.fromkeys(CHANGE) | {"changed_at": 5}
    rows = decoded(
        copy_of([gone | {"seq": 1, "op": "delete", "job_id": 7}, gone | {"seq": 2, "op": "truncate"}])
    )
    assert rows.rows["op"].tolist() == [OP_DELETE, OP_TRUNCATE]
    assert rows.rows["job_id"].tolist() == [7, 0]
    assert rows.rows["route"].tolist() == [0, 0]
    assert rows.routes == ["default"]


def test_codes_stay_good_from_one_copy_to_the_next() -> None:
    decoder = Decoder()
    first = decoded(copy_of([JOB | {"route": f"r{i}", "cron": f"{i} * * * *"} for i in range(500)]), decoder)
    again = decoded(
        copy_of([JOB | {"route": f"r{i}", "cron": f"{i} * * * *"} for i in range(999, -1, -1)]), decoder
    )
    assert again.rows["route"].tolist()[:499:-1] == first.rows["route"].tolist()
    assert again.rows["cron"].tolist()[:499:-1] == first.rows["cron"].tolist()
    assert decoder.routes is again.routes is first.routes
    assert len(decoder.routes) == len(set(decoder.routes)) == 1001


def test_the_same_expression_in_two_zones_has_two_codes() -> None:
    rows = decoded(copy_of([JOB | {"cron": "@daily", "tz": tz} for tz in ("UTC", "Asia/Tokyo", "UTC")]))
    assert rows.rows["cron"].tolist() == [1, 2, 1]
    assert rows.crons == [("", ""), ("@daily", "UTC"), ("@daily", "Asia/Tokyo")]


@pytest.mark.parametrize(
    "data",
    [
        b"PGCOPX\n\xff\r\n\x00" + bytes(8),
        b"<html>",
        HEADER[:11] + b"\0\x01\0\0" + bytes(4),
        HEADER + b"\0\x05" + bytes(100),
        HEADER + b"\0\x11" + b"\xff\xff\xff\xfe" * 17,
        HEADER + TRAILER + b"more",
        HEADER + row(JOB) + TRAILER + row(JOB),
    ],
    ids=["signature", "other", "flags", "columns", "length", "after the end", "rows after the end"],
)
def test_what_is_no_copy_of_jobs_is_refused(data: bytes) -> None:
    with pytest.raises(RowsCorrupt):
        decoded(data)


def test_a_decoder_starts_afresh_after_a_copy_that_broke_off() -> None:
    decoder = Decoder()
    decoder.decode(copy_of([JOB])[:-30])
    assert len(decoded(copy_of([JOB, JOB]), decoder)) == 2


def test_the_log_columns_stand_before_those_of_the_job() -> None:
    assert tuple(CHANGE)[: len(LOG_COLUMNS)] == LOG_COLUMNS
