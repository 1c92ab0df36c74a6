"""A TCP proxy that can do to a connection what a network does: stop carrying bytes, or cut it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

CHUNK = 65_536


class TcpProxy:
    """Stands between a client and a server on loopback.

    `freeze` holds the present connections: what the client sends is not even read, so its buffers fill, and
    nothing comes back. New connections pass. `deafen` carries what the client sends and drops the answers.
    """

    def __init__(self, target_port: int) -> None:
        self.port = 0
        self._target_port = target_port
        self._pairs: list[_Pair] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=CHUNK)
        self.port = self._server.sockets[0].getsockname()[1]

    def freeze(self) -> None:
        for pair in self._pairs:
            pair.frozen = pair.deaf = True

    def deafen(self) -> None:
        for pair in self._pairs:
            pair.deaf = True

    def cut(self) -> None:
        for pair in self._pairs:
            pair.cut()

    async def aclose(self) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        pair = _Pair(writer, to_writer)
        self._pairs.append(pair)
        await asyncio.gather(pair.carry_up(reader), pair.carry_down(to_reader), return_exceptions=True)
        pair.cut()


class _Pair:
    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.frozen = False
        self.deaf = False
        self._client = client
        self._server = server

    def cut(self) -> None:
        self._client.transport.abort()
        self._server.transport.abort()

    async def carry_up(self, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(CHUNK):
            while self.frozen:
                await asyncio.sleep(0.02)
            self._server.write(chunk)
            await self._server.drain()

    async def carry_down(self, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(CHUNK):
            if not self.deaf:
                self._client.write(chunk)
                await self._client.drain()


@asynccontextmanager
async def proxied(target_port: int) -> AsyncIterator[TcpProxy]:
    proxy = TcpProxy(target_port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.aclose()
