"""The connection to NATS, the stream, and the raw write.

nats-py has no public way to write frames that are already built. The two private names used for it,
`Client._send_command` and `Client._flush_pending`, are used in this file alone, and nats-py is pinned to
the minor release that a test of this surface was passed with.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig, StreamInfo
from nats.js.client import JetStreamContext
from nats.js.errors import APIError, BucketNotFoundError, NotFoundError
from nats.js.kv import KeyValue

from mainspring.engine.config import Settings
from mainspring.engine.stored import stored_ids
from mainspring.engine.tls import nats_tls

log = logging.getLogger(__name__)

DUPLICATE_WINDOW_S = 120
MAX_AGE_S = 3600
MAX_BYTES = 10 * 1024**3
# The stream must remember ids for longer than catch-up reaches back, or a late resend could be stored twice.
WINDOW_MARGIN_S = 30

_RECONNECT_WAIT_S = 0.25
_PING_INTERVAL_S = 5
_REQUEST_TIMEOUT_S = 5.0
_CLOSE_TIMEOUT_S = 2.0


class StreamUnfit(Exception):
    """The stream exists with settings under which runs could be stored twice or lost."""


@dataclass(frozen=True, slots=True)
class Ack:
    """What the broker answered to one run."""

    number: int
    data: bytes
    status: str | None


class Broker:
    """One connection that publishes, one for everything else, both reconnecting for ever."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._frames = Client()
        self._control = Client()
        self._opened: list[Client] = []
        self._closing = False
        self.inbox = ""
        self.on_ready: Callable[[], None] = lambda: None

    @property
    def connected(self) -> bool:
        """True while frames would reach a socket."""
        return self._frames.is_connected

    @property
    def closed(self) -> bool:
        """True once the client gave the connection up for good."""
        return self._frames.is_closed

    @property
    def max_payload(self) -> int:
        """The largest message the server takes, headers included, bytes."""
        return self._frames.max_payload

    async def connect(self) -> None:
        """Connect both; raises `OSError` or `NatsError` where the server cannot be reached."""
        for client, purpose in ((self._control, "control"), (self._frames, "publish")):
            self._opened.append(client)
            await client.connect(**self._options(purpose))
        self.inbox = self._frames.new_inbox()

    async def subscribe_acks(self, on_ack: Callable[[Ack], None]) -> None:
        """Hand every answer to a frame of ours to `on_ack`."""
        start = len(self.inbox) + 1

        async def answered(message: Msg) -> None:
            status = message.headers.get("Status") if message.headers else None
            on_ack(Ack(int(message.subject[start:]), message.data, status))

        await self._frames.subscribe(self.inbox + ".*", cb=answered, pending_bytes_limit=0)
        await self._frames.flush(timeout=5)

    async def write(self, frames: bytes) -> bool:
        """Write complete protocol frames; False, and nothing written, while disconnected."""
        if not self._frames.is_connected:
            return False
        await self._frames._send_command(frames)
        await self._frames._flush_pending()
        return True

    async def reconnect(self) -> None:
        """Give up the present connection: it takes frames and answers nothing."""
        await self._frames.force_reconnect()

    async def stored_ids(self, since: float) -> set[str]:
        """Ids of the runs that the stream has taken since then; raises `StreamUnreadable`."""
        return await stored_ids(self._jetstream(), self.stream, since)

    async def ensure_stream(self) -> float:
        """Create the stream, or judge the one that is there; gives its duplicate window, seconds.

        Raises `StreamUnfit` where it could not keep the promise; warns where it weakens it.
        """
        jetstream = self._jetstream()
        name = self.stream
        try:
            info = await jetstream.stream_info(name)
        except NotFoundError:
            await self._add_stream(jetstream)
            log.info("created stream %s", name)
            return DUPLICATE_WINDOW_S
        self._judge_stream(info)
        return info.config.duplicate_window

    async def _add_stream(self, jetstream: JetStreamContext) -> None:
        try:
            await jetstream.add_stream(self._stream_config())
        except APIError as error:
            raise StreamUnfit(
                f"stream {self.stream} cannot be created: {error.description}. It reserves "
                f"{MAX_BYTES >> 30} GiB of file storage. Mend: raise JetStream's max_file_store, "
                "or create the stream yourself as you need it"
            ) from error

    async def bucket(self) -> KeyValue:
        """The KV bucket of the instance, made if it is missing."""
        jetstream = self._jetstream()
        try:
            return await jetstream.key_value(self._settings.instance)
        except BucketNotFoundError:
            return await jetstream.create_key_value(bucket=self._settings.instance)

    async def aclose(self) -> None:
        """Close both connections; what is still unsent is dropped."""
        self._closing = True
        for client in self._opened:
            try:
                async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                    await client.close()
            except (NatsError, OSError, TimeoutError) as error:
                log.warning("closing the NATS connection: %s", error)

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._settings.instance.upper()

    @property
    def subjects(self) -> str:
        """The subjects of all runs."""
        return f"{self._settings.instance}.run.>"

    def _jetstream(self) -> JetStreamContext:
        return self._control.jetstream(timeout=_REQUEST_TIMEOUT_S)

    def _stream_config(self) -> StreamConfig:
        return StreamConfig(
            name=self.stream,
            subjects=[self.subjects],
            retention=RetentionPolicy.LIMITS,
            storage=StorageType.FILE,
            discard=DiscardPolicy.OLD,
            max_age=MAX_AGE_S,
            max_bytes=MAX_BYTES,
            duplicate_window=DUPLICATE_WINDOW_S,
        )

    def _judge_stream(self, info: StreamInfo) -> None:
        judge_stream(info.config, subjects=self.subjects, catch_up_window_s=self._settings.catch_up_window_s)

    def _options(self, purpose: str) -> dict[str, Any]:
        settings = self._settings
        options: dict[str, Any] = {
            "servers": [url.strip() for url in settings.nats_url.split(",")],
            "name": f"{settings.instance} {purpose}",
            "allow_reconnect": True,
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": _RECONNECT_WAIT_S,
            "connect_timeout": 2,
            "ping_interval": _PING_INTERVAL_S,
            "max_outstanding_pings": 2,
            "pending_size": 0,
            "error_cb": _Told(f"NATS ({purpose})").tell,
            "disconnected_cb": self._disconnected(purpose),
            "reconnected_cb": self._reconnected(purpose),
        }
        if settings.nats_creds:
            options["user_credentials"] = str(settings.nats_creds)
        if tls := nats_tls(settings):
            options["tls"] = tls
        return options

    def _disconnected(self, purpose: str) -> Callable[[], Awaitable[None]]:
        async def disconnected() -> None:
            if not self._closing:
                log.warning("NATS connection (%s) lost; reconnecting", purpose)

        return disconnected

    def _reconnected(self, purpose: str) -> Callable[[], Awaitable[None]]:
        async def reconnected() -> None:
            log.info("NATS connection (%s) is back", purpose)
            if purpose == "publish":
                self.on_ready()

        return reconnected


