"""The process that keeps a folder's servers: ``python -m mainspring.engine.embedded.keeper DIR``.

Every command that uses the folder holds a shared lock on it. The keeper asks for the exclusive lock: it
gets it in the moment the last command has ended, SIGKILL included, and then stops the servers. So commands
may come and go in any order and none takes the servers away from another.
"""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Protocol

from mainspring.engine.embedded.errors import EmbeddedError
from mainspring.engine.embedded.folder import ServersFolder
from mainspring.engine.embedded.nats import EmbeddedNats
from mainspring.engine.embedded.postgres import EmbeddedPostgres
from mainspring.engine.embedded.state_file import write_state

RESTART_PAUSE_S = 1.0


class Server(Protocol):
    """What the keeper asks of a server."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def wait(self) -> int: ...


class Keeper:
    """Starts both servers, starts a crashed one again, and stops them when nobody uses the folder."""

    def __init__(self, folder: ServersFolder) -> None:
        self._folder = folder
        self._postgres = EmbeddedPostgres(folder.path)
        self._nats = EmbeddedNats(folder.path)

    async def run(self) -> None:
        """Keep the servers until the last user has gone, or SIGTERM."""
        try:
            async with asyncio.TaskGroup() as starting:
                starting.create_task(self._postgres.start())
                starting.create_task(self._nats.start())
            self._publish()
            await self._watch_until_unused()
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Stop both servers."""
        self._folder.state.unlink(missing_ok=True)
        await asyncio.gather(self._postgres.stop(), self._nats.stop())

    async def _watch_until_unused(self) -> None:
        watches = [asyncio.create_task(self._revive(server)) for server in (self._postgres, self._nats)]
        try:
            await self._unused()
        finally:
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)

    def _publish(self) -> None:
        """Tell the commands where the servers are; the file's presence says that they answer."""
        write_state(self._folder.state, {"postgres_dsn": self._postgres.dsn, "nats_url": self._nats.url})

    async def _unused(self) -> None:
        """Wait for the exclusive lock on a thread (the kernel wakes it), or for SIGTERM."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, ended.set)
        self._folder.when_unused(lambda: loop.call_soon_threadsafe(ended.set))
        await ended.wait()

    async def _revive(self, server: Server) -> None:
        """Start a server again whenever it ends by itself."""
        while True:
            status = await server.wait()
            print(f"{server!r} ended with status {status}; starting it again", file=sys.stderr, flush=True)
            await server.stop()
            await asyncio.sleep(RESTART_PAUSE_S)
            try:
                await server.start()
            except EmbeddedError as error:
                print(error, file=sys.stderr, flush=True)
            self._publish()


def main(arguments: list[str]) -> int:
    """Keep the servers of one folder; exit status 1 when they cannot be started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder = ServersFolder(Path(arguments[0]))
    # Commands that ask whether a keeper lives hold this lock for a moment, so wait instead of trying.
    folder.keeper.take(wait=True)
    try:
        asyncio.run(Keeper(folder).run())
    except ExceptionGroup as group:
        for error in group.exceptions:
            print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
