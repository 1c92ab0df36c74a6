"""Between a socket and nats-py: takes acknowledgements out of what comes, and passes every other frame on.

The bytes come into one buffer, over and over, and the acknowledgements among them are read where they lie.
"""

import logging
from asyncio import BaseTransport, BufferedProtocol, StreamReaderProtocol, WriteTransport
from collections.abc import Callable
from typing import cast

from mainspring.engine.publishing.acks import Acks, frame_bytes

log = logging.getLogger(__name__)

BUFFER_BYTES = 1 << 18

OnAcks = Callable[[Acks], None]


class AckFilter(BufferedProtocol):
    """The protocol of one connection.

    behind: gets whole frames, in order. on_acks: is handed the acknowledgements of a chunk, which hold until
    it returns. Bytes that are no protocol of NATS end the connection.
    """

    def __init__(self, behind: StreamReaderProtocol, acks: Acks, on_acks: OnAcks) -> None:
        self._behind = behind
        self._acks = acks
        self._on_acks = on_acks
        self._buffer = bytearray(BUFFER_BYTES)
        self._kept = 0  # bytes at the front, of a frame that is not complete yet

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Room behind what was kept; at least as much again where that fills the buffer."""
        if self._kept == len(self._buffer):
            self._buffer = self._buffer + bytearray(self._kept)
        return memoryview(self._buffer)[self._kept :]

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes have come."""
        end = self._kept + nbytes
        try:
            at = self._take_frames(end)
        except ValueError as error:
            log.error("leaving the NATS server: %s", error)
            self._transport.abort()
            at = end
        self._kept = end - at
        if at and self._kept:
            self._buffer[: self._kept] = self._buffer[at:end]

    def _take_frames(self, end: int) -> int:
        """Handle all that is complete; gives where that ends. Raises ValueError for what is no frame."""
        buffer, at = self._buffer, self._take_acks(0, end)
        while size := frame_bytes(buffer, at, end):
            self._behind.data_received(bytes(memoryview(buffer)[at : at + size]))
            at = self._take_acks(at + size, end)
        return at

    def _take_acks(self, at: int, end: int) -> int:
        while (stopped_at := self._acks.read(self._buffer, at, end)) > at:
            self._on_acks(self._acks)
            at = stopped_at
        return at

    def connection_made(self, transport: BaseTransport) -> None:
        self._transport = cast(WriteTransport, transport)
        self._behind.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._behind.connection_lost(error)

    def eof_received(self) -> bool | None:
        return self._behind.eof_received()

    def pause_writing(self) -> None:
        self._behind.pause_writing()

    def resume_writing(self) -> None:
        self._behind.resume_writing()
