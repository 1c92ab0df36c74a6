"""The wake-up: a connection of its own that hears of commits to the log."""

import asyncio
from typing import Any, Self

import asyncpg

from mainspring.changelog_tailer.connection import QUERY_TIMEOUT_S, close

CHANNEL = "mainspring_changes"


class Listener:
    """Hears that there is news, never what; also wakes its waiter when the connection is lost."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._woken = asyncio.Event()

    @classmethod
    async def start(cls, connection: asyncpg.Connection) -> Self:
        """Listen on this connection, which is the listener's from now on."""
        listener = cls(connection)
        connection.add_termination_listener(listener.wake)
        async with asyncio.timeout(QUERY_TIMEOUT_S):
            await connection.add_listener(CHANNEL, listener.wake)
        return listener

    @property
    def lost(self) -> bool:
        """Whether the connection has ended."""
        return bool(self._connection.is_closed())

    def clear(self) -> None:
        """Forget the news so far: what is read after this call includes it."""
        self._woken.clear()

    async def wait(self, timeout_s: float) -> bool:
        """Wait for news since `clear`; False when there was none in time."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._woken.wait()
        except TimeoutError:
            return False

    async def aclose(self) -> None:
        """End the connection."""
        await close(self._connection)

    def abort(self) -> None:
        """End the connection without a word to the server."""
        self._connection.terminate()

    def wake(self, *_: Any) -> None:
        """Let the waiter look."""
        self._woken.set()
