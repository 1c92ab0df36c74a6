"""Turns rows of the table and of its change log into batches for the wheel.

The wheel knows routes and cron expressions by number. A row that cannot be judged good becomes a delete
of that job, so that its earlier definition does not go on firing, and the job is quarantined by name.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mainspring.changelog_tailer import OP_TRUNCATE, Rows
from mainspring.engine.intake.quarantine import Quarantine
from mainspring.engine.intake.verdicts import BAD, UNKNOWN_OP, judged
from mainspring.wheel import NEVER, Wheel

log = logging.getLogger(__name__)

# For the reason alone: `verdicts` judges.
_CATCH_UP_MAX = 2
_KEY_MAX = 255
_DATA_MAX = 65_536
_REFUSED = -1


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
        definitions, verdicts, odd = self._judged(rows)
        if odd and (unknown := verdicts == UNKNOWN_OP).any():
            rows = _without(rows, unknown)
            definitions, verdicts, odd = self._judged(rows)
        if odd or len(self._quarantine):
            self._note(rows, verdicts == BAD)
        return Batch(definitions, rows.texts, rows.rows["changed_at"] / 1e6, rows.rows["op"])

    def _judged(self, rows: Rows) -> tuple[NDArray[np.void], NDArray[np.uint8], int]:
        routes, crons = self._routes.numbers(rows.routes), self._crons.numbers(rows.crons)
        return judged(rows.rows, routes, crons)

    def _note(self, rows: Rows, bad: NDArray[np.bool_]) -> None:
        """Quarantine and release by the last row of each job, for that is what holds afterwards."""
        start = 0
        if len(truncates := np.flatnonzero(rows.rows["op"] == OP_TRUNCATE)):
            self._quarantine.clear()
            start = int(truncates[-1]) + 1
        job_ids, bad = rows.rows["job_id"][start:], bad[start:]
        # Of the others, most by far, nothing is to be noted, and a Python object for each would be dear.
        concerned = start + np.flatnonzero(np.isin(job_ids, job_ids[bad]) | self._quarantine.among(job_ids))
        last = {int(rows.rows["job_id"][position]): position for position in concerned.tolist()}
        for job_id, position in last.items():
            if bad[position - start]:
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
            return _REFUSED


def _without(rows: Rows, unknown: NDArray[np.bool_]) -> Rows:
    """A row that somebody wrote by hand, or a later version did: no definition of ours changes."""
    for row in rows.rows[unknown]:
        log.error(
            "change log row %d (job %d) is left out: its op is unknown, or it has a null or a value that no "
            "trigger of ours writes. Mend: write mainspring.jobs, never mainspring.job_changes",
            row["seq"],
            row["job_id"],
        )
    return replace(rows, rows=rows.rows[~unknown])
