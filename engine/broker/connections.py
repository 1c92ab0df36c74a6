"""The connections to NATS: one that publishes, one for everything else."""

import asyncio
import json
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js.client import JetStreamContext

from mainspring.engine.broker.bucket import Bucket, open_bucket
from mainspring.engine.broker.frame_client import FrameClient, LastingClient, Permission
from mainspring.engine.broker.login import nats_login
from mainspring.engine.broker.reconnecting import FIRST_PAUSE_S, Reconnecting
from mainspring.engine.broker.stream import RunStream
from mainspring.engine.config import Settings, mask_address
from mainspring.engine.publishing.ack_filter import OnAcks
from mainspring.engine.publishing.stored import stored_ids

log = logging.getLogger(__name__)

PURPOSES = ("control", "publish", "lease")

_PING_INTERVAL_S = 5
_REQUEST_TIMEOUT_S = 5.0
_CLOSE_TIMEOUT_S = 2.0
_REMIND_S = 30.0


@dataclass(frozen=True, slots=True)
class Answered:
    """What the broker answered to one run, as it came."""

    number: int
    data: bytes
    status: str | None


class Broker:
    """Both connections reconnect for ever; `on_ready` is called whenever the publishing one is new."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._frames = FrameClient()
        self._control = LastingClient()
        self._clients = ((self._control, "control"), (self._frames, "publish"))
        self._opened: list[LastingClient] = []
        self._pace = {purpose: Reconnecting(settings.retry_cap_s) for purpose in PURPOSES}
        self._told = {
            purpose: _Told(f"NATS at {mask_address(settings.nats_url)} (nats_url, to {purpose})")
            for purpose in PURPOSES
        }
        self.stream = RunStream(settings.instance, settings.catch_up_window_s)
        self.inbox = self._frames.inbox
        self.on_ready: Callable[[], None] = lambda: None

    @property
    def connected(self) -> bool:
        """True while frames would reach a socket."""
        return self._frames.is_connected

    @property
    def trouble(self) -> str:
        """Why the last attempt to connect failed; empty while connected, and before the first has."""
        for client, purpose in self._clients:
            if not client.is_connected:
                return self._told[purpose].last
        return ""

    @property
    def closed(self) -> bool:
        """True once the client gave a connection up for good."""
        return any(client.is_closed for client in self._opened)

    @property
    def max_payload(self) -> int:
        """The largest message the server takes, headers included, bytes."""
        return self._frames.max_payload

    async def connect(self) -> None:
        """Connect both; tries for ever, and tells why it has to."""
        for client, purpose in self._clients:
            await client.connect(**self.options(purpose))
            self._opened.append(client)
            self._told[purpose].last = ""

    async def subscribe_acks(
        self, on_acks: OnAcks, on_answer: Callable[[Answered], None], on_denied: Callable[[str], None]
    ) -> None:
        """Hand what stored a run to `on_acks`, many at a time, and every other answer to `on_answer`.

        on_denied: is told, in small letters, of a subject that the login may not publish to.
        """
        start = len(self.inbox) + 1

        async def answered(message: Msg) -> None:
            status = message.headers.get("Status") if message.headers else None
            on_answer(Answered(int(message.subject[start:]), message.data, status))

        self._frames.on_acks, self._frames.on_denied = on_acks, on_denied
        await self._frames.subscribe(self.inbox + ".*", cb=answered, pending_bytes_limit=0)
        await self._frames.flush(timeout=5)

    def write(self, frames: bytes) -> bool:
        """Write complete protocol frames; False, and nothing written, while disconnected or not permitted.

        Wait for `room` before the next write: nothing else bounds what is not yet sent.
        """
        return self._frames.write(frames)

    @property
    def has_room(self) -> bool:
        """Whether there is no need to wait for `room`."""
        return self._frames.has_room

    async def room(self) -> None:
        """Wait until the socket has taken nearly all that was written, or the connection has ended."""
        await self._frames.room()

    def publish_under(self, permission: Permission) -> None:
        """Write frames only while it holds; call before `connect`."""
        self._frames.permission = permission

    async def reconnect(self) -> None:
        """Give up the present connection, with what is not yet sent on it."""
        await self._frames.force_reconnect()

    async def stored_ids(self, since: float) -> set[str]:
        """Ids of the runs that the stream has taken since then; raises `StreamUnreadable`."""
        return await stored_ids(self._settings, self._jetstream(), self.stream.name, since)

    async def ensure_stream(self) -> float:
        """The stream's duplicate window in seconds; see `RunStream.ensure`."""
        return await self.stream.ensure(self._jetstream())

    async def bucket(self) -> Bucket:
        """The KV bucket of the instance, made if it is missing."""
        return await open_bucket(self._jetstream(), self._settings.instance)

    async def now(self) -> float:
        """The broker's wall time, epoch seconds, at the time of its answer. Raises nats-py's errors."""
        subject = f"$JS.API.STREAM.INFO.{self.stream.name}"
        answer = json.loads((await self._control.request(subject, b"", timeout=_REQUEST_TIMEOUT_S)).data)
        try:
            return datetime.fromisoformat(answer["ts"]).timestamp()
        except (LookupError, ValueError) as error:
            raise NatsError("the answer about the stream has no time") from error

    async def aclose(self) -> None:
        """Close both connections; what is still unsent is dropped."""
        for client in self._opened:
            try:
                async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                    await client.close()
            except (NatsError, OSError, TimeoutError) as error:
                log.warning("closing the NATS connection: %r", error)

    def _jetstream(self) -> JetStreamContext:
        return self._control.jetstream(timeout=_REQUEST_TIMEOUT_S)

    def options(self, purpose: str) -> dict[str, Any]:
        """With what a connection for one of `PURPOSES` is made."""
        settings = self._settings
        options: dict[str, Any] = {
            "name": f"{settings.instance} {purpose}",
            "allow_reconnect": True,
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": FIRST_PAUSE_S,
            "reconnect_to_server_handler": self._pace[purpose].next,
            "connect_timeout": 2,
            "ping_interval": _PING_INTERVAL_S,
            "max_outstanding_pings": 2,
            "pending_size": 0,
            "error_cb": self._told[purpose].tell,
            "disconnected_cb": self._disconnected(purpose),
            "reconnected_cb": self._reconnected(purpose),
        }
        return options | nats_login(settings)

    def _disconnected(self, purpose: str) -> Callable[[], Awaitable[None]]:
        async def disconnected() -> None:
            log.warning("NATS connection (%s) lost; reconnecting", purpose)

        return disconnected

    def _reconnected(self, purpose: str) -> Callable[[], Awaitable[None]]:
        async def reconnected() -> None:
            log.info("NATS connection (%s) is back", purpose)
            self._pace[purpose].connected()
            self._told[purpose].last = ""
            if purpose == "publish":
                self.on_ready()

        return reconnected


class _Told:
    """Logs an error once in a while, however often the client repeats it while it tries to reconnect."""

    def __init__(self, whose: str) -> None:
        self._whose = whose
        self.last = ""
        self._told_at = -math.inf

    async def tell(self, error: Exception) -> None:
        text = (error.strerror if isinstance(error, OSError) else str(error)) or repr(error)
        now = asyncio.get_running_loop().time()
        if text != self.last or now - self._told_at >= _REMIND_S:
            log.warning("%s: %s; trying again", self._whose, text)
            self.last, self._told_at = text, now
