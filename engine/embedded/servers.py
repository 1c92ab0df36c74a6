"""The pair of servers of a folder, shared by every command that names it."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from mainspring.engine.embedded.errors import EmbeddedError
from mainspring.engine.embedded.folder import ServersFolder
from mainspring.engine.embedded.postgres_place import make_folder
from mainspring.engine.embedded.state_file import read_state

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 30.0
POLL_S = 0.02


class EmbeddedServers:
    """Postgres and NATS of ``directory``: found where they run, started where they do not.

    They run in a keeper process until the last user has ended, however it ended. Example::

        async with EmbeddedServers(Path(".mainspring")) as servers:
            connection = await asyncpg.connect(servers.postgres_dsn)
    """

    def __init__(self, directory: Path) -> None:
        self._folder = ServersFolder(directory)
        self._postgres_dsn = ""
        self._nats_url = ""
        self._keeper: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"<EmbeddedServers {self.directory}>"

    @property
    def directory(self) -> Path:
        """The folder, absolute."""
        return self._folder.path

    @property
    def postgres_dsn(self) -> str:
        """The address of the `mainspring` database, password included."""
        return self._postgres_dsn

    @property
    def nats_url(self) -> str:
        """The address of the NATS server, password included."""
        return self._nats_url

    async def start(self) -> None:
        """Use the running servers, or start them; returns when both answer.

        Raises EmbeddedError with the mend, for instance when a package is missing.
        """
        make_folder(self.directory)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await self._join()
        except TimeoutError:
            self._folder.users.release()
            raise EmbeddedError(
                f"the servers of {self.directory} did not start within {START_TIMEOUT_S:.0f} s; "
                f"see {self._folder.log}, nats.log and postgres.log"
            ) from None
        except BaseException:
            self._folder.users.release()
            raise
        finally:
            self._folder.starting.release()

    async def stop(self) -> None:
        """Stop using the servers; the last user waits until they are down."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + STOP_TIMEOUT_S
        # Asked each time: another command may have come in before the keeper noticed that we left.
        while self._folder.leave() and self._folder.kept():
            if loop.time() > deadline:
                raise EmbeddedError(f"the servers of {self.directory} did not stop; see {self._folder.log}")
            await asyncio.sleep(POLL_S)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _join(self) -> None:
        folder = self._folder
        await _until(folder.starting.take)
        # Refused while a keeper is stopping: it holds the lock until its servers are down.
        await _until(lambda: folder.users.take(shared=True))
        await _until(self._ready)

    def _ready(self) -> bool:
        """Look for a keeper with servers that answer; start a keeper where there is none."""
        if self._folder.kept():
            return self._read_state()
        if self._keeper is None:
            self._keeper = self._spawn_keeper()
        elif self._keeper.poll() is not None:
            reason = self._folder.log.read_text(errors="replace").strip()
            raise EmbeddedError(reason or f"the servers of {self.directory} ended while starting; try again")
        return False

    def _spawn_keeper(self) -> "subprocess.Popen[bytes]":
        """Start the keeper in a session of its own: neither Ctrl-C nor a hang-up may reach it."""
        self._folder.state.unlink(missing_ok=True)
        argv = [sys.executable, "-m", "mainspring.engine.embedded.keeper", str(self.directory)]
        with self._folder.log.open("wb") as log:
            return subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True
            )

    def _read_state(self) -> bool:
        state = read_state(self._folder.state)
        self._postgres_dsn = str(state.get("postgres_dsn", ""))
        self._nats_url = str(state.get("nats_url", ""))
        return bool(self._postgres_dsn and self._nats_url)


async def _until(condition: Callable[[], bool]) -> None:
    """Ask until it is so. What is awaited is the doing of other processes: no event of ours tells of it."""
    while not condition():
        await asyncio.sleep(POLL_S)
