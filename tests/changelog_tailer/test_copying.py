"""A COPY read off the socket behind asyncpg's back: rows, errors, stalls, and the connection afterwards."""

import asyncio

import asyncpg
import pytest

from mainspring.changelog_tailer import Decoder, Rows, load
from mainspring.changelog_tailer.copy_stream import PAGES_AHEAD, copying
from mainspring.changelog_tailer.copying import copy_rows
from mainspring.changelog_tailer.reading import JOBS

# A megabyte holds some seven thousand such rows.
FLEET = 60_000
INSERT = (
    "insert into mainspring.jobs (id, every_s, payload)"
    f" select n, 60, to_jsonb(repeat('x', 40)) from generate_series(1, {FLEET}) as n"
)


async def test_many_pages_hold_every_row_once_and_the_connection_serves_on(
    connection: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    await writer.execute(INSERT)
    seen: list[int] = []

    async def sink(rows: Rows) -> None:
        seen.extend(rows.rows["job_id"].tolist())
        assert rows.payload(len(rows) - 1) == '"' + "x" * 40 + '"'

    for _ in range(2):
        seen.clear()
        await load(connection, sink, Decoder())
        assert sorted(seen) == list(range(1, FLEET + 1))
        assert await connection.fetchval("select 7") == 7


async def test_what_waits_is_bounded_while_nobody_takes_it(
    connection: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    await writer.execute(INSERT)
    async with copying(connection, JOBS) as stream:
        while len(stream._pages) < PAGES_AHEAD:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        assert len(stream._pages) == PAGES_AHEAD
        pages = 0
        while await stream.next_page(10) is not None:
            pages += 1
    assert pages > PAGES_AHEAD
    assert await connection.fetchval("select 7") == 7


async def test_an_error_amid_the_rows_is_the_servers_own_and_aborts(
    connection: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    await writer.execute(INSERT)
    columns = ", ".join(JOBS.columns)
    sql = f"select {columns} from mainspring.jobs where 1 / (id - {FLEET - 10}) < 2"
    rows_seen = 0

    async def sink(rows: Rows) -> None:
        nonlocal rows_seen
        rows_seen += len(rows)

    with pytest.raises(asyncpg.DivisionByZeroError):
        await copy_rows(connection, sql, sink, Decoder())
    assert 0 < rows_seen < FLEET
    assert connection.is_closed()


async def test_a_server_that_sends_nothing_is_left_and_a_slow_sink_is_not(
    connection: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    await writer.execute(INSERT)
    taken = 0

    async def slow(rows: Rows) -> None:
        nonlocal taken
        taken += len(rows)
        await asyncio.sleep(0.25)

    await copy_rows(connection, JOBS, slow, Decoder(), stall_timeout_s=0.2)
    assert taken == FLEET
    async with writer.transaction():
        await writer.execute("lock table mainspring.jobs in access exclusive mode")
        with pytest.raises(TimeoutError):
            await copy_rows(connection, JOBS, slow, Decoder(), stall_timeout_s=0.2)
    assert connection.is_closed()


async def test_an_error_of_the_sink_is_raised_as_it_is_and_aborts(
    connection: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    await writer.execute(INSERT)

    async def refuse(_rows: Rows) -> None:
        raise KeyError("no")

    with pytest.raises(KeyError):
        await copy_rows(connection, JOBS, refuse, Decoder())
    assert connection.is_closed()
