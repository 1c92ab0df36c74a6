"""The pair of servers that several commands share: they live as long as somebody uses them, and no longer."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Self

import asyncpg
import nats
import pytest
import pytest_asyncio

from mainspring.engine.embedded import EmbeddedError, EmbeddedServers
from mainspring.engine.embedded.folder import ServersFolder
from mainspring.engine.embedded.process import processes_in

USER_PROGRAM = """
import asyncio, sys
from pathlib import Path
from mainspring.engine.embedded import EmbeddedServers

async def use() -> None:
    async with EmbeddedServers(Path(sys.argv[1])) as servers:
        print(servers.postgres_dsn, flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(use())
"""


class OtherCommand:
    """Another process that uses the servers of a folder until it is told or made to end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.postgres_dsn = ""

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            USER_PROGRAM,
            str(self._folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self.postgres_dsn = (await self._process.stdout.readline()).decode().strip()
        assert self.postgres_dsn, "the other command ended before its servers answered"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            await self.kill()

    async def end(self) -> None:
        await self._process.communicate(b"\n")
        assert self._process.returncode == 0

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()


@pytest.fixture(scope="module")
def module_folder() -> Iterator[Path]:
    """One folder for all tests here: a cluster is made once, which takes seconds on a busy machine."""
    folder = Path(tempfile.mkdtemp(prefix="mainspring-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest_asyncio.fixture
async def folder(module_folder: Path) -> AsyncIterator[Path]:
    """A folder for servers; at the end it must be empty of processes."""
    yield module_folder
    await asyncio.wait_for(all_gone(module_folder), 20)


def running(folder: Path) -> list[int]:
    return processes_in(folder / "postgres", "postgres") + processes_in(folder / "nats", "nats-server")


async def all_gone(folder: Path) -> None:
    """Until no server and no keeper of ``folder`` is left; the caller bounds the wait."""
    while running(folder) or ServersFolder(folder).kept():
        await asyncio.sleep(0.02)


async def no_keeper(folder: Path) -> None:
    """Until a killed keeper has really ended, which is a moment after the signal."""
    while ServersFolder(folder).kept():
        await asyncio.sleep(0.02)


async def answers(dsn: str) -> bool:
    connection = await asyncpg.connect(dsn, timeout=5)
    await connection.close(timeout=5)
    return True


async def test_both_answer_while_used_and_are_gone_afterwards(folder: Path) -> None:
    async with EmbeddedServers(folder) as servers:
        assert await answers(servers.postgres_dsn)
        client = await nats.connect(servers.nats_url)
        await client.jetstream().account_info()
        await client.close()
    assert running(folder) == []
    assert not ServersFolder(folder).kept()


async def test_they_start_twice_in_a_row_with_the_same_addresses_and_data(folder: Path) -> None:
    async with EmbeddedServers(folder) as servers:
        first = servers.postgres_dsn, servers.nats_url
        connection = await asyncpg.connect(servers.postgres_dsn)
        await connection.execute("create table kept (answer integer)")
        await connection.close()
    async with EmbeddedServers(folder) as servers:
        assert (servers.postgres_dsn, servers.nats_url) == first
        connection = await asyncpg.connect(servers.postgres_dsn)
        assert await connection.fetchval("select count(*) from kept") == 0
        await connection.close()


async def test_a_second_command_uses_the_running_ones(folder: Path) -> None:
    async with OtherCommand(folder) as other:
        before = running(folder)
        async with EmbeddedServers(folder) as servers:
            assert servers.postgres_dsn == other.postgres_dsn
            assert set(before[:1]) <= set(running(folder))
        assert await answers(other.postgres_dsn)
        await other.end()


async def test_the_command_that_started_them_may_end_first(folder: Path) -> None:
    async with OtherCommand(folder) as other, EmbeddedServers(folder) as servers:
        await asyncio.wait_for(other.end(), 20)
        assert await answers(servers.postgres_dsn)


async def test_they_end_when_their_only_user_is_killed(folder: Path) -> None:
    async with OtherCommand(folder) as other:
        assert running(folder)
        await other.kill()
        await asyncio.wait_for(all_gone(folder), 20)


async def test_two_commands_at_once_start_one_pair(folder: Path) -> None:
    one, two = OtherCommand(folder), OtherCommand(folder)
    await asyncio.gather(one.start(), two.start())
    try:
        assert one.postgres_dsn == two.postgres_dsn
        assert len(processes_in(folder / "nats", "nats-server")) == 1
    finally:
        await asyncio.gather(one.end(), two.end())


async def test_a_new_command_heals_what_a_killed_keeper_left(folder: Path) -> None:
    async with OtherCommand(folder):
        os.kill(keeper_of(folder), signal.SIGKILL)
        await asyncio.wait_for(no_keeper(folder), 20)
        async with EmbeddedServers(folder) as servers:
            assert await answers(servers.postgres_dsn)


async def test_a_crashed_server_is_started_again_on_its_port(folder: Path) -> None:
    async with EmbeddedServers(folder) as servers:
        (before,) = processes_in(folder / "nats", "nats-server")
        os.kill(before, signal.SIGKILL)
        client = await nats.connect(
            servers.nats_url, reconnect_time_wait=0.1, max_reconnect_attempts=100, error_cb=quiet
        )
        await client.close()
        assert processes_in(folder / "nats", "nats-server") != [before]


async def test_a_server_that_cannot_start_is_explained(server_folder: Path) -> None:
    (server_folder / "nats").touch()  # where a folder should be
    with pytest.raises(EmbeddedError, match=r"File exists.*nats"):
        await EmbeddedServers(server_folder).start()
    await asyncio.wait_for(all_gone(server_folder), 20)


async def test_a_removed_folder_is_a_fresh_start(folder: Path) -> None:
    async with EmbeddedServers(folder) as servers:
        first = servers.postgres_dsn
    shutil.rmtree(folder / "postgres")
    (folder / "postgres.json").unlink()
    async with EmbeddedServers(folder) as servers:
        assert servers.postgres_dsn != first
        assert await answers(servers.postgres_dsn)


def keeper_of(folder: Path) -> int:
    """The keeper's process id, by its command line."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"mainspring.engine.embedded.keeper" in arguments and os.fsencode(folder) in arguments:
            return int(entry.parent.name)
    raise AssertionError("there is no keeper")


async def quiet(_: Exception) -> None:
    """For a client whose server is away on purpose."""
