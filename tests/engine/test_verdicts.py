"""What is judged in C is judged as the plain words below say, whatever stands in the row."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mainspring.changelog_tailer import OP_DELETE, OP_INSERT, OP_LOAD, OP_TRUNCATE, OP_UNKNOWN, OP_UPDATE, ROW
from mainspring.engine.intake.verdicts import BAD, EMPTIES, GOOD, UNKNOWN_OP, judged
from mainspring.wheel import KIND_CRON, KIND_INTERVAL, KIND_ONCE, NEVER
from mainspring.wheel import OP_DELETE as GONE

ROUTES = np.array([0, -1, 7], np.int64)
CRONS = np.array([0, 3, -1], np.int64)
OPS = {OP_LOAD: 0, OP_INSERT: 1, OP_UPDATE: 2, OP_DELETE: GONE, OP_TRUNCATE: GONE, OP_UNKNOWN: GONE, 9: GONE}
FIELDS: dict[str, list[int]] = {
    "seq": [0, 1, 2**62],
    "job_id": [-(2**63), 0, 2**63 - 1],
    "run_at": [NEVER, 5, -(2**63)],
    "starts_at": [-(2**63), 5],
    "ends_at": [NEVER, 5],
    "boost_until": [-(2**63), 5],
    "changed_at": [0, 1_764_500_000_000_000, 1_764_500_000_999_999],
    "every_s": [0, 1, -5, 2**31 - 1],
    "phase_s": [-1, 0, 9],
    "jitter_s": [-1, 0, 9],
    "boost_every_s": [0, 3, -1],
    "route": [0, 1, 2, 3, 2**32 - 1],
    "cron": [0, 1, 2, 3],
    "key_at": [0, 8],
    "key_len": [0, 255, 256],
    "data_at": [0, 8],
    "data_len": [0, 65_536, 65_537],
    "op": list(OPS),
    "enabled": [0, 1],
    "first_run_soon": [0, 1],
    "catch_up": [0, 1, 2, 3, 255],
}
SAME = set(FIELDS) - {"job_id", "route", "cron", "op", "changed_at"}


def number(numbers: NDArray[np.int64], code: int) -> int:
    return int(numbers[code]) if code < len(numbers) else -1


def kind_of(row: dict[str, int]) -> int:
    if row["every_s"] > 0:
        return KIND_INTERVAL
    if row["cron"]:
        return KIND_CRON
    return KIND_ONCE if row["run_at"] != NEVER else 0


def is_bad(row: dict[str, int]) -> bool:
    return (
        kind_of(row) == 0
        or (kind_of(row) == KIND_CRON and number(CRONS, row["cron"]) < 0)
        or number(ROUTES, row["route"]) < 0
        or row["catch_up"] > 2
        or row["key_len"] > 255
        or row["data_len"] > 65_536
        or row["boost_every_s"] < 0
    )


def verdict(row: dict[str, int]) -> int:
    if row["op"] == OP_TRUNCATE:
        return EMPTIES
    if row["op"] in (OP_LOAD, OP_INSERT, OP_UPDATE):
        return BAD if is_bad(row) else GOOD
    return GOOD if row["op"] == OP_DELETE else UNKNOWN_OP


# The first value of each is the plain one, so that rows with one fault are not rare.
ODD = st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in FIELDS.items()})


@given(st.lists(ODD, max_size=8))
def test_every_row_is_judged_by_its_own_fields_alone(odd: list[dict[str, int]]) -> None:
    plain = {name: values[0] for name, values in FIELDS.items()} | {"every_s": 60}
    rows = np.zeros(len(odd), ROW)
    for position, changes in enumerate(odd):
        for name, value in (plain | changes).items():
            rows[name][position] = value
    definitions, verdicts, odd_count = judged(rows, ROUTES, CRONS)
    assert odd_count == np.count_nonzero(verdicts != GOOD)
    for position, changes in enumerate(odd):
        row, definition = plain | changes, definitions[position]
        assert verdicts[position] == verdict(row)
        assert definition["id"] == row["job_id"]
        assert definition["changed_at"] == row["changed_at"] // 1_000_000
        assert definition["op"] == (GONE if verdict(row) == BAD else OPS[row["op"]])
        assert definition["kind"] == kind_of(row)
        assert definition["route"] == max(0, number(ROUTES, row["route"]))
        assert definition["cron"] == max(0, number(CRONS, row["cron"]))
        assert all(definition[name] == row[name] for name in SAME)
