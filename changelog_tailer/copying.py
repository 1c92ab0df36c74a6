"""One COPY, as rows for a sink that may be slow."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg

from mainspring.changelog_tailer.copy_stream import Table, copying
from mainspring.changelog_tailer.layout import Rows
from mainspring.changelog_tailer.rows import Decoder

RowSink = Callable[[Rows], Awaitable[None]]

STALL_TIMEOUT_S = 60.0
# What takes longer to decode than a thread to be woken goes to one, and the next page is received meanwhile.
_THREAD_FROM_BYTES = 1 << 18


async def copy_rows(
    connection: asyncpg.Connection,
    source: str | Table,
    sink: RowSink,
    decoder: Decoder,
    *,
    stall_timeout_s: float = STALL_TIMEOUT_S,
) -> None:
    """Hand the rows of a query or a table to `sink` in pages; two more are received while it is busy.

    Raises TimeoutError where the server sends nothing for `stall_timeout_s`, RowsCorrupt, the driver's
    errors, and whatever the sink raises. After an error the connection is aborted: a server that does not
    answer would hang every other way to leave it.
    """
    decoder.begin()
    try:
        async with copying(connection, source) as stream:
            while (page := await stream.next_page(stall_timeout_s)) is not None:
                rows = await _decoded(decoder, page)
                if len(rows):
                    await sink(rows)
        decoder.finish()
    except BaseException:
        connection.terminate()
        raise


async def _decoded(decoder: Decoder, page: bytes) -> Rows:
    if len(page) < _THREAD_FROM_BYTES:
        return decoder.decode(page)
    decoding = asyncio.get_running_loop().run_in_executor(None, decoder.decode, page)
    try:
        return await asyncio.shield(decoding)
    finally:
        await asyncio.wait([decoding])  # whoever is cancelled: a decoder is not for two threads at once
