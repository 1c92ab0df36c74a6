"""Turns rows of the table and of its change log into batches for the wheel.

The wheel knows routes and cron expressions by number. A row that cannot be judged good becomes a delete
of that job, so that its earlier definition does not go on firing, and the job is quarantined by name.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mainspring.changelog_tailer import OP_DELETE as ROW_DELETE
from mainspring.changelog_tailer import OP_INSERT as ROW_INSERT
from mainspring.changelog_tailer import OP_LOAD as ROW_LOAD
from mainspring.changelog_tailer import OP_TRUNCATE as ROW_TRUNCATE
from mainspring.changelog_tailer import OP_UPDATE as ROW_UPDATE
from mainspring.changelog_tailer import Rows
from mainspring.engine.quarantine import Quarantine
from mainspring.wheel import (
    DEFINITION,
    KIND_CRON,
    KIND_INTERVAL,
    KIND_ONCE,
    NEVER,
    OP_DELETE,
    OP_INSERT,
    OP_LOAD,
    OP_UPDATE,
    Wheel,
)

log = logging.getLogger(__name__)

_OPS = {ROW_LOAD: OP_LOAD, ROW_INSERT: OP_INSERT, ROW_UPDATE: OP_UPDATE, ROW_DELETE: OP_DELETE}
_KNOWN_OPS = (*_OPS, ROW_TRUNCATE)
_SHARED = (
    "seq", "run_at", "starts_at", "ends_at", "boost_until", "every_s", "phase_s", "jitter_s", "boost_every_s",
    "key_at", "key_len", "data_at", "data_len", "enabled", "first_run_soon", "catch_up",
)  # fmt: skip
# What the table's constraints refuse may still stand in a log that somebody wrote into by hand.
_CATCH_UP_MAX = 2
_KEY_MAX = 255
_DATA_MAX = 65_536
_BAD = -1


@dataclass(frozen=True, slots=True)
class Batch:
    """Definitions for `Wheel.apply`, with what the conductor needs to time and count them.

    changed_at: (n,) epoch seconds, float64. ops: (n,) the row's operation in the change log.
    """

    definitions: NDArray[np.void]
    texts: bytes
    changed_at: NDArray[np.float64]
    ops: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.definitions)


class Judge:
    """Keeps what it has interned, one list for each dictionary of the decoder."""

    def __init__(self, wheel: Wheel, quarantine: Quarantine) -> None:
        self._wheel = wheel
        self._quarantine = quarantine
        self._routes = _Interned(wheel.route)
        self._crons = _Interned(lambda pair: wheel.cron(*pair))

    def judge(self, rows: Rows) -> Batch:
        """The batch for these rows, in their order; bad definitions are quarantined."""
        rows = _without_unknown_ops(rows)
        source = rows.rows
        definitions = np.zeros(len(source), dtype=DEFINITION)
        definitions["id"] = source["job_id"]
        for name in _SHARED:
            definitions[name] = source[name]
        definitions["op"] = _mapped_ops(source["op"])
        definitions["kind"] = _kinds(source)
        routes = self._routes.numbers(rows.routes)[source["route"]]
        crons = self._crons.numbers(rows.crons)[source["cron"]]
        self._set_bad_aside(rows, definitions, routes, crons)
        definitions["route"] = np.maximum(routes, 0)
        definitions["cron"] = np.maximum(crons, 0)
        return Batch(definitions, rows.texts, source["changed_at"] / 1e6, source["op"])

    def _set_bad_aside(
        self,
        rows: Rows,
        definitions: NDArray[np.void],
        routes: NDArray[np.int64],
        crons: NDArray[np.int64],
    ) -> None:
        kinds, live = definitions["kind"], definitions["op"] != OP_DELETE
        bad = live & (
            (kinds == 0)
            | ((kinds == KIND_CRON) & (crons == _BAD))
            | (routes == _BAD)
            | (definitions["catch_up"] > _CATCH_UP_MAX)
            | (definitions["key_len"] > _KEY_MAX)
            | (definitions["data_len"] > _DATA_MAX)
            | (definitions["boost_every_s"] < 0)
        )
        if bad.any() or len(self._quarantine):
            self._note(rows, bad)
        definitions["op"][bad] = OP_DELETE

    def _note(self, rows: Rows, bad: NDArray[np.bool_]) -> None:
        """Quarantine and release by the last row of each job, for that is what holds afterwards."""
        start = 0
        if len(truncates := np.flatnonzero(rows.rows["op"] == ROW_TRUNCATE)):
            self._quarantine.clear()
            start = int(truncates[-1]) + 1
        job_ids = rows.rows["job_id"][start:]
        _, from_end = np.unique(job_ids[::-1], return_index=True)
        for position in (start + len(job_ids) - 1 - from_end).tolist():
            job_id = int(rows.rows["job_id"][position])
            if bad[position]:
                self._quarantine.add(job_id, self._reason(rows, position))
            else:
                self._quarantine.release(job_id)

    def _reason(self, rows: Rows, position: int) -> str:
        row = rows.rows[position]
        if row["every_s"] <= 0 and not row["cron"] and row["run_at"] == NEVER:
            return "it has no schedule: set one of every_s, cron, run_at"
        if row["catch_up"] > _CATCH_UP_MAX:
            return "catch_up is none of all, latest, none"
        if row["key_len"] > _KEY_MAX or row["data_len"] > _DATA_MAX:
            return f"its key is over {_KEY_MAX} bytes, or its payload over {_DATA_MAX}"
        refused = self._crons.errors.get(int(row["cron"])) if row["cron"] else None
        return refused or self._routes.errors.get(int(row["route"])) or "boost_every_s is negative"


class _Interned:
    """Numbers in the wheel for the codes of one growing dictionary; -1 for an entry that was refused."""

    def __init__(self, intern: Callable[..., int]) -> None:
        self._intern = intern
        self._numbers = np.empty(0, dtype=np.int64)
        self.errors: dict[int, str] = {}

    def numbers(self, dictionary: Sequence[object]) -> NDArray[np.int64]:
        """Extend to the whole dictionary; (len(dictionary),) int64."""
        known = len(self._numbers)
        if known < len(dictionary):
            added = [self._number(code, dictionary[code]) for code in range(known, len(dictionary))]
            self._numbers = np.concatenate([self._numbers, np.array(added, dtype=np.int64)])
        return self._numbers

    def _number(self, code: int, entry: object) -> int:
        try:
            return self._intern(entry)
        except ValueError as error:
            self.errors[code] = str(error)
            return _BAD


def _without_unknown_ops(rows: Rows) -> Rows:
    """A row that somebody wrote by hand, or a later version did: no definition of ours changes."""
    known = np.isin(rows.rows["op"], _KNOWN_OPS)
    if known.all():
        return rows
    for row in rows.rows[~known]:
        log.error(
            "change log row %d (job %d) is left out: its op is unknown, or it has a null or a value that no "
            "trigger of ours writes. Mend: write mainspring.jobs, never mainspring.job_changes",
            row["seq"],
            row["job_id"],
        )
    return replace(rows, rows=rows.rows[known])


def _mapped_ops(ops: NDArray[np.uint8]) -> NDArray[np.uint8]:
    table = np.full(256, OP_DELETE, dtype=np.uint8)
    for row_op, wheel_op in _OPS.items():
        table[row_op] = wheel_op
    return table[ops]


def _kinds(rows: NDArray[np.void]) -> NDArray[np.uint8]:
    """The schedule each row sets; 0 where it sets none."""
    choices = [rows["every_s"] > 0, rows["cron"] != 0, rows["run_at"] != NEVER]
    kinds: NDArray[np.uint8] = np.select(choices, [KIND_INTERVAL, KIND_CRON, KIND_ONCE]).astype(np.uint8)
    return kinds
