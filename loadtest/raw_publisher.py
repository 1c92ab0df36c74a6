"""A publisher with nothing around it: one socket, frames out, acknowledgements counted. The ceiling.

    with RawPublisher(server.url, inbox) as raw:
        raw.publish([(frames, runs), ...], in_flight_max=16_384)

It knows nothing of a run but that an answer came, and could send none again.
"""

import json
import select
import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

_READ_BYTES: Final = 1 << 18
_ANSWER_END: Final = b"}"
_SILENT_MS: Final = 30_000


class RawFailed(RuntimeError):
    """The server refused something, or fell silent."""


class RawPublisher(AbstractContextManager["RawPublisher"]):
    """Connects, and listens to `<inbox>.*`."""

    def __init__(self, url: str, inbox: str) -> None:
        address = urlsplit(url)
        self._socket = socket.create_connection((address.hostname, address.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._greet(address.username, address.password, inbox)
        self._socket.setblocking(False)
        self._poll = select.poll()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def publish(self, batches: Sequence[tuple[bytes, int]], in_flight_max: int) -> int:
        """Send all of it; returns how many runs there were when each of them is answered.

        A batch begins while fewer than `in_flight_max` runs are unanswered.
        """
        waiting = list(reversed(batches))
        total, sent, answered = sum(runs for _, runs in batches), 0, 0
        unsent = memoryview(b"")
        while answered < total:
            if not unsent and waiting and sent - answered < in_flight_max:
                frames, runs = waiting.pop()
                unsent, sent = memoryview(frames), sent + runs
            unsent = self._send(unsent)
            answered += self._receive(wait=not unsent and (not waiting or sent - answered >= in_flight_max))
        return total

    def _send(self, unsent: memoryview) -> memoryview:
        if not unsent:
            return unsent
        try:
            return unsent[self._socket.send(unsent) :]
        except BlockingIOError:
            self._until(select.POLLIN | select.POLLOUT)
            return unsent

    def _receive(self, *, wait: bool) -> int:
        """How many answers were there; waits for one where there is nothing else to do."""
        if wait:
            self._until(select.POLLIN)
        try:
            return self._answers(self._socket.recv(_READ_BYTES))
        except BlockingIOError:
            return 0

    def _answers(self, chunk: bytes) -> int:
        if not chunk or b'"error"' in chunk or b"-ERR" in chunk:
            raise RawFailed(f"the server said {chunk[:200]!r}")
        if b"PING" in chunk:
            self._socket.send(b"PONG\r\n")
        return chunk.count(_ANSWER_END)

    def _until(self, events: int) -> None:
        self._poll.register(self._socket, events)
        if not self._poll.poll(_SILENT_MS):
            raise RawFailed(f"the server answered nothing for {_SILENT_MS} ms")

    def _greet(self, user: str | None, password: str | None, inbox: str) -> None:
        login = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
        options = json.dumps(login | {"user": user, "pass": password, "lang": "raw", "version": "1"})
        self._socket.sendall(f"CONNECT {options}\r\nSUB {inbox}.* 1\r\nPING\r\n".encode())
        greeting = b""
        while not greeting.endswith(b"PONG\r\n"):
            chunk = self._socket.recv(_READ_BYTES)
            greeting += chunk
            if not chunk or b"-ERR" in greeting:
                raise RawFailed(f"the server said {greeting[-200:]!r}")
