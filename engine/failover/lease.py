"""Who is active: one key of the KV bucket, which its holder renews and which vanishes when nobody does.

    lease = Lease(broker.options("lease"), bucket="mainspring", clock=clock)
    lease.start()                       # a thread with a loop and a connection of its own
    lease.want()
    await lease.changed.wait()
    if lease.holds(lease.term): ...     # asked before each write to the socket
    await lease.aclose()                # gives it up: another node may have it at once

The thread renews whatever the event loop is doing. All it shares is the tenure, one object: reading it takes
no lock. A holder counts from before it sent a renewal, by a clock that goes on while the machine is
suspended, and less than the broker does: so it knows that it has lost the lease before anybody can have it.

A bucket that is gone is made again. The new one knows nothing of who held the lease in the one before: nobody
else takes it there until the new one has been known for as long as a lease lasts.
"""

import asyncio
import json
import logging
import os
import socket
import threading
import time
import uuid
from dataclasses import dataclass
from typing import Any

from nats.errors import Error as NatsError
from nats.js import api
from nats.js.errors import APIError, ServiceUnavailableError

from mainspring.engine.broker.bucket import DELETED, MISSING, Bucket, BucketUnfit, age
from mainspring.engine.broker.frame_client import FrameClient, denied_text
from mainspring.engine.clock import Clock

log = logging.getLogger(__name__)

KEY = "lease"
# The shortest that a broker knows: it is what a standby waits for after a kill.
TTL_S = 1
# So much earlier the holder gives up: the broker's clock may run faster, and sees the message later.
MARGIN_S = 0.1
RENEW_S = 0.2
LOOK_S = 0.1

_ANSWER_S = 0.4
_SILENT_MAX = 5
_OVERDUE_S = 0.45
_GIVE_WAY_EVERY_S = 0.05
_GIVE_WAY_S = 0.002
_CLOSE_S = 2.0
_WRONG_SEQUENCE = (10071, 10164)
# The servers of a cluster tell the age of a bucket by two of their clocks: it may be less by so much.
_AGE_OFF_S = 5.0


