"""A NATS client that also takes frames which are already built.

nats-py has no public way to write them. The private names used for it stand in this file alone, nats-py is
pinned to the minor release that the tests of this surface were passed with:

* `_send_command` and `_flush_pending` write;
* `_attempt_reconnect` is where every way to a new connection begins. nats-py would first wait until the old
  socket has taken all that was written, which a frozen peer never does, and would send what is still
  buffered on the new connection, however old it is. Both must not be: what is still owed is the
  publisher's to decide.
"""

from typing import Any

from nats.aio.client import Client


class FrameClient(Client):
    """`Client`, with `write`, and connections that are left at once and with nothing carried over."""

    async def write(self, frames: bytes) -> bool:
        """Write complete protocol frames; False, and nothing written, while disconnected."""
        if not self.is_connected:
            return False
        await self._send_command(frames)
        await self._flush_pending()
        return True

    async def _attempt_reconnect(self) -> None:
        self._pending: list[bytes] = []
        self._pending_data_size = 0
        _abort(self._transport)
        await super()._attempt_reconnect()


def _abort(transport: Any) -> None:
    """Close the socket without waiting for the peer to take what was written."""
    writer = getattr(transport, "_io_writer", None)
    if writer is not None:
        writer.transport.abort()
