"""What can be read of a log: the table at a snapshot, the changes between two, and what undoes them.

Keeping the last snapshot as the cursor is exact and prompt: commits that come out of order are neither lost
nor seen twice, and a transaction that stays open for hours delays nobody else's. After an error in any of
these the connection is aborted.
"""

import asyncio
from dataclasses import dataclass

import asyncpg

from mainspring.changelog_tailer.connection import QUERY_TIMEOUT_S, cursor_now
from mainspring.changelog_tailer.copy_stream import Table
from mainspring.changelog_tailer.copying import RowSink, copy_rows
from mainspring.changelog_tailer.cursor import Cursor
from mainspring.changelog_tailer.errors import CursorVoid
from mainspring.changelog_tailer.queries import query
from mainspring.changelog_tailer.rows import Decoder

# In the order in which rows.pxd names them.
JOBS = Table(
    "mainspring",
    "jobs",
    (
        "id", "key", "every_s", "cron", "run_at", "tz", "phase_s", "jitter_s", "starts_at", "ends_at",
        "boost_every_s", "boost_until", "catch_up", "first_run_soon", "enabled", "route", "payload",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The end of the log at one moment: the cursor there, and how much of the WAL was written and flushed."""

    cursor: Cursor
    written_lsn: int
    flushed_lsn: int


async def expected_jobs(connection: asyncpg.Connection) -> int:
    """About how many jobs a load would give, by the server's own statistics; 0 where it has none."""
    async with asyncio.timeout(QUERY_TIMEOUT_S):
        return int(await connection.fetchval(query("expected_jobs")))


async def load(connection: asyncpg.Connection, sink: RowSink, decoder: Decoder) -> Cursor:
    """Hand every job to `sink`, as OP_LOAD rows in no order; gives the cursor from which to tail.

    Exact: the rows are the table as that cursor's snapshot sees it.
    """
    await _execute(connection, "begin isolation level repeatable read read only")
    cursor = await cursor_now(connection)
    await copy_rows(connection, JOBS, sink, decoder)
    await _execute(connection, "commit")
    return cursor


async def changes_between(
    connection: asyncpg.Connection, since: Cursor, upto: Cursor, sink: RowSink, decoder: Decoder
) -> None:
    """Hand the changes that `upto` sees and `since` does not to `sink`, in the order of their seq.

    `upto` must have been taken on this server before the call. Raises CursorVoid where it is of another log,
    and, after what is left has been handed over, where some of it was pruned.
    """
    require_continues(since, upto)
    if since.snapshot != upto.snapshot:
        await copy_rows(connection, _span_sql("changes", since, upto), sink, decoder)
        await _require_unpruned(connection, since)


async def undo_since(
    connection: asyncpg.Connection, since: Cursor, upto: Cursor, sink: RowSink, decoder: Decoder
) -> None:
    """Hand over what turns the jobs as `upto` sees them into those that `since` saw, one row a job.

    An OP_LOAD row is the definition before the job's first change, an OP_DELETE row a job that was not there.
    Raises CursorVoid where the two are of different logs, and, before anything is handed over, where some of
    what lies between was pruned.
    """
    require_continues(since, upto)
    if since.snapshot != upto.snapshot:
        await _require_unpruned(connection, since)
        await copy_rows(connection, _span_sql("undo", since, upto), sink, decoder)
        await _require_unpruned(connection, since)


async def newcomers_between(
    connection: asyncpg.Connection, since: Cursor, upto: Cursor, sink: RowSink, decoder: Decoder
) -> None:
    """Hand over what tells which jobs that came between the two await a first run soon, as `upto` saw them.

    Rows of seq 0, in the order of the log: OP_LOAD with the `changed_at` of the insert, then what followed
    it up to `upto`, as OP_LOAD or OP_DELETE with none. Raises what `changes_between` raises.
    """
    require_continues(since, upto)
    if since.snapshot != upto.snapshot:
        await copy_rows(connection, _span_sql("newcomers", since, upto), sink, decoder)
        await _require_unpruned(connection, since)


async def log_end(connection: asyncpg.Connection, cursor: Cursor) -> LogEnd:
    """The present end of the log that `cursor` belongs to. Raises CursorVoid where another took its place."""
    async with asyncio.timeout(QUERY_TIMEOUT_S):
        row = await connection.fetchrow(query("log_end"))
    snapshot, written_lsn, flushed_lsn, log_table = row
    if log_table is not None and log_table != cursor.log_table:
        raise CursorVoid(
            f"the change log is another table: {log_table} in place of {cursor.log_table} (oids); "
            "the jobs have to be loaded again"
        )
    return LogEnd(cursor.at(snapshot), written_lsn, flushed_lsn)


def require_continues(since: Cursor, upto: Cursor) -> None:
    """Raises CursorVoid unless the changes from `since` to `upto` are in the log that `upto` was taken of."""
    if not since.same_log(upto):
        raise CursorVoid(
            f"the change log is another one: {upto.log_identity()} in place of {since.log_identity()} "
            "(cluster, timeline, database, table); the jobs have to be loaded again"
        )
    if upto.xmax < since.xmax:
        raise CursorVoid(
            f"the server's transactions went back from {since.xmax} to {upto.xmax}; "
            "the jobs have to be loaded again"
        )


async def _require_unpruned(connection: asyncpg.Connection, since: Cursor) -> None:
    """Asked after a reading, this holds for it: pruning goes on while others read."""
    async with asyncio.timeout(QUERY_TIMEOUT_S):
        before = await connection.fetchval(query("pruned_before"))
    if since.xmin < before:
        raise CursorVoid(
            f"the change log was pruned up to transaction {before} and the cursor needs all from "
            f"{since.xmin} on; the jobs have to be loaded again"
        )


def _span_sql(name: str, since: Cursor, upto: Cursor) -> str:
    """A query with its span in it; a cursor holds nothing but digits, colons and commas."""
    return query(name).format(
        first_new=since.xmax, were_open=since.open_ids, end=upto.xmax, upto=upto.snapshot, own=query("own")
    )


async def _execute(connection: asyncpg.Connection, statement: str) -> None:
    async with asyncio.timeout(QUERY_TIMEOUT_S):
        await connection.execute(statement)