@dataclass(frozen=True, slots=True)
class _Tenure:
    """until: by the boot clock, seconds."""

    term: int
    until: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What stands under the key. holder: empty for nobody. revision: what the next write has to expect.
    lasts: it does not vanish when nobody renews it, so no node wrote it.
    """

    holder: str
    revision: int
    lasts: bool = False


class Lease:
    """One node's claim to be the active one. `changed` is set, on the loop that called `start`, whenever it
    was gained, has lapsed, or another holder was seen. `trouble` is why the broker refuses it, empty while it
    does not.
    """

    def __init__(self, options: dict[str, Any], *, bucket: str, clock: Clock) -> None:
        self.name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.changed = asyncio.Event()
        self.seen: Seen | None = None
        self.trouble = ""
        self._options = options
        self._bucket = bucket
        self._made = ""
        self._made_before = 0.0
        self._boot = clock.boot
        self._now = clock.now
        self._tenure = _Tenure(0, 0.0)
        self._holding = False
        self._told = (False, 0, "")
        self._since = 0.0
        self._revision = 0
        self._wanted = False
        self._silent = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"Lease({self.name!r}, held={self.held}, term={self.term}, seen={self.seen})"

    # ------------------------------------------------------------------------------- for any thread

    @property
    def term(self) -> int:
        """Which time this is that the node has the lease, or had it last; 0 before the first."""
        return self._tenure.term

    @property
    def held(self) -> bool:
        """Whether this node is the active one now."""
        return self._boot() < self._tenure.until

    def holds(self, term: int) -> bool:
        """Whether the lease is held now, and since that term without a break."""
        tenure = self._tenure
        return tenure.term == term and self._boot() < tenure.until

    @property
    def other(self) -> str:
        """Who else held it when it was looked at last; empty for nobody."""
        seen = self.seen
        return seen.holder if seen is not None and seen.holder != self.name else ""

    @property
    def stuck(self) -> str:
        """What is wrong with a holder that is no node and never lets go of it, with the mend; else empty."""
        seen = self.seen
        return stuck_text(seen, self._bucket) if seen is not None and seen.lasts else ""

    def start(self) -> None:
        """Begin to look, on a thread of its own; once."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def want(self) -> None:
        """Take the lease as soon as nobody else has it."""
        self._wanted = True

    async def looked(self) -> None:
        """Wait until it is known who has it; at once where that is so, for ever where the broker is away."""
        while not (self.held or self.other):
            self.changed.clear()
            await self.changed.wait()

    async def give_way(self) -> None:
        """Let the thread run when it is overdue. A loop that always has work takes the GIL back too soon
        after each release for another thread to get it; a short sleep is long enough.
        """
        while True:
            await asyncio.sleep(_GIVE_WAY_EVERY_S)
            tenure = self._tenure
            valid_s = tenure.until - self._boot()
            if -TTL_S < valid_s < TTL_S - MARGIN_S - _OVERDUE_S:
                time.sleep(_GIVE_WAY_S)  # noqa: ASYNC251 - it is the loop that has to stop

    async def aclose(self) -> None:
        """Give it up, if it is held, and end the thread."""
        self._closing.set()
        if self._thread.is_alive():
            await asyncio.get_running_loop().run_in_executor(None, self._thread.join, _CLOSE_S)

    # ------------------------------------------------------------------------------- on its own thread

    def _run(self) -> None:
        try:
            asyncio.run(self._keep())
        except Exception:
            log.exception("the lease cannot be kept")
        finally:
            self._tenure = _Tenure(self._tenure.term, 0.0)

    async def _keep(self) -> None:
        client = FrameClient()
        client.on_denied = lambda subject: self._refused(denied_text(subject))
        connecting = asyncio.ensure_future(client.connect(**self._options))
        try:
            while not connecting.done() and not self._closing.is_set():
                await asyncio.wait([connecting], timeout=LOOK_S)
            if connecting.done():
                connecting.result()
            while not self._closing.is_set():
                await self._turn(client)
            await self._release(client)
        finally:
            connecting.cancel()
            if connecting.done() and not connecting.cancelled():
                await _closed(client)

    async def _turn(self, client: FrameClient) -> None:
        began_at = self._boot()
        try:
            if client.is_connected:
                await self._work(client)
                self.trouble = ""
            self._silent = 0
        except (NatsError, OSError, TimeoutError) as error:
            await self._failed(client, error)
        self._tell()
        pause_s = RENEW_S if self._holding and not self._silent else LOOK_S
        await asyncio.sleep(max(0.0, began_at + pause_s - self._boot()))

    async def _work(self, client: FrameClient) -> None:
        bucket = Bucket(client.jetstream(timeout=_ANSWER_S), self._bucket)
        try:
            await self._look_or_write(client, bucket)
        except MISSING:
            self._lose()
            await bucket.mend()
            await self._look_or_write(client, bucket)  # at once: the holder's time goes on meanwhile

    async def _look_or_write(self, client: FrameClient, bucket: Bucket) -> None:
        if not (self._holding and self.held):  # what has lapsed may be another's, in another bucket even
            self.seen = await seen_in(bucket)
            if self.other:
                self._tenure = _Tenure(self.term, 0.0)
            if self.other or not self._wanted or not (self.held or await self._outlived(client)):
                return
            self._revision = self.seen.revision
        await self._write(bucket)

    async def _outlived(self, client: FrameClient) -> bool:
        """Whether a lease that somebody had in a bucket before this one is past."""
        made, age_s = await age(client, self._bucket, _ANSWER_S)
        if made != self._made:
            self._made, self._made_before = made, self._boot() - max(0.0, age_s - _AGE_OFF_S)
        return self._boot() - self._made_before >= TTL_S

    async def _write(self, bucket: Bucket) -> None:
        """Take it or renew it: the same message, which the broker refuses when another came between."""
        sent_at = self._boot()
        if not self.held:
            self._since = self._now()
        value = json.dumps({"holder": self.name, "since": self._since}).encode()
        try:
            ack = await self._publish(bucket, value, {})
        except APIError as error:
            if error.err_code not in _WRONG_SEQUENCE:
                raise
            self._lose()
            return
        self._gain(ack.seq, sent_at)

    async def _publish(self, bucket: Bucket, value: bytes, headers: dict[str, str]) -> api.PubAck:
        expected = {api.Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(self._revision)}
        return await bucket.write(KEY, value, TTL_S, headers | expected)

    def _gain(self, revision: int, sent_at: float) -> None:
        tenure = self._tenure
        # What lapsed was anybody's: it counts as gained anew even where nobody took it.
        term = tenure.term if self._boot() < tenure.until else tenure.term + 1
        self._holding, self._revision, self.seen = True, revision, Seen(self.name, revision)
        self._tenure = _Tenure(term, sent_at + TTL_S - MARGIN_S)

    def _lose(self) -> None:
        """Another write came between: perhaps a renewal of our own whose answer was lost, so look first."""
        self._holding, self.seen = False, None

    async def _failed(self, client: FrameClient, error: Exception) -> None:
        """The broker may have forgotten the key meanwhile: it is looked at again once the time is over."""
        log.debug("the lease was not renewed: %r", error)
        if not self.held:
            self._lose()
        if isinstance(error, (BucketUnfit, APIError)) and not isinstance(error, ServiceUnavailableError):
            self._refused(str(error))
            return
        self._silent += 1
        if self._silent % _SILENT_MAX == 0 and client.is_connected and not self.trouble:
            await client.force_reconnect()

    def _refused(self, why: str) -> None:
        """The broker answers, so another connection would mend nothing."""
        if why != self.trouble:
            self.trouble = why
            log.warning("the broker refuses the lease: %s; trying again", why)

    def _tell(self) -> None:
        now = (self.held, self.term, self.other)
        if now != self._told:
            self._told = now
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self.changed.set)

    async def _release(self, client: FrameClient) -> None:
        """Leave a mark that nobody has it, which vanishes as the lease would have."""
        held, self._tenure = self.held, _Tenure(self._tenure.term, 0.0)
        if held and client.is_connected:
            try:
                bucket = Bucket(client.jetstream(timeout=_ANSWER_S), self._bucket)
                await self._publish(bucket, b"", {DELETED: "DEL"})
            except (NatsError, OSError, TimeoutError) as error:
                log.warning("the lease was not given up (%r): it ends by itself within %d s", error, TTL_S)


async def seen_in(bucket: Bucket) -> Seen:
    """Who has the lease. Raises bucket.py's `MISSING` and nats-py's errors."""
    message = await bucket.last(KEY)
    if message is None:
        return Seen("", 0)
    headers = message.headers or {}
    if DELETED in headers:
        return Seen("", message.seq or 0)
    lasts = api.Header.MSG_TTL.value not in headers
    return Seen(_holder_of(message.data or b""), message.seq or 0, lasts)


def stuck_text(seen: Seen, bucket: str) -> str:
    """Of a value that lasts."""
    return (
        f"{seen.holder} stands under {KEY!r} without a time to live: nobody renews it, and no node is ever "
        f"active. Mend: nats kv del {bucket} {KEY}"
    )


def _holder_of(value: bytes) -> str:
    """Of a value that nobody of ours wrote: its text, which is somebody else at any rate."""
    try:
        return str(json.loads(value)["holder"])
    except (LookupError, TypeError, ValueError):
        return repr(value[:80])


async def _closed(client: FrameClient) -> None:
    try:
        async with asyncio.timeout(_CLOSE_S / 2):
            await client.close()
    except (NatsError, OSError, TimeoutError) as error:
        log.debug("closing the lease's NATS connection: %r", error)
