"""NATS clients that do what nats-py's own does not: insist on TLS, reconnect whatever happens, take frames.

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
* The socket below is one of ours, so that a guard is asked right before each send, of what was written long
  before as well. A websocket belongs to another library: there it is asked before each write alone.
* `_process_err` gets what the server tells in an `-ERR` line, and `_process_op_err` begins to reconnect.
* `_process_info` gets what a server says of itself before anything is sent to it. nats-py goes on in the
  clear where that does not ask for TLS, whatever its own options say.
* `close` calls `_disconnected_cb` and `_error_cb` as a loss would.
"""

import asyncio
import logging
import re
import socket
import struct
from asyncio import StreamReader, StreamReaderProtocol, StreamWriter
from collections.abc import Callable
from contextlib import suppress
from ssl import SSLContext
from typing import Any, Protocol
from urllib.parse import ParseResult

from nats.aio.client import Client
from nats.aio.transport import TcpTransport
from nats.errors import Error, SecureConnWantedError
from typing_extensions import Buffer

from mainspring.engine.publishing.ack_filter import AckFilter, OnAcks
from mainspring.engine.publishing.acks import Acks

log = logging.getLogger(__name__)

# In small letters, as nats-py hands it over.
_PERMISSIONS = "permissions violation"
# struct linger: on, for no time at all.
_DISCARD = struct.pack("ii", 1, 0)
_DENIED = re.compile(r"'permissions violation for publish to \"([^\"]+)\"").match


def denied_text(subject: str) -> str:
    """Of a permission that the login lacks; the server names the subject in small letters."""
    return f"this login may not publish to {subject}: give it the permission"


class Permission(Protocol):
    """Whether frames may be sent. `term` changes whenever there was a time in which they might not."""

    @property
    def term(self) -> int: ...

    def holds(self, term: int) -> bool:
        """Whether they may now, and since that term without a break."""
        ...


class Always:
    """Frames may always be sent."""

    term = 0

    def holds(self, term: int) -> bool:
        return term == self.term


class GuardedSocket(socket.socket):
    """Sends nothing while `guard` says no: the connection then ends with an error."""

    guard: Callable[[], bool] = staticmethod(lambda: True)

    def send(self, data: Buffer, flags: int = 0, /) -> int:
        if not self.guard():
            raise ConnectionAbortedError("another node may be the active one: nothing more is sent here")
        return super().send(data, flags)


class TlsUnavailable(SecureConnWantedError):
    """The server, or the scheme of its address, offers no TLS, and the settings ask for it."""

    def __init__(self, server: ParseResult) -> None:
        super().__init__()
        self.server = f"{server.scheme}://{server.netloc.rpartition('@')[2]}"

    def __str__(self) -> str:
        return (
            f"secure connection not available: {self.server} offers no TLS, which nats_url (tls://, wss://), "
            "nats_tls_ca or nats_tls_cert asks for; no login was sent. Mend: give the server a `tls` block, "
            "or take that setting away if the way to the server is safe without"
        )


class BrokerClient(Client):
    """`Client` that sends nothing in the clear where it is connected with the option `tls`.

    Every server then has to offer TLS, those of an address `nats://` and those that a cluster makes known as
    well; for each that does not, `TlsUnavailable` is raised or told as nats-py tells a failed attempt. The
    subjects that the login may not publish to go to `on_denied`, in small letters.
    """

    def __init__(self) -> None:
        super().__init__()
        self.on_denied: Callable[[str], None] = lambda subject: log.warning(denied_text(subject))

    async def close(self) -> None:
        """As nats-py's, which ends as if its caller were cancelled where it ends a reconnecting."""
        try:
            await super().close()
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise

    async def _connect_to_server(self, server: Any) -> None:
        if "tls" in self.options and server.uri.scheme == "ws":  # its first request would carry the login
            raise TlsUnavailable(server.uri)
        await super()._connect_to_server(server)

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        server: Any = self._current_server
        transport: Any = self._transport
        if initial_connection and "tls" in self.options and server.uri.scheme != "wss":
            if not (info.get("tls_required") or info.get("tls_available")):
                transport.close()
                raise TlsUnavailable(server.uri)
            info["tls_required"] = True  # nats-py acts upon this word alone
        await super()._process_info(info, initial_connection)

    async def _process_err(self, err_msg: str) -> None:
        if denied := _DENIED(err_msg):
            self.on_denied(denied[1])
        else:
            await super()._process_err(err_msg)


class LastingClient(BrokerClient):
    """`BrokerClient` that goes on reconnecting whatever happens.

    nats-py's own closes for good on most errors that a server tells, a login that has expired or was taken
    away for a moment among them; and its reconnecting ends unseen on an error that it does not expect, of a
    credentials file that is just being written for instance.
    """

    async def close(self) -> None:
        """As nats-py's, and nothing is told of a connection that ends because it is to."""
        self._disconnected_cb, self._error_cb = None, _unheard
        await super().close()

    async def _process_err(self, err_msg: str) -> None:
        if _PERMISSIONS in err_msg:
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


async def _unheard(_error: Exception) -> None:
    pass


