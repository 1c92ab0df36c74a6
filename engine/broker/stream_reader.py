"""The stream's messages in order, without their bodies: which run each is, and when it was stored.

A consumer that sends headers alone is read over a connection of its own. The frames of ordinary runs are
taken where they lie in the buffer, which is ten times as fast as a message object for each; every other frame
goes through nats-py.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, cast

import numpy as np
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.client import JetStreamContext
from numpy.typing import NDArray

from mainspring.engine.broker.frame_client import FrameClient
from mainspring.engine.broker.login import nats_login
from mainspring.engine.clock import SystemClock
from mainspring.engine.config import Settings
from mainspring.engine.publishing.acks import Acks

Instants = NDArray[np.int64]

PULL: Final = 16_384
_NO_END: Final = 2**62  # of no stream
_PULLS: Final = 3
_PULL_EXPIRES_S: Final = 20
_STALL_S: Final = 15.0
_IDLE_S: Final = 60.0
_CONNECT_S: Final = 5.0
_ID: Final = "Nats-Msg-Id"

# Reply: $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<nanoseconds>.<pending>.
_RUN: Final = re.compile(
    rb"HMSG \S+ \d+ \$JS\.ACK\.\S+\.\d+\.(\d+)\.(\d+)\.(\d+)\.\d+ \d+ \d+\r\n"
    rb"NATS/1\.0\r\nNats-Msg-Id: (-?\d+)@(\d+)\r\n(?:[^\r\n]+\r\n)*\r\n\r\n"
)
_WORDS: Final = _RUN.groups
_PLAIN: Final = re.compile(r"(-?\d+)@(\d+)")
_HAND: Final = re.compile(r"(-?\d+)@(\d+)!")


class StreamUnreadable(Exception):
    """The stream did not answer to the end; what it holds is still unknown."""


@dataclass(slots=True)
class Chunk:
    """job_ids, at: the runs. seqs, stored_at: of the messages, the latter in epoch seconds. All in order."""

    job_ids: Instants
    at: Instants
    seqs: Instants
    stored_at: Instants


class Deliveries:
    """What comes to the consumer; all behind `end_seq` is passed over. In the place of `Acks` in front of a
    connection.
    """

    def __init__(self) -> None:
        self.end_seq = _NO_END
        self._words: list[bytes] = []
        self.hands: list[int] = []
        self.strangers: list[str] = []
        self.seen = 0
        self.last_seq = 0
        self._delivered = 0
        self.came = asyncio.Event()

    def read(self, buffer: bytearray, at: int, end: int) -> int:
        """Take the runs that lie from `at` on, one behind the other; gives where that ends."""
        match, words, before = _RUN.match, self._words, len(self._words)
        while found := match(buffer, at, end):
            words += found.groups()
            at = found.end()
        if len(words) > before:
            self.seen += (len(words) - before) // _WORDS
            self._came(int(words[-_WORDS]), int(words[1 - _WORDS]))
            self.came.set()
        return at

    async def other(self, message: Msg) -> None:
        """A message that is no ordinary run: a run by hand, a stranger's, or the server's own word. Over a
        websocket the ordinary ones too.
        """
        if not message.reply:  # a status: the end of a pull
            self.came.set()
            return
        sequence, stored_at = message.metadata.sequence, int(message.metadata.timestamp.timestamp())
        self._note(sequence.stream, stored_at, (message.headers or {}).get(_ID, ""))
        self.seen += 1
        self._came(sequence.stream, sequence.consumer)
        self.came.set()

    @property
    def ended(self) -> bool:
        """Whether all up to `end_seq` is seen: what goes through nats-py comes after what lay behind it."""
        return self.last_seq >= self.end_seq and self.seen >= self._delivered

    def _came(self, seq: int, delivered: int) -> None:
        self.last_seq, self._delivered = max(self.last_seq, seq), max(self._delivered, delivered)

    def _note(self, seq: int, stored_at: int, run_id: str) -> None:
        if seq > self.end_seq:
            return
        if plain := _PLAIN.fullmatch(run_id):
            self._words += [b"%d" % seq, b"0", b"%d" % (stored_at * 10**9), *map(str.encode, plain.groups())]
        elif hand := _HAND.match(run_id):
            self.hands.append(int(hand[2]))
        else:
            self.strangers.append(run_id or f"message {seq} without an id")

    def take(self) -> Chunk:
        """What has come since the last call."""
        self.came.clear()
        numbers = np.fromstring(b" ".join(self._words), np.int64, sep=" ")
        self._words.clear()
        rows = numbers.reshape(-1, _WORDS)
        seqs, _, times, job_ids, at = rows[rows[:, 0] <= self.end_seq].T
        return Chunk(job_ids, at, seqs, times // 10**9)


class _Reading(FrameClient):
    """A connection of which the runs are taken; lost once, it is not made again."""

    def __init__(self, deliveries: Deliveries) -> None:
        super().__init__()
        self._acks = cast(Acks, deliveries)  # reads other frames from the same place

    async def pull(self, stream: str, consumer: str) -> None:
        """Ask for so many more."""
        wanted = json.dumps({"batch": PULL, "expires": int(_PULL_EXPIRES_S * 1e9)}).encode()
        await self.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}", wanted, reply=self.inbox)


class StreamReader:
    """Reads from a moment to what was the stream's end at another.

        reader = StreamReader(settings, jetstream, "MAINSPRING")
        await reader.fix_end()
        async for chunk in reader.chunks(since): ...

    After that `hands` are the instants of runs by hand, `strangers` the ids of messages that are no run, and
    `gone_until` the moment (epoch seconds) before which messages had been removed, None where none had.
    """

    def __init__(self, settings: Settings, jetstream: JetStreamContext, stream: str) -> None:
        self._settings, self._jetstream, self._stream = settings, jetstream, stream
        self._deliveries = Deliveries()
        self.gone_until: int | None = None
        self.messages = 0

    async def fix_end(self) -> None:
        """Take nothing that is stored later: a job may be made meanwhile, and run."""
        self._deliveries.end_seq = (await self._jetstream.stream_info(self._stream)).state.last_seq

    @property
    def hands(self) -> list[int]:
        return self._deliveries.hands

    @property
    def strangers(self) -> list[str]:
        return self._deliveries.strangers

    async def chunks(self, since: int) -> AsyncIterator[Chunk]:
        """All that was stored from `since` (epoch seconds) on. Raises StreamUnreadable."""
        client = _Reading(self._deliveries)
        try:
            async with asyncio.timeout(_CONNECT_S):
                await client.connect(**nats_login(self._settings), allow_reconnect=False, pending_size=0)
                await client.subscribe(client.inbox, cb=self._deliveries.other)
                await client.flush()
            async for chunk in self._read(client, since):
                yield chunk
        except (NatsError, OSError, TimeoutError) as error:
            raise StreamUnreadable(
                f"stream {self._stream} could not be read: {str(error) or error!r}"
            ) from error
        finally:
            with suppress(NatsError, OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_S):
                    await client.close()

    async def _read(self, client: _Reading, since: int) -> AsyncIterator[Chunk]:
        made = await self._jetstream.add_consumer(self._stream, _consumer_from(since))
        if not made.num_pending:
            await self._note_emptied()
            return
        asked, expected, ended = 0, 0, False
        while not ended:
            while asked - self._deliveries.seen < PULL * (_PULLS - 1):
                await client.pull(self._stream, made.name)
                asked += PULL
            if not await self._something_came():
                await self._require_end(client, made.name)
                return
            # Asked in one breath with the taking: while the chunk is looked at, more comes.
            ended = self._deliveries.ended
            chunk = self._deliveries.take()
            await self._note_removed(chunk, expected)
            expected = int(chunk.seqs[-1]) + 1 if len(chunk.seqs) else expected
            self.messages += len(chunk.seqs)
            yield chunk

    async def _something_came(self) -> bool:
        """Wait for it; False where nothing does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_STALL_S):
                await self._deliveries.came.wait()
            return True
        return False

    async def _require_end(self, client: _Reading, consumer: str) -> None:
        """Nothing more comes: good where the last messages have been removed meanwhile, and else not."""
        if not client.is_connected:
            raise ConnectionError("the connection was lost")
        if (await self._jetstream.consumer_info(self._stream, consumer)).num_pending:
            raise TimeoutError(f"no message came for {_STALL_S:.0f} s")

    async def _note_emptied(self) -> None:
        """A stream that holds nothing and once held something may have held anything up to now."""
        state = (await self._jetstream.stream_info(self._stream)).state
        if state.last_seq and not state.messages:
            self.gone_until = int(SystemClock().now())

    async def _note_removed(self, chunk: Chunk, expected: int) -> None:
        """Where numbers are missing in front of or amid the chunk, and the stream now begins behind them."""
        jumps = np.flatnonzero(np.diff(chunk.seqs, prepend=expected - 1) != 1)
        if not len(jumps) or chunk.seqs[jumps[0]] == 1:
            return
        first_seq = (await self._jetstream.stream_info(self._stream)).state.first_seq
        removed = jumps[chunk.seqs[jumps] <= first_seq]
        if len(removed):
            self.gone_until = int(chunk.stored_at[removed[-1]]) + 1


def _consumer_from(since: int) -> ConsumerConfig:
    return ConsumerConfig(
        deliver_policy=DeliverPolicy.BY_START_TIME,
        opt_start_time=datetime.fromtimestamp(since, UTC),
        ack_policy=AckPolicy.NONE,
        headers_only=True,
        inactive_threshold=_IDLE_S,
        mem_storage=True,
    )
