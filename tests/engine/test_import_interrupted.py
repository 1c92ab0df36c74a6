"""An import that is broken off at any place leaves nothing half done, and no session behind."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from mainspring.changelog_tailer import schema

ROWS = 5000
ROW = b'{"every_s": 60, "payload": {"url": "https://example.org"}}\n'
STATE = """
select state, wait_event_type from pg_stat_activity
where application_name = 'mainspring jobs' and datname = current_database()
"""
COPIED = "select sum(tuples_processed) from pg_stat_progress_copy where datname = current_database()"
SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])


@pytest_asyncio.fixture
async def witness(database: str) -> AsyncIterator[asyncpg.Connection]:
    """A session that looks on."""
    await schema.init(database)
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


async def importing(dsn: str, **streams: Any) -> asyncio.subprocess.Process:
    command = (sys.executable, "-m", "mainspring.engine", "jobs", "import", "-", "--postgres-dsn", dsn)
    return await asyncio.create_subprocess_exec(
        *command, **{"stdin": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE} | streams
    )


async def fed(process: asyncio.subprocess.Process, data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(data)
    await process.stdin.drain()


async def seen(witness: asyncpg.Connection, query: str, wanted: Any) -> None:
    """Wait until what the query gives is wanted."""
    async with asyncio.timeout(30):
        while not wanted(await witness.fetch(query)):
            await asyncio.sleep(0.02)


async def is_untouched(witness: asyncpg.Connection) -> bool:
    """Whether neither table nor log has a row, once the session of the import has gone."""
    await seen(witness, STATE, lambda sessions: not sessions)
    rows = await witness.fetchval(
        "select (select count(*) from mainspring.jobs) + (select count(*) from mainspring.job_changes)"
    )
    return bool(rows == 0)


@SIGNALS
async def test_one_signal_ends_it_while_it_waits_for_a_pipe(
    witness: asyncpg.Connection, database: str, number: signal.Signals
) -> None:
    process = await importing(database)
    await fed(process, ROW * ROWS)
    await seen(witness, COPIED, lambda rows: rows[0]["sum"])
    await asyncio.sleep(0.2)  # all that was sent is read: the next read waits
    process.send_signal(number)
    await asyncio.wait_for(process.wait(), 10)
    assert process.returncode != 0
    assert await is_untouched(witness)


@SIGNALS
async def test_a_signal_ends_it_while_it_writes(
    witness: asyncpg.Connection, database: str, number: signal.Signals
) -> None:
    async with witness.transaction():
        await witness.execute("lock table mainspring.jobs in share mode")  # its insert has to wait
        process = await importing(database)
        await fed(process, ROW * ROWS)
        assert process.stdin is not None
        process.stdin.close()
        await seen(witness, STATE, lambda sessions: sessions and sessions[0]["wait_event_type"] == "Lock")
        process.send_signal(number)
        await asyncio.wait_for(process.wait(), 10)
    assert process.returncode != 0
    assert await is_untouched(witness)


async def test_a_file_that_breaks_off_amid_a_row_is_refused_whole(
    witness: asyncpg.Connection, database: str
) -> None:
    process = await importing(database)
    _, told = await process.communicate(ROW * ROWS + ROW[:30])
    assert process.returncode == 1
    assert told.decode().startswith(f"line {ROWS + 1}: not JSON")
    assert await is_untouched(witness)


async def test_a_session_that_is_lost_is_told_in_a_line(witness: asyncpg.Connection, database: str) -> None:
    process = await importing(database)
    await fed(process, ROW * ROWS)
    await seen(witness, COPIED, lambda rows: rows[0]["sum"])
    await witness.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'mainspring jobs'"
        " and datname = current_database()"
    )
    _, told = await asyncio.wait_for(process.communicate(ROW * ROWS), 20)
    assert process.returncode == 1
    assert told.decode() == "error: the session was lost, nothing was written: import the file again\n"
    assert await is_untouched(witness)


async def test_nobody_who_reads_the_result_takes_nothing_back(
    witness: asyncpg.Connection, database: str
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = await importing(database, stdout=writer)
    os.close(writer)
    await fed(process, ROW * ROWS)
    assert process.stdin is not None
    process.stdin.close()
    await asyncio.wait_for(process.wait(), 30)
    assert await witness.fetchval("select count(*) from mainspring.jobs") == ROWS
    assert await witness.fetchval("select count(*) from mainspring.job_changes") == ROWS
