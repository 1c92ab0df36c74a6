"""Between a socket and asyncpg while a COPY goes on: its rows become pages, every other message is passed on.

asyncpg makes an object and a turn of the loop out of every few kilobytes, which costs more than the server's
work on a core of its own. So for the length of one COPY this is the transport's protocol. asyncpg sees a COPY
without rows, and goes on telling its errors and its end.
"""

import asyncio
from asyncio import BaseTransport, BufferedProtocol
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast

import asyncpg

from mainspring.changelog_tailer.copy_frames import CopyFrames

PAGE_BYTES = 1 << 20
PAGES_AHEAD = 2
# A stream that comes in little pieces is let gather: a turn of the loop for each costs more than they hold.
_LITTLE_BYTES = PAGE_BYTES // 8
_GATHER_S = 0.001


@dataclass(frozen=True, slots=True)
class Table:
    """Some columns of every row of a table: a quarter less work for the server than the query for them."""

    schema: str
    name: str
    columns: tuple[str, ...]


class CopyStream(BufferedProtocol):
    """The pages of one COPY. At most PAGES_AHEAD of them wait; then nothing is read."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._behind = cast(asyncio.Protocol, transport.get_protocol())
        self._frames = CopyFrames(PAGE_BYTES)
        self._pages: deque[bytes] = deque()
        self._receipts = 0
        self._flows = False  # a page has come: there will be more
        self._gathering: asyncio.TimerHandle | None = None
        self._ended = False
        self._news = asyncio.Event()

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Room for the next bytes."""
        return self._frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes have come."""
        self._receipts += 1
        try:
            others = self._frames.take(nbytes)
        except ValueError:
            self._transport.abort()
            return
        if others:
            self._behind.data_received(others)
        if self._frames.full:
            self._put_page()
        elif self._flows and nbytes < _LITTLE_BYTES and not others:
            self._transport.pause_reading()
            self._gathering = asyncio.get_running_loop().call_later(_GATHER_S, self._go_on)

    async def next_page(self, stall_timeout_s: float) -> bytes | None:
        """The next page, None after the last; what ended the COPY is asyncpg's to tell.

        Raises TimeoutError where nothing at all is received for `stall_timeout_s`.
        """
        while not self._pages and not self._ended:
            await self._wait_for_news(stall_timeout_s)
        if not self._pages:
            return None
        page = self._pages.popleft()
        self._go_on()
        return page

    async def _wait_for_news(self, stall_timeout_s: float) -> None:
        receipts = self._receipts
        self._news.clear()
        try:
            async with asyncio.timeout(stall_timeout_s):
                await self._news.wait()
        except TimeoutError:
            if receipts == self._receipts:
                raise TimeoutError(f"Postgres sent nothing for {stall_timeout_s:g} s") from None

    def end(self, _copying: object = None) -> None:
        """asyncpg has seen the end: what has come is the last page."""
        self._ended = True
        self._put_page()

    def leave(self) -> None:
        """Give the socket back to asyncpg."""
        if self._gathering is not None:
            self._gathering.cancel()
        self._transport.set_protocol(self._behind)
        self._transport.resume_reading()

    def _put_page(self) -> None:
        self._flows = True
        self._pages.append(self._frames.cut())
        self._news.set()
        if len(self._pages) >= PAGES_AHEAD:
            self._transport.pause_reading()

    def _go_on(self) -> None:
        if len(self._pages) < PAGES_AHEAD:
            self._transport.resume_reading()

    def connection_made(self, _transport: BaseTransport) -> None:
        raise RuntimeError("a connection is made before a COPY begins")

    def connection_lost(self, error: Exception | None) -> None:
        self._behind.connection_lost(error)

    def eof_received(self) -> bool | None:
        return self._behind.eof_received()

    def pause_writing(self) -> None:
        self._behind.pause_writing()

    def resume_writing(self) -> None:
        self._behind.resume_writing()


@asynccontextmanager
async def copying(connection: asyncpg.Connection, source: str | Table) -> AsyncIterator[CopyStream]:
    """The COPY of a query or a table. At the end of the block raises what the driver raises."""
    transport = connection._transport
    stream = CopyStream(transport)
    transport.set_protocol(stream)
    task = asyncio.ensure_future(_copy(connection, source))
    task.add_done_callback(stream.end)
    try:
        yield stream
        await task
    finally:
        task.cancel()
        await asyncio.wait([task])
        stream.leave()


async def _copy(connection: asyncpg.Connection, source: str | Table) -> None:
    if isinstance(source, str):
        await connection.copy_from_query(source, output=_no_rows, format="binary")
    else:
        await connection.copy_from_table(
            source.name, schema_name=source.schema, columns=source.columns, output=_no_rows, format="binary"
        )


async def _no_rows(_chunk: bytes) -> None:
    raise RuntimeError("asyncpg was handed rows that a CopyStream takes out")
