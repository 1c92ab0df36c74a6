"""Removes from the change log what nobody needs any more; safe beside readers, writers and another pruning.

    done = await prune(dsn, cursors, keep_s=3600)

A row goes when it is older than `keep_s`, every cursor sees it, and a later such row of its job stays.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from mainspring.changelog_tailer.connection import QUERY_TIMEOUT_S, connect, cursor_now, session
from mainspring.changelog_tailer.cursor import Cursor
from mainspring.changelog_tailer.errors import ChangeLogError
from mainspring.changelog_tailer.queries import query

BATCH_ROWS = 10_000
# Finding the last row of each job reads and sorts all that is old enough.
SCAN_TIMEOUT_S = 3600.0
BATCH_TIMEOUT_S = 120.0


class PruningRuns(ChangeLogError):
    """Another one is at work on this database."""


@dataclass(frozen=True, slots=True)
class Lag:
    """What of the log a reader at `cursor` has not seen.

    void: the cursor says nothing about this log. elsewhere: it is void for it is of another database.
    """

    cursor: Cursor
    rows: int = 0
    since: datetime | None = None
    void: bool = False
    elsewhere: bool = False


async def prune(
    dsn: str,
    cursors: Iterable[Cursor],
    *,
    keep_s: float,
    tell: Callable[[int], None] = lambda _removed: None,
    batch_rows: int = BATCH_ROWS,
    **options: Any,
) -> int:
    """Remove in batches of `batch_rows`, each a transaction, and `tell` of each; gives how many rows went.

    Cursors of another log protect nothing. Raises PruningRuns, and what `connect` raises.
    """
    connection = await connect(dsn, **options)
    try:
        if not await connection.fetchval(query("lock_pruning")):
            raise PruningRuns("another `mainspring db prune` is at work on this database; wait for it")
        below, older_than = await _limits(connection, cursors, keep_s)
        return await _Pruning(connection, below, older_than, batch_rows, tell).run()
    finally:
        connection.terminate()  # ends the lock and the temporary table, also of a server that hangs


async def _limits(
    connection: asyncpg.Connection, cursors: Iterable[Cursor], keep_s: float
) -> tuple[int, datetime]:
    async with asyncio.timeout(QUERY_TIMEOUT_S):
        limits = await connection.fetchrow(query("pruning_limits"), float(keep_s))
    here = await cursor_now(connection)
    needed = (cursor.xmin for cursor in cursors if cursor.same_log(here))
    return min([limits["oldest_open"], *needed]), limits["older_than"]


class _Pruning:
    def __init__(
        self,
        connection: asyncpg.Connection,
        below: int,
        older_than: datetime,
        batch_rows: int,
        tell: Callable[[int], None],
    ) -> None:
        self._connection = connection
        self._below = str(below)
        self._older_than = older_than
        self._batch_rows = batch_rows
        self._tell = tell

    async def run(self) -> int:
        async with asyncio.timeout(SCAN_TIMEOUT_S):
            await self._connection.execute(query("keep_last_rows"), self._below, self._older_than)
            await self._connection.execute(query("index_kept_rows"))
        removed, at = 0, ("0", 0)
        while (batch := await self._batch(at)) is not None:
            removed += batch["removed"]
            at = (str(batch["last_xid"]), batch["last_seq"])
            self._tell(removed)
        return removed

    async def _batch(self, at: tuple[str, int]) -> asyncpg.Record | None:
        async with asyncio.timeout(BATCH_TIMEOUT_S):
            return await self._connection.fetchrow(
                query("prune_some"), *at, self._below, self._older_than, self._batch_rows
            )


async def lags(dsn: str, cursors: Iterable[Cursor], **options: Any) -> list[Lag]:
    """How far behind the log each cursor is, in their order. Needs SELECT alone."""
    async with session(dsn, **options) as connection:
        here = await cursor_now(connection)
        async with asyncio.timeout(QUERY_TIMEOUT_S):
            pruned_before = await connection.fetchval(query("pruned_before"))
        return [await _lag(connection, cursor, here, pruned_before) for cursor in cursors]


async def _lag(connection: asyncpg.Connection, cursor: Cursor, here: Cursor, pruned_before: int) -> Lag:
    if not cursor.same_log(here) or cursor.xmin < pruned_before:
        return Lag(cursor, void=True, elsewhere=not cursor.same_database(here))
    sql = query("lag").format(first_new=cursor.xmax, were_open=cursor.open_ids, own=query("own"))
    async with asyncio.timeout(BATCH_TIMEOUT_S):
        row = await connection.fetchrow(sql)
    return Lag(cursor, row["rows"], row["since"])
