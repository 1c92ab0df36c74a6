"""A TCP proxy before Postgres that can stop carrying bytes, as a network does that lost its way.

async with proxied(port) as proxy:
    proxy.freeze()      # connections stay open, nothing passes
    proxy.thaw()        # what was held passes; a client that gave up meanwhile comes again
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

_CHUNK: Final = 65_536


class Proxy:
    """Between clients and one port on loopback."""

    def __init__(self, target_port: int) -> None:
        self.port = 0
        self._target_port = target_port
        self._passing = asyncio.Event()
        self._passing.set()
        self._writers: set[asyncio.StreamWriter] = set()

    def freeze(self) -> None:
        """Hold every byte, of connections to come as well."""
        self._passing.clear()

    def thaw(self) -> None:
        """Let them pass again."""
        self._passing.set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection both ways until either side ends it."""
        await self._passing.wait()
        with suppress(OSError):
            there, to_there = await asyncio.open_connection("127.0.0.1", self._target_port)
            ends = (writer, to_there)
            self._writers.update(ends)
            try:
                await asyncio.gather(self._carry(reader, to_there), self._carry(there, writer))
            finally:
                self._abort(ends)
                self._writers.difference_update(ends)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(_CHUNK):
            await self._passing.wait()
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()

    def _abort(self, writers: tuple[asyncio.StreamWriter, ...]) -> None:
        for writer in writers:
            writer.transport.abort()

    def cut(self) -> None:
        """End every connection."""
        self._abort(tuple(self._writers))


@asynccontextmanager
async def proxied(target_port: int) -> AsyncIterator[Proxy]:
    """A proxy for the length of a block."""
    proxy = Proxy(target_port)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        proxy.thaw()
        proxy.cut()
        server.close()
