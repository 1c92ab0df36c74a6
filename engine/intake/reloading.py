"""Brings a wheel that goes on firing to what a table holds, when the log between the two cannot be read.

The old jobs fire until their row comes by. Every row of the table goes the way of a change that was made when
the reload began: it waits for its second, a row that says what is known already changes nothing, and one of
seq 0 is always accepted and leaves a job that accepts any seq, which another log numbers anew. At last the
jobs that the table does not hold are deleted. So no second waiting to be drained is drained under definitions
that are newer than it, and nothing is held twice but the ids.
"""

import logging
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

import asyncpg
import numpy as np
from numpy.typing import NDArray

from mainspring.changelog_tailer import OP_DELETE as ROW_DELETE
from mainspring.changelog_tailer import Cursor, Decoder, Rows, load
from mainspring.engine.intake.changes import ChangeQueue
from mainspring.engine.intake.judge import Batch, Judge
from mainspring.engine.intake.quarantine import Quarantine
from mainspring.engine.threads import on_thread
from mainspring.wheel import DEFINITION, OP_DELETE, SHARDS, Wheel

log = logging.getLogger(__name__)

Ids = NDArray[np.int64]


@dataclass(slots=True)
class Reload:
    """One attempt. What a failed one has applied stays, and the next one goes over it.

    began_at: epoch seconds. void: the cursor that holds until all is applied.
    """

    wheel: Wheel
    quarantine: Quarantine
    judge: Judge
    decoder: Decoder
    changes: ChangeQueue
    threads: Executor
    began_at: float
    void: Cursor
    _held: list[Ids] = field(init=False, default_factory=list)
    _sorted: Ids = field(init=False, default_factory=lambda: np.empty(0, np.int64))

    async def run(self, connection: asyncpg.Connection) -> Cursor:
        """Where to tail on. Raises what `mainspring.changelog_tailer.LOST` names, and `ChangeLogError`."""
        cursor = await load(connection, self._take, self.decoder)
        await self.changes.all_applied()
        gone = await on_thread(self.threads, self._gone)
        self._release_gone()
        await self.changes.put(self._deletes(gone), cursor)
        log.info("the jobs are loaded again: %d rows, %d jobs are gone", len(self._sorted), len(gone))
        return cursor

    async def _take(self, rows: Rows) -> None:
        self._held.append(rows.rows["job_id"].copy())
        batch = self.judge.judge(rows)
        await self.changes.put(replace(batch, changed_at=self._at(len(batch))), self.void)

    def _gone(self) -> Ids:
        """The jobs of the wheel that the table does not hold. Takes seconds for millions, without the GIL."""
        self._sorted = np.sort(np.concatenate([np.empty(0, np.int64), *self._held]))
        self._held.clear()
        by_shard = [self._not_held(np.sort(self.wheel.ids(shard))) for shard in range(SHARDS)]
        return np.concatenate(by_shard)

    def _not_held(self, ids: Ids) -> Ids:
        places = np.searchsorted(self._sorted, ids)
        inside = places < len(self._sorted)
        there = np.zeros(len(ids), np.bool_)
        there[inside] = self._sorted[places[inside]] == ids[inside]
        return ids[~there]

    def _release_gone(self) -> None:
        quarantined = np.array([job_id for job_id, _ in self.quarantine], np.int64)
        for job_id in self._not_held(quarantined).tolist():
            self.quarantine.release(job_id)

    def _deletes(self, ids: Ids) -> Batch:
        definitions = np.zeros(len(ids), DEFINITION)
        definitions["id"], definitions["op"] = ids, OP_DELETE
        return Batch(definitions, b"", self._at(len(ids)), np.full(len(ids), ROW_DELETE, np.uint8))

    def _at(self, rows: int) -> NDArray[np.float64]:
        return np.full(rows, self.began_at)
