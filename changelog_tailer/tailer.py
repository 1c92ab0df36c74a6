"""Follows the change log for ever, through every outage of the server."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress

import asyncpg
import numpy as np

from mainspring.changelog_tailer.backoff import Backoff
from mainspring.changelog_tailer.connection import (
    LOST,
    close,
    connect,
    costs_little,
    cursor_now,
    open_session,
)
from mainspring.changelog_tailer.cursor import Cursor
from mainspring.changelog_tailer.errors import ChangeLogError, CursorVoid
from mainspring.changelog_tailer.layout import ROW, Rows
from mainspring.changelog_tailer.listener import Listener
from mainspring.changelog_tailer.position import Position
from mainspring.changelog_tailer.reading import changes_between, log_end, require_continues
from mainspring.changelog_tailer.rows import Decoder

log = logging.getLogger(__name__)

PageSink = Callable[[Rows, Cursor], Awaitable[None]]

# The first commit after a pause wakes and is read at once. Those that follow within AWAKE_S are looked for,
# since busy writers leave out their wake-ups, and what came within READING_GAP_S shares a reading.
READING_GAP_S = 0.02
AWAKE_S = 0.25


class Tailer:
    """Hands each change to `sink(rows, cursor)` once, in the order of the log.

    The cursor counts as applied with the last of the rows; a page within a long reading carries the cursor
    before it, and an empty page the one that closes it. `decoder` is the one that the load used.

    connected: whether a reading has succeeded on the present connection. last_error: why the last one failed,
    None while all is well. polled_at: when the last reading that succeeded began, in the loop's time; what
    was committed before it has been handed over. failed_from: when the last one that failed began.
    """

    def __init__(
        self,
        dsn: str,
        cursor: Cursor,
        sink: PageSink,
        decoder: Decoder,
        *,
        tail_poll_s: float = 1.0,
        retry_cap_s: float = 30.0,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.connected = False
        self.last_error: str | None = None
        self.polled_at: float | None = None
        self.failed_from: float | None = None
        self._dsn = dsn
        self._sink = sink
        self._sink_error: BaseException | None = None
        self._decoder = decoder
        self._position = Position(cursor)
        self._tail_poll_s = tail_poll_s
        self._awake_until = 0.0
        self._backoff = Backoff(retry_cap_s)
        self._ssl_context = ssl_context
        self._connection: asyncpg.Connection | None = None
        self._listener: Listener | None = None
        self._hurry = asyncio.Event()

    def __repr__(self) -> str:
        return f"Tailer(connected={self.connected}, cursor={self.cursor.snapshot!r})"

    @property
    def cursor(self) -> Cursor:
        """What has been handed over completely."""
        return self._position.cursor

    async def run(self) -> None:
        """Follow until cancelled.

        Raises CursorVoid when the jobs have to be loaded again, and the errors of the sink.
        """
        while True:
            try:
                await self.run_once()
            except CursorVoid:
                self._drop()
                raise
            except (*LOST, ChangeLogError) as error:
                if error is self._sink_error:
                    raise
                await self._recover(error)
            else:
                await self._wait_for_news()

    async def run_once(self) -> None:
        """Read what is new, connecting first where that is needed.

        Raises what LOST names, ChangeLogError and the sink's errors. After an error the next call starts
        from where nothing is lost and nothing is handed over twice.
        """
        began_at = asyncio.get_running_loop().time()
        self._hurry.clear()  # and not before a pause: who asks amid a reading that fails asks for the next
        try:
            await self._read(await self._connected())
        except BaseException:
            self._drop()
            self.failed_from = began_at
            raise
        self.connected = True
        self.last_error = None
        self.polled_at = began_at
        self._backoff.reset()

    def wake(self) -> None:
        """Read at once, as if a commit had been heard; while the server is away, try it at once."""
        self._hurry.set()
        if self._listener is not None:
            self._listener.wake()

    async def aclose(self) -> None:
        """End both connections."""
        connection, listener = self._connection, self._listener
        self._connection = self._listener = None
        self.connected = False
        if listener is not None:
            await listener.aclose()
        if connection is not None:
            await close(connection)

    async def _read(self, connection: asyncpg.Connection) -> None:
        position = self._position
        end = await log_end(connection, position.cursor)
        if end.cursor == position.cursor and not position.replaying:
            position.flushed(end.flushed_lsn)
            return
        await changes_between(connection, position.since, end.cursor, self._hand_over, self._decoder)
        position.arrive(end)
        await self._deliver(Rows(np.empty(0, ROW), b"", self._decoder.routes, self._decoder.crons))

    async def _hand_over(self, rows: Rows) -> None:
        fresh = self._position.fresh(rows)
        if len(fresh):
            await self._deliver(fresh)
            self._position.handed_over(fresh)
            self._stay_awake()

    async def _deliver(self, rows: Rows) -> None:
        try:
            await self._sink(rows, self._position.cursor)
        except Exception as error:
            self._sink_error = error
            raise

    async def _connected(self) -> asyncpg.Connection:
        """The connection, made anew where it or the listener's is gone, and known to be to the same log."""
        if self._connection is not None and self._listener is not None and not self._listener.lost:
            self._listener.clear()
            return self._connection
        self._drop()
        self._connection = await connect(self._dsn, ssl_context=self._ssl_context)
        require_continues(self._position.since, await cursor_now(self._connection))
        # Listening before the first reading: a commit after it wakes, one before it is read.
        heard = await open_session(self._dsn, ssl_context=self._ssl_context)
        self._listener = await self._listen(heard)
        return self._connection

    async def _listen(self, connection: asyncpg.Connection) -> Listener:
        try:
            return await Listener.start(connection)
        except BaseException:
            connection.terminate()
            raise

    def _drop(self) -> None:
        """Let go of both connections, whatever state they are in."""
        if self._connection is not None:
            self._connection.terminate()
            self._position.rewind()
        if self._listener is not None:
            self._listener.abort()
        self._connection = self._listener = None
        self.connected = False

    async def _recover(self, error: BaseException) -> None:
        if self.last_error is None:
            log.warning("change log not readable, trying again for ever: %s", _reason(error))
        self.last_error = _reason(error)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._backoff.failed(cheap=costs_little(error))):
                await self._hurry.wait()

    async def _wait_for_news(self) -> None:
        if asyncio.get_running_loop().time() < self._awake_until:
            await asyncio.sleep(READING_GAP_S)
        elif self._listener is not None and await self._listener.wait(self._tail_poll_s):
            self._stay_awake()

    def _stay_awake(self) -> None:
        self._awake_until = asyncio.get_running_loop().time() + AWAKE_S


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "Postgres does not answer in time"
    return str(error) or repr(error)