def judge_stream(config: StreamConfig, *, subjects: str, catch_up_window_s: int) -> None:
    """Raise `StreamUnfit`, naming the setting and the mend, or warn."""
    least = catch_up_window_s + WINDOW_MARGIN_S
    if config.duplicate_window < least:
        raise StreamUnfit(
            f"stream {config.name}: its duplicate window of {config.duplicate_window:.0f} s is under "
            f"catch_up_window_s + {WINDOW_MARGIN_S} = {least} s, so a resent run could be stored twice. "
            f"Mend: nats stream edit {config.name} --dupe-window={max(least, DUPLICATE_WINDOW_S)}s, "
            f"or lower catch_up_window_s"
        )
    if config.no_ack:
        raise StreamUnfit(f"stream {config.name} has no_ack set: no run would ever be acknowledged")
    if subjects not in (config.subjects or []):
        raise StreamUnfit(
            f"stream {config.name} does not take {subjects} (it takes {config.subjects}). "
            f"Mend: add the subject, or choose another `instance`"
        )
    for weakness in _weaknesses(config):
        log.warning("stream %s: %s", config.name, weakness)


def _weaknesses(config: StreamConfig) -> list[str]:
    found = []
    if config.storage != StorageType.FILE:
        found.append("memory storage: a broker restart loses the stored runs")
    if config.discard != DiscardPolicy.OLD:
        found.append("discard is not 'old': a full stream refuses new runs")
    if config.retention != RetentionPolicy.LIMITS:
        found.append("retention is not 'limits': runs vanish as they are consumed and cannot be verified")
    if config.max_age and config.max_age < config.duplicate_window:
        found.append("max_age is under the duplicate window: runs vanish before they can be settled")
    return found


class _Told:
    """Logs an error once, however often the client repeats it while it tries to reconnect."""

    def __init__(self, whose: str) -> None:
        self._whose = whose
        self._last = ""

    async def tell(self, error: Exception) -> None:
        text = str(error) or repr(error)
        if text != self._last:
            log.warning("%s: %s", self._whose, text)
        self._last = text