class FrameClient(LastingClient):
    """`Client`, with `write`, and connections that are left at once and with nothing carried over.

    Acknowledgements that come to `<inbox>.<n>` are handed to `on_acks`, a chunk at a time; they hold until it
    returns. The inbox has to be subscribed to all the same, for every other answer comes there, and over a
    websocket the acknowledgements too.

    permission: frames go out only while it holds, and a connection that has taken some under an earlier term
    sends nothing at all any more.
    """

    def __init__(self) -> None:
        super().__init__()
        self.permission: Permission = Always()
        self.inbox = self.new_inbox()
        self.on_acks: OnAcks = lambda _acks: None
        self._acks = Acks(self.inbox.encode())

    def write(self, frames: bytes) -> bool:
        """Write complete protocol frames; False, and nothing written, while disconnected or not permitted.

        Wait for `room` before the next write: nothing else bounds what is not yet sent.
        """
        if not self.is_connected or self._transport is None or not self._permitted():
            return False
        self._transport.write(frames)
        return True

    def _permitted(self) -> bool:
        term = self.permission.term
        if not self.permission.holds(term):
            return False
        if isinstance(self._transport, FrameTransport):
            return self._transport.sends_under(term)
        return True

    @property
    def has_room(self) -> bool:
        """Whether all that was written is on its way, so that there is no need to wait for `room`."""
        plain = _socket_of(self._transport)
        return plain is not None and not plain.is_closing() and not plain.get_write_buffer_size()

    async def room(self) -> None:
        """Wait until the socket has taken nearly all that was written, or the connection has ended."""
        if self.is_connected and self._transport is not None:
            with suppress(OSError):
                await self._transport.drain()  # type: ignore[no-untyped-call]

    def _hand_over(self, acks: Acks) -> None:
        self.on_acks(acks)

    async def _connect_to_server(self, server: Any) -> None:
        if server.uri.scheme in ("nats", "tls"):
            self._transport = FrameTransport(self._acks, self._hand_over, self.permission)
        await super()._connect_to_server(server)

    async def _attempt_reconnect(self) -> None:
        self._pending: list[bytes] = []
        self._pending_data_size = 0
        if (plain := _socket_of(self._transport)) is not None:
            _discard_unsent(plain)
            plain.abort()  # whatever the peer has not yet taken
        await super()._attempt_reconnect()


class FrameTransport(TcpTransport):
    """nats-py's transport, with an `AckFilter` on the socket and another on the TLS above it."""

    def __init__(self, acks: Acks, on_acks: OnAcks, permission: Permission) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._acks, self._on_acks, self._permission = acks, on_acks, permission
        self._term: int | None = None

    def sends_under(self, term: int) -> bool:
        """Note under which term the first frames come; False for those of a later one."""
        if self._term is None:
            self._term = term
        return self._term == term

    def _may_send(self) -> bool:
        return self._term is None or self._permission.holds(self._term)

    def __bool__(self) -> bool:
        """nats-py makes one of its own in place of one that is false."""
        return True

    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: float) -> None:
        loop = asyncio.get_running_loop()
        reader, protocol, filtered = self._filtered(buffer_size)
        async with asyncio.timeout(connect_timeout):
            connected = await _dial(str(uri.hostname), int(uri.port or 0), self._may_send)
            plain, _ = await loop.create_connection(lambda: filtered, sock=connected)
        self._io_reader, self._io_writer = reader, StreamWriter(plain, protocol, reader, loop)
        self._bare_io_writer = self._io_writer  # below TLS: it would close the socket when it is collected

    async def connect_tls(
        self, uri: str | ParseResult, ssl_context: SSLContext, buffer_size: int, connect_timeout: float
    ) -> None:
        loop, plain = asyncio.get_running_loop(), _socket_of(self)
        name = uri if isinstance(uri, str) else uri.hostname
        reader, protocol, filtered = self._filtered(buffer_size)
        async with asyncio.timeout(connect_timeout):
            secured: Any = await loop.start_tls(plain, filtered, ssl_context, server_hostname=name)
        filtered.connection_made(secured)  # asyncio does not
        self._io_reader, self._io_writer = reader, StreamWriter(secured, protocol, reader, loop)

    def _filtered(self, buffer_size: int) -> tuple[StreamReader, StreamReaderProtocol, AckFilter]:
        reader = StreamReader(limit=buffer_size)
        protocol = StreamReaderProtocol(reader)
        return reader, protocol, AckFilter(protocol, self._acks, self._on_acks)


async def _dial(host: str, port: int, guard: Callable[[], bool]) -> GuardedSocket:
    """A connected socket, to the first address of the host that takes one."""
    loop = asyncio.get_running_loop()
    failed: OSError | None = None
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        made = GuardedSocket(family, kind, protocol)
        made.guard = guard
        made.setblocking(False)
        try:
            await loop.sock_connect(made, address)
        except BaseException as error:
            made.close()
            if not isinstance(error, OSError) or isinstance(error, TimeoutError):
                raise
            failed = error
        else:
            return made
    raise failed or OSError(f"{host} has no address")


def _discard_unsent(plain: Any) -> None:
    """What the kernel still holds ends with the connection too: it would go on trying for minutes, and a run
    that arrives so late is stored beside its resend.
    """
    held = plain.get_extra_info("socket")
    if held is not None:  # asyncio's TLS has let go of one that the peer has closed
        with suppress(OSError):
            held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DISCARD)


def _socket_of(transport: Any) -> Any:
    """asyncio's transport below nats-py's; None without one, or where a websocket library has it."""
    writer = getattr(transport, "_io_writer", None)
    return None if writer is None else writer.transport
