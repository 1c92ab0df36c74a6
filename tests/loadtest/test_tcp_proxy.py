"""The proxy does what it says: it holds, lets go, cuts, and passes what its watcher says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mainspring.loadtest.tcp_proxy import Cut, Link, proxied

LATE_S = 0.3
END = b""


@asynccontextmanager
async def echo() -> AsyncIterator[int]:
    """A server that answers with what it is told, until it is told no more."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(1000):
            writer.write(chunk)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def answered(reader: asyncio.StreamReader) -> bytes:
    return await asyncio.wait_for(reader.read(1000), LATE_S)


async def test_what_is_held_passes_once_it_thaws_and_new_connections_pass_meanwhile() -> None:
    async with echo() as port, proxied(port) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"one")
        assert await answered(reader) == b"one"
        proxy.freeze()
        writer.write(b"two")
        with pytest.raises(TimeoutError):
            await answered(reader)
        other_reader, other = await asyncio.open_connection("127.0.0.1", proxy.port)
        other.write(b"three")
        assert await answered(other_reader) == b"three"
        proxy.thaw()
        assert await answered(reader) == b"two"


async def test_connections_to_come_are_held_too_where_that_is_said() -> None:
    async with echo() as port, proxied(port) as proxy:
        proxy.freeze(coming=True)
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"one")
        with pytest.raises(TimeoutError):
            await answered(reader)
        proxy.thaw()
        assert await answered(reader) == b"one"


async def test_a_cut_ends_both_sides() -> None:
    async with echo() as port, proxied(port) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"one")
        assert await answered(reader) == b"one"
        proxy.cut()
        assert await answered(reader) == END


async def test_what_a_watcher_lets_pass_passes_and_its_cut_comes_behind_it() -> None:
    heard: list[bytes] = []

    def watch(link: Link) -> None:
        def upward(chunk: bytes) -> bytes:
            if chunk == b"cut":
                raise Cut(b"c")
            return chunk.upper()

        def downward(chunk: bytes) -> bytes:
            heard.append(chunk)
            return chunk

        link.upward, link.downward = upward, downward

    async with echo() as port, proxied(port, watch) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"one")
        assert await answered(reader) == b"ONE"
        writer.write(b"cut")
        assert await answered(reader) == END
    assert heard == [b"ONE"]


async def test_a_server_that_is_away_is_an_end_and_no_wait() -> None:
    async with echo() as port:
        pass
    async with proxied(port) as proxy:
        reader, _ = await asyncio.open_connection("127.0.0.1", proxy.port)
        assert await answered(reader) == END
