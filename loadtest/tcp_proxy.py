"""A TCP proxy that does to connections what a network does: holds bytes, and cuts.

    async with proxied(port) as proxy:
        proxy.freeze()      # the present connections stay open, nothing passes
        proxy.thaw()        # what was held passes
        proxy.cut()

Who knows the protocol may look at each connection as it comes, and say what passes of each chunk (`Link`).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

_CHUNK: Final = 65_536

Passes = Callable[[bytes], bytes]


class Cut(Exception):
    """Of a `Passes`: `rest` still passes, then the connection ends."""

    def __init__(self, rest: bytes) -> None:
        super().__init__("cut")
        self.rest = rest


class Link:
    """One connection. upward, downward: what passes of a chunk from the client, from the server; all, unless
    they are replaced.
    """

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.upward: Passes = bytes
        self.downward: Passes = bytes
        self.passing = asyncio.Event()
        self.passing.set()
        self._client, self._server = client, server
        for writer in (client, server):
            writer.transport.set_write_buffer_limits(0)  # `drain` waits until the kernel has all

    def answer(self, frame: bytes) -> None:
        """Give bytes to the client that were held back from it."""
        if not self._client.is_closing():
            self._client.write(frame)

    def cut(self) -> None:
        """End it, both ways."""
        self._client.transport.abort()
        self._server.transport.abort()

    async def carry(self, from_client: asyncio.StreamReader, from_server: asyncio.StreamReader) -> None:
        """Both ways, until either ends; what the other end is still owed of it is written."""
        ways = [asyncio.ensure_future(self._up(from_client)), asyncio.ensure_future(self._down(from_server))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            failed = [isinstance(end, OSError) for end in await asyncio.gather(*ways, return_exceptions=True)]
            if any(failed):
                self.cut()
            self._client.close()
            self._server.close()

    async def _up(self, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(_CHUNK):
            await self.passing.wait()
            await self._write(self._server, self.upward, chunk)

    async def _down(self, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(_CHUNK):
            await self.passing.wait()
            await self._write(self._client, self.downward, chunk)

    @staticmethod
    async def _write(writer: asyncio.StreamWriter, passes: Passes, chunk: bytes) -> None:
        try:
            writer.write(passes(chunk))
            await writer.drain()
        except Cut as cut:
            writer.write(cut.rest)
            await writer.drain()
            raise ConnectionResetError from cut


class TcpProxy:
    """Between clients and one port on loopback. `seen` gets each connection before its first byte."""

    def __init__(self, target_port: int, seen: Callable[[Link], None] = lambda _link: None) -> None:
        self.port = 0
        self._target_port = target_port
        self._seen = seen
        self._open = asyncio.Event()
        self._open.set()
        self._links: set[Link] = set()

    def freeze(self, *, coming: bool = False) -> None:
        """Hold every byte of the present connections, not even read what the client sends: its buffers fill.

        coming: of those to come as well.
        """
        for link in self._links:
            link.passing.clear()
        if coming:
            self._open.clear()

    def thaw(self) -> None:
        """Let what was held pass; a client that gave up meanwhile comes again."""
        self._open.set()
        for link in self._links:
            link.passing.set()

    def cut(self) -> None:
        """End every connection."""
        for link in self._links:
            link.cut()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until either side ends it."""
        await self._open.wait()
        try:
            from_server, server = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.transport.abort()
            return
        link = Link(writer, server)
        self._seen(link)
        self._links.add(link)
        try:
            await link.carry(reader, from_server)
        finally:
            self._links.discard(link)


@asynccontextmanager
async def proxied(
    target_port: int, seen: Callable[[Link], None] = lambda _link: None
) -> AsyncIterator[TcpProxy]:
    """A proxy for the length of a block."""
    proxy = TcpProxy(target_port, seen)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0, limit=_CHUNK)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.thaw()
        proxy.cut()
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await server.wait_closed()
