"""The table as it was: every job as a cursor saw it, out of the table now and what the log holds since."""

import asyncio
from dataclasses import dataclass

import asyncpg
import numpy as np
from numpy.typing import NDArray

from mainspring.changelog_tailer.connection import QUERY_TIMEOUT_S, cursor_now
from mainspring.changelog_tailer.copying import RowSink, copy_rows
from mainspring.changelog_tailer.cursor import Cursor
from mainspring.changelog_tailer.layout import OP_LOAD, ROW, Rows
from mainspring.changelog_tailer.reading import JOBS, undo_since
from mainspring.changelog_tailer.rows import Decoder


@dataclass(frozen=True, slots=True)
class Past:
    """moved: ids, sorted, of the jobs that were changed between the cursor and `now`."""

    now: Cursor
    moved: NDArray[np.int64]


async def load_at(connection: asyncpg.Connection, since: Cursor, sink: RowSink, decoder: Decoder) -> Past:
    """Hand every job to `sink` as `since` saw it, as OP_LOAD rows in no order.

    What changed since then is held in memory, so `since` should not be old. Raises CursorVoid where it is of
    another log or was pruned past. After an error the connection is aborted.
    """
    undone = _Undone(sink)
    await _execute(connection, "begin isolation level repeatable read read only")
    now = await cursor_now(connection)
    await undo_since(connection, since, now, undone.keep, decoder)
    moved = np.sort(np.concatenate([np.empty(0, np.int64), *(rows.rows["job_id"] for rows in undone.rows)]))
    await copy_rows(connection, JOBS, _without(moved, sink), decoder)
    await undone.hand_over()
    await _execute(connection, "commit")
    return Past(now, moved)


class _Undone:
    """The definitions before what changed."""

    def __init__(self, sink: RowSink) -> None:
        self.rows: list[Rows] = []
        self._sink = sink

    async def keep(self, rows: Rows) -> None:
        self.rows.append(rows)

    async def hand_over(self) -> None:
        for rows in self.rows:
            await self._sink(_only(rows, rows.rows["op"] == OP_LOAD))


def _without(ids: NDArray[np.int64], sink: RowSink) -> RowSink:
    async def hand_over(rows: Rows) -> None:
        await sink(_only(rows, ~np.isin(rows.rows["job_id"], ids)) if len(ids) else rows)

    return hand_over


def _only(rows: Rows, wanted: NDArray[np.bool_]) -> Rows:
    return Rows(rows.rows[wanted].astype(ROW, copy=False), rows.texts, rows.routes, rows.crons)


async def _execute(connection: asyncpg.Connection, statement: str) -> None:
    async with asyncio.timeout(QUERY_TIMEOUT_S):
        await connection.execute(statement)
