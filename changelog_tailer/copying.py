"""One COPY, as rows for a sink that may be slow."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg

from mainspring.changelog_tailer.layout import Rows
from mainspring.changelog_tailer.rows import Decoder

RowSink = Callable[[Rows], Awaitable[None]]

STALL_TIMEOUT_S = 60.0
PAGE_BYTES = 1 << 20


async def copy_rows(
    connection: asyncpg.Connection,
    sql: str,
    sink: RowSink,
    decoder: Decoder,
    *,
    stall_timeout_s: float = STALL_TIMEOUT_S,
) -> None:
    """Hand the rows of `sql` to `sink` in pages of about PAGE_BYTES; nothing is read while it is busy.

    Raises TimeoutError where the server sends nothing for `stall_timeout_s`, RowsCorrupt, the driver's
    errors, and whatever the sink raises. After an error the connection is aborted: a server that does not
    answer would hang every other way to leave it.
    """
    try:
        async with asyncio.timeout(stall_timeout_s) as deadline:
            page = _Page(sink, decoder, deadline, stall_timeout_s)
            await connection.copy_from_query(sql, output=page.write, format="binary")
            await page.flush()
        decoder.finish()
    except BaseException:
        connection.terminate()
        raise


class _Page:
    """Gathers the driver's chunks, some 100 kB each: a batch costs the sink far more than a row does."""

    def __init__(
        self, sink: RowSink, decoder: Decoder, deadline: asyncio.Timeout, stall_timeout_s: float
    ) -> None:
        self._sink = sink
        self._decoder = decoder
        self._deadline = deadline
        self._stall_timeout_s = stall_timeout_s
        self._chunks: list[bytes] = []
        self._nbytes = 0
        decoder.begin()

    async def write(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._nbytes += len(chunk)
        if self._nbytes >= PAGE_BYTES:
            await self.flush()
        self._deadline.reschedule(asyncio.get_running_loop().time() + self._stall_timeout_s)

    async def flush(self) -> None:
        chunks, self._chunks, self._nbytes = self._chunks, [], 0
        rows = self._decoder.decode(b"".join(chunks))
        if len(rows):
            self._deadline.reschedule(None)  # the sink may take its time
            await self._sink(rows)
