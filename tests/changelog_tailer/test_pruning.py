"""Pruning removes what nobody needs, keeps what anybody does, and an older cursor says so."""

import asyncio
from collections.abc import Iterable

import asyncpg
import pytest

from changelog_tailer.replay import changes_since
from mainspring.changelog_tailer import (
    Cursor,
    CursorVoid,
    Decoder,
    Tailer,
    close,
    connect,
    cursor_now,
    schema,
)
from mainspring.changelog_tailer.pruning import PruningRuns, lags, prune
from mainspring.changelog_tailer.queries import query

INSERT = "insert into mainspring.jobs (every_s) values (60)"


async def update(writer: asyncpg.Connection, times: int = 1) -> None:
    for _ in range(times):
        await writer.execute("update mainspring.jobs set every_s = every_s + 1 where id = 1")


async def left(writer: asyncpg.Connection) -> list[int]:
    rows = await writer.fetch("select seq from mainspring.job_changes order by seq")
    return [row["seq"] for row in rows]


async def here(dsn: str) -> Cursor:
    connection = await connect(dsn)
    try:
        return await cursor_now(connection)
    finally:
        await close(connection)


async def pruned(dsn: str, cursors: Iterable[Cursor] = (), keep_s: float = 0, batch_rows: int = 2) -> int:
    return await prune(dsn, cursors, keep_s=keep_s, batch_rows=batch_rows)


async def test_the_last_row_of_each_job_stays(dsn: str, writer: asyncpg.Connection) -> None:
    await writer.execute(INSERT)
    await writer.execute(INSERT)
    await update(writer, 5)
    await writer.execute("delete from mainspring.jobs where id = 2")
    assert await pruned(dsn) == 6
    rows = await writer.fetch("select op, job_id from mainspring.job_changes order by seq")
    assert [tuple(row) for row in rows] == [("update", 1), ("delete", 2)]
    assert await pruned(dsn) == 0


@pytest.mark.parametrize("batch_rows", [1, 3, 100])
async def test_what_a_cursor_has_not_seen_stays(
    dsn: str, writer: asyncpg.Connection, batch_rows: int
) -> None:
    await writer.execute(INSERT)
    await update(writer, 3)
    cursor = await here(dsn)
    await update(writer, 3)
    assert await pruned(dsn, [await here(dsn), cursor], batch_rows=batch_rows) == 3
    assert await left(writer) == [4, 5, 6, 7]
    replay, _ = await changes_since(await connect(dsn), cursor)
    assert replay.seqs == [5, 6, 7]


async def test_what_is_young_stays(dsn: str, writer: asyncpg.Connection) -> None:
    await writer.execute(INSERT)
    await update(writer, 3)
    await writer.execute(
        "update mainspring.job_changes set changed_at = changed_at - interval '1 h' where seq < 3"
    )
    assert await pruned(dsn, keep_s=1800) == 1
    assert await left(writer) == [2, 3, 4]


async def test_what_a_transaction_that_is_open_may_still_hide_stays(
    dsn: str, writer: asyncpg.Connection
) -> None:
    await writer.execute(INSERT)
    other = await asyncpg.connect(dsn)
    await other.execute("begin")
    await other.execute(INSERT)
    await update(writer, 3)
    assert await pruned(dsn) == 0
    await other.execute("commit")
    assert await pruned(dsn) == 3
    await close(other)


async def test_a_cursor_older_than_the_pruning_is_void_and_says_so(
    dsn: str, writer: asyncpg.Connection
) -> None:
    await writer.execute(INSERT)
    old = await here(dsn)
    await update(writer, 3)
    current = await here(dsn)
    await pruned(dsn)
    connection = await connect(dsn)
    await update(writer)
    with pytest.raises(CursorVoid, match=r"pruned up to transaction \d+ .* loaded again"):
        await changes_since(connection, old)
    replay, _ = await changes_since(connection, current)
    assert replay.seqs == [5]
    assert [lag.void for lag in await lags(dsn, [old, current])] == [True, False]


async def test_a_tail_whose_cursor_is_pruned_past_ends_as_void(dsn: str, writer: asyncpg.Connection) -> None:
    await writer.execute(INSERT)
    old = await here(dsn)
    await update(writer, 3)
    await pruned(dsn)

    async def ignore(*_: object) -> None:
        pass

    tailer = Tailer(dsn, old, ignore, Decoder())
    with pytest.raises(CursorVoid, match="pruned"):
        await asyncio.wait_for(tailer.run(), 30)
    await tailer.aclose()


async def test_pruning_beside_writers_and_readers_loses_nothing_that_is_read(
    dsn: str, writer: asyncpg.Connection
) -> None:
    await writer.execute(INSERT)
    reader = await connect(dsn)
    cursor, seen, writing = await cursor_now(reader), 0, asyncio.create_task(update(writer, 150))
    while not writing.done():
        await pruned(dsn, [cursor], batch_rows=7)
        replay, cursor = await changes_since(reader, cursor)
        seen += len(replay.seqs)
    await writing
    replay, cursor = await changes_since(reader, cursor)
    assert seen + len(replay.seqs) == 150
    await pruned(dsn, [cursor])
    assert await writer.fetchval("select count(*) from mainspring.job_changes") == 1


async def test_two_prunings_do_not_meet(dsn: str, writer: asyncpg.Connection) -> None:
    assert await writer.fetchval(query("lock_pruning"))
    with pytest.raises(PruningRuns, match="wait for it"):
        await pruned(dsn)


async def test_the_status_tells_what_was_removed_and_who_is_behind(
    dsn: str, writer: asyncpg.Connection
) -> None:
    await writer.execute(INSERT)
    await update(writer, 3)
    cursor = await here(dsn)
    await pruned(dsn)
    await update(writer, 2)
    status = await schema.status(dsn)
    assert (status.changes, status.pruned_rows) == (3, 3)
    assert 0 < status.pruned_before <= cursor.xmin
    assert status.pruned_at is not None
    (lag,) = await lags(dsn, [cursor])
    assert (lag.rows, lag.void) == (2, False)
    assert lag.since is not None
