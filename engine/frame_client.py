"""NATS clients that do what nats-py's own does not: reconnect whatever happens, take frames already built.

nats-py has no public way to either. The private names used for it stand in this file alone, nats-py is
pinned to the minor release that the tests of this surface were passed with:

* `_connect_to_server` begins every connection; there ours gets a transport of our own, whose protocol is an
  `AckFilter` in front of nats-py's reader. `_io_reader`, `_io_writer` and `_bare_io_writer` are what a
  transport consists of.
* `_transport` takes the frames and says when it has room for more. nats-py's own queue in front of it would
  cost a task switch a batch, and has no bound.
* `_attempt_reconnect` is where every way to a new connection begins. nats-py would first wait until the old
  socket has taken all that was written, which a frozen peer never does, and would send what is still
  buffered (`_pending`) on the new connection, however old it is. Both must not be: what is still owed is the
  publisher's to decide.
* `_process_err` gets what the server tells in an `-ERR` line, and `_process_op_err` begins to reconnect.
"""

import asyncio
import re
from asyncio import StreamReader, StreamReaderProtocol, StreamWriter
from collections.abc import Callable
from contextlib import suppress
from ssl import SSLContext
from typing import Any
from urllib.parse import ParseResult

from nats.aio.client import Client
from nats.aio.transport import TcpTransport
from nats.errors import Error

from mainspring.engine.ack_filter import AckFilter, OnAcks
from mainspring.engine.acks import Acks

# In small letters, as nats-py hands it over.
_PERMISSIONS = "permissions violation"
_DENIED = re.compile(r"'permissions violation for publish to \"([^\"]+)\"").match


class LastingClient(Client):
    """`Client` that goes on reconnecting whatever happens.

    nats-py's own closes for good on most errors that a server tells, a login that has expired or was taken
    away for a moment among them; and its reconnecting ends unseen on an error that it does not expect, of a
    credentials file that is just being written for instance.
    """

    def __init__(self) -> None:
        super().__init__()
        self.on_denied: Callable[[str], None] = lambda _subject: None

    async def _process_err(self, err_msg: str) -> None:
        if denied := _DENIED(err_msg):
            self.on_denied(denied[1])
        elif _PERMISSIONS in err_msg:
            await super()._process_err(err_msg)
        else:
            error = Error(f"nats: {err_msg.strip(chr(39))}")
            await self._error_cb(error)
            await self._process_op_err(error)

    async def _attempt_reconnect(self) -> None:
        while not self.is_closed:
            try:
                await super()._attempt_reconnect()
                break
            except Exception as error:
                await self._error_cb(error)
                await asyncio.sleep(self.options["reconnect_time_wait"])


class FrameClient(LastingClient):
    """`Client`, with `write`, and connections that are left at once and with nothing carried over.

    Acknowledgements that come to `<inbox>.<n>` are handed to `on_acks`, a chunk at a time; they hold until it
    returns. The inbox has to be subscribed to all the same, for every other answer comes there, and over a
    websocket the acknowledgements too.
    """

    def __init__(self) -> None:
        super().__init__()
        self.inbox = self.new_inbox()
        self.on_acks: OnAcks = lambda _acks: None
        self._acks = Acks(self.inbox.encode())

    def write(self, frames: bytes) -> bool:
        """Write complete protocol frames; False, and nothing written, while disconnected.

        Wait for `room` before the next write: nothing else bounds what is not yet sent.
        """
        if not self.is_connected or self._transport is None:
            return False
        self._transport.write(frames)
        return True

    @property
    def has_room(self) -> bool:
        """Whether all that was written is on its way, so that there is no need to wait for `room`."""
        socket = _socket_of(self._transport)
        return socket is not None and not socket.is_closing() and not socket.get_write_buffer_size()

    async def room(self) -> None:
        """Wait until the socket has taken nearly all that was written, or the connection has ended."""
        if self.is_connected and self._transport is not None:
            with suppress(OSError):
                await self._transport.drain()  # type: ignore[no-untyped-call]

    def _hand_over(self, acks: Acks) -> None:
        self.on_acks(acks)

    async def _connect_to_server(self, server: Any) -> None:
        if server.uri.scheme in ("nats", "tls"):
            self._transport = FrameTransport(self._acks, self._hand_over)
        await super()._connect_to_server(server)

    async def _attempt_reconnect(self) -> None:
        self._pending: list[bytes] = []
        self._pending_data_size = 0
        if (socket := _socket_of(self._transport)) is not None:
            socket.abort()  # whatever the peer has not yet taken
        await super()._attempt_reconnect()


class FrameTransport(TcpTransport):
    """nats-py's transport, with an `AckFilter` on the socket and another on the TLS above it."""

    def __init__(self, acks: Acks, on_acks: OnAcks) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._acks, self._on_acks = acks, on_acks

    def __bool__(self) -> bool:
        """nats-py makes one of its own in place of one that is false."""
        return True

    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: float) -> None:
        loop = asyncio.get_running_loop()
        reader, protocol, filtered = self._filtered(buffer_size)
        async with asyncio.timeout(connect_timeout):
            socket, _ = await loop.create_connection(lambda: filtered, str(uri.hostname), int(uri.port or 0))
        self._io_reader, self._io_writer = reader, StreamWriter(socket, protocol, reader, loop)
        self._bare_io_writer = self._io_writer  # below TLS: it would close the socket when it is collected

    async def connect_tls(
        self, uri: str | ParseResult, ssl_context: SSLContext, buffer_size: int, connect_timeout: float
    ) -> None:
        loop, plain = asyncio.get_running_loop(), _socket_of(self)
        name = uri if isinstance(uri, str) else uri.hostname
        reader, protocol, filtered = self._filtered(buffer_size)
        async with asyncio.timeout(connect_timeout):
            socket: Any = await loop.start_tls(plain, filtered, ssl_context, server_hostname=name)
        filtered.connection_made(socket)  # asyncio does not
        self._io_reader, self._io_writer = reader, StreamWriter(socket, protocol, reader, loop)

    def _filtered(self, buffer_size: int) -> tuple[StreamReader, StreamReaderProtocol, AckFilter]:
        reader = StreamReader(limit=buffer_size)
        protocol = StreamReaderProtocol(reader)
        return reader, protocol, AckFilter(protocol, self._acks, self._on_acks)


def _socket_of(transport: Any) -> Any:
    """asyncio's transport below nats-py's; None without one, or where a websocket library has it."""
    writer = getattr(transport, "_io_writer", None)
    return None if writer is None else writer.transport
