"""``--embedded``: folders that will not do, and what `run` does for a fresh one."""

import asyncio
import re
import signal
import sys
from pathlib import Path

import asyncpg
import pytest
from command_line import mainspring

from mainspring.engine.embedded import EmbeddedServers


@pytest.mark.parametrize("command", [("db", "status"), ("config",), ("run",), ("demo",)], ids=" ".join)
@pytest.mark.parametrize(
    ("folder", "told"),
    [
        ("", "error: --embedded: an empty path"),
        ("/etc/passwd", "error: --embedded: /etc/passwd is no folder"),
        ("/etc/passwd/x", "error: --embedded: the folder /etc/passwd/x cannot be made: Not a directory"),
    ],
)
def test_a_folder_that_will_not_do_is_wrong_usage(command: tuple[str, ...], folder: str, told: str) -> None:
    ended = mainspring(*command, "--embedded", folder)
    assert ended.status == 2
    assert ended.err.startswith(told)
    assert "name a folder" in ended.err
    assert len(ended.err.splitlines()) == 1


async def test_run_makes_the_schema_of_a_fresh_folder(server_folder: Path) -> None:
    argv = ["-m", "mainspring.engine", "run", "--embedded", str(server_folder), "--http-port", "0"]
    process = await asyncio.create_subprocess_exec(sys.executable, *argv, stderr=asyncio.subprocess.PIPE)
    try:
        await asyncio.wait_for(_line(process, "ready: "), 120)
        async with EmbeddedServers(server_folder) as servers:
            connection = await asyncpg.connect(servers.postgres_dsn)
            assert await connection.fetchval("select count(*) from mainspring.jobs") == 0
            await connection.close()
    finally:
        process.send_signal(signal.SIGTERM)
        _, rest = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, rest


async def _line(process: asyncio.subprocess.Process, pattern: str) -> None:
    assert process.stderr is not None
    while line := (await process.stderr.readline()).decode():
        if re.search(pattern, line):
            return
    raise AssertionError(f"ended without {pattern!r}")
