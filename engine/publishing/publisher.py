"""From frames to acknowledged runs: every run has its own acknowledgement, and is sent until it has it.

Bounded: `submit` waits while `max_in_flight` runs are open, which is how a slow broker slows the ticker
and not the memory. What is resent has the same id, so the stream stores it once.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from contextlib import suppress

import numpy as np
from nats.errors import Error as NatsError

from mainspring.engine.broker.connections import Answered, Broker
from mainspring.engine.broker.frame_client import denied_text
from mainspring.engine.broker.stream_reader import StreamUnreadable
from mainspring.engine.clock import Clock
from mainspring.engine.metrics import Metrics
from mainspring.engine.publishing.acknowledged import AcknowledgedRuns
from mainspring.engine.publishing.acks import Acks
from mainspring.engine.publishing.answers import MENDS, Answer, read_answer
from mainspring.engine.publishing.denials import Denials
from mainspring.engine.publishing.frame import message_bytes, run_id, subject
from mainspring.engine.publishing.inflight import RETRY_MAX_S, Batch, InFlight, Stored
from mainspring.wheel import Frames

log = logging.getLogger(__name__)

# A connection that took runs and answered nothing for this long is given up: its reader may be dead.
SILENCE_MAX_S = 12.0
# The stream's memory of ids is counted on for its duplicate window less this, and no longer.
REACH_MARGIN_S = 15.0
# Payloads may be 64 KiB each, so the number of runs alone does not bound the memory.
IN_FLIGHT_BYTES_MAX = 64 * 1024**2

# No frame that the wheel writes is longer, so a server that takes as much takes all.
FRAME_BYTES_MAX = 69_632

_RESEND_PERIOD_S = 0.25
_REMIND_S = 30.0


class BrokerClosed(Exception):
    """The NATS client closed its connection for good, which it does on a refused login or permission."""


class Publisher:
    """Writes frames and counts acknowledgements.

    `on_settled(second, runs)` is told of the runs that are stored, `on_dead(second, run id, reason)` of each
    that can never be. `reach_s`: for how long after a first sending a second one is known to collapse; after
    that the stream is read before anything is sent.
    """

    def __init__(
        self,
        broker: Broker,
        metrics: Metrics,
        clock: Clock,
        *,
        max_in_flight: int,
        reach_s: float,
        on_settled: Callable[[int, int], None],
        on_dead: Callable[[int, str, str], None],
    ) -> None:
        self._broker = broker
        self._metrics = metrics
        self._clock = clock
        self._max_in_flight = max_in_flight
        self._reach_s = reach_s
        self._on_settled = on_settled
        self._on_dead = on_dead
        self._flying = InFlight()
        self._room = asyncio.Event()
        self._closing = False
        self._muted = False
        self._perhaps_stored_until = -math.inf
        self._wake = asyncio.Event()
        self._denials = Denials()
        self._answered_at = self._stored_at = clock.monotonic()
        self._stream_missing = False
        self._refused_for = ""
        self._told: dict[str, float] = {}
        self.acknowledged = AcknowledgedRuns()
        metrics.in_flight.set_function(lambda: self._flying.runs)

    def __repr__(self) -> str:
        return f"Publisher({self._flying!r}, acknowledged={self.acknowledged.count})"

    @property
    def in_flight(self) -> int:
        """Runs that are sent, or wait to be, and not acknowledged."""
        return self._flying.runs

    async def start(self) -> None:
        """Listen for acknowledgements; call once the broker is connected."""
        self._broker.on_ready = self.resend_all
        await self._broker.subscribe_acks(self._on_acks, self._on_answer, self._on_denied)

    def next_number(self) -> int:
        """The reply number that the next submitted frames may begin with, or a multiple of 4096 above it."""
        return self._flying.next_number()

    async def submit(self, frames: Frames) -> None:
        """Send the frames of one piece; returns once they are on their way and bounded in number.

        The buffer is copied, so the caller may fill it again. While the broker is away the frames wait here.
        """
        if len(frames) == 0:
            return
        batch = self._flying.add(
            frames.first,
            frames.second,
            bytes(frames.view()),
            frames.offsets(),
            due_since=frames.due_since,
        )
        self._set_aside_too_large(batch)
        self._send_first(batch)
        while not self._closing and not await self._room_soon():
            pass
        while self._full() and not self._closing:
            self._room.clear()
            await self._room.wait()

    async def run_once(self) -> None:
        """Send again what was not answered in time."""
        if self._broker.closed:
            raise BrokerClosed("the NATS server ended the connection for good; see the log for its reason")
        if self._muted:
            return
        await self._leave_silent_connection()
        await self._mend_stream()
        self._refuse_denied()
        await self._look_up([batch for batch in self._overdue() if self._beyond_reach(batch)])
        for batch in self._overdue():
            if not self._beyond_reach(batch) and await self._room_soon():
                self._send_again(batch)

    async def run(self) -> None:
        """Resend for ever."""
        while True:
            await self.run_once()
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_RESEND_PERIOD_S):
                    await self._wake.wait()

    def mute(self, upto: int) -> None:
        """Send nothing from now on: another node publishes, and has settled what was due up to then."""
        self._muted = True
        for batch in self._flying:
            if batch.second <= upto:
                self._on_settled(batch.second, self._flying.drop(batch))
        self._room.set()

    def unmute(self) -> None:
        """Send again, first of all what is still open."""
        self._muted = False
        self.resend_all()

    def forget(self) -> None:
        """Drop all that is open, told to nobody: its seconds are drained again."""
        for batch in self._flying:
            self._flying.drop(batch)
        self._room.set()

    def look_up_until(self, second: int) -> None:
        """What is due up to this second may be stored already, young as it seems: the clock went back."""
        self._perhaps_stored_until = max(self._perhaps_stored_until, second)

    def stop_waiting(self) -> None:
        """Let `submit` return at once from now on: the node stops, and takes no more runs."""
        self._closing = True
        self._room.set()

    async def drain(self, timeout_s: float) -> int:
        """Wait until all is acknowledged; returns how many runs stayed open at the deadline."""
        deadline = self._clock.monotonic() + timeout_s
        while (
            self._flying.runs
            and not self._muted
            and not self._broker.closed
            and (left := deadline - self._clock.monotonic()) > 0
        ):
            self._room.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, _RESEND_PERIOD_S)):
                    await self._room.wait()
            await self.run_once()
        return self._flying.runs

    def silent_s(self) -> float:
        """For how long runs have waited with nothing stored; 0 while none waits."""
        return self._waited_since(self._stored_at)

    @property
    def refused_for(self) -> str:
        """Why the broker refuses runs, a reason of answers.py; empty while it stores them."""
        return self._refused_for

    def _waited_since(self, event: float) -> float:
        oldest = self._flying.oldest_sent_at()
        return 0.0 if oldest is None else self._clock.monotonic() - max(oldest, event)

    def _full(self) -> bool:
        return self._flying.runs >= self._max_in_flight or self._flying.size >= IN_FLIGHT_BYTES_MAX

    async def _room_soon(self) -> bool:
        """Whether the socket takes more, now or in a moment: it may be stuck, and has to be left then."""
        if self._broker.has_room:
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout(_RESEND_PERIOD_S):
                await self._broker.room()
                return True
        return False

    def _send_first(self, batch: Batch) -> None:
        """What has been due for longer than the stream remembers may have been sent by another node, or an
        earlier one, at its second: it counts as sent then, so that it is looked up before anything is sent.
        """
        age_s = self._clock.now() - batch.due_since
        if age_s <= self._reach_s and batch.second > self._perhaps_stored_until:
            self._send(batch)
            return
        batch.first_sent_at = self._clock.monotonic() - max(age_s, self._reach_s + 1)
        self._wake.set()

    def _send(self, batch: Batch) -> None:
        if batch.left == 0:
            return
        if self._muted:
            batch.resend_at = math.inf
            return
        now = self._clock.monotonic()  # before the write: the stream may know the ids from then on
        if self._broker.write(batch.unacknowledged()):
            batch.sent(now)
        else:
            batch.resend_at = math.inf  # until `resend_all`, which every new connection calls
            self._error("disconnected")

    def resend_all(self) -> None:
        """The connection is new: nothing that was sent on the old one will be answered any more."""
        now = self._clock.monotonic()
        self._answered_at = now
        for batch in self._flying:
            batch.resend_at = now
        self._wake.set()

    def _overdue(self) -> list[Batch]:
        return self._flying.overdue(self._clock.monotonic())

    def _send_again(self, batch: Batch) -> None:
        if batch.left == 0:
            return
        if batch.first_sent_at is not None and not batch.refused:
            if batch.last_sent_at > self._answered_at:
                return  # nothing at all was answered since: more would only queue up behind it
            self._error("timeout")
        batch.refused = ""
        self._send(batch)

    async def _mend_stream(self) -> None:
        """Make the stream again where somebody deleted it; a broker that is not ready yet says the same."""
        if not self._stream_missing or not self._broker.connected:
            return
        self._stream_missing = False
        try:
            await self._broker.ensure_stream()
        except (NatsError, OSError, TimeoutError) as error:
            log.warning("the stream is missing and cannot be made now: %r", error)

    async def _leave_silent_connection(self) -> None:
        now = self._clock.monotonic()
        if self._flying.oldest_sent_at() is None:
            self._answered_at = self._stored_at = now
            return
        if not self._broker.connected:
            self._answered_at = now
            return
        if (silent_s := self._waited_since(self._answered_at)) > SILENCE_MAX_S:
            log.warning("no answer from the broker for %.0f s: reconnecting", silent_s)
            self._answered_at = now
            await self._broker.reconnect()

    def _beyond_reach(self, batch: Batch) -> bool:
        first = batch.first_sent_at
        return first is not None and self._clock.monotonic() - first > self._reach_s

    async def _look_up(self, batches: list[Batch]) -> None:
        """Settle by reading the stream what may be older than its memory of ids; the rest is new, and due."""
        if not batches or not self._broker.connected:
            return
        if not self._broker.stream.keeps_runs:
            self._set_aside_unknown(batches)
            return
        now = self._clock.monotonic()
        oldest = min(batch.first_sent_at for batch in batches if batch.first_sent_at is not None)
        try:
            stored = await self._broker.stored_ids(self._clock.now() - (now - oldest))
        except StreamUnreadable as error:
            log.warning("%d batches of runs stay unsettled: %s", len(batches), error)
            for batch in batches:
                batch.resend_at = now + RETRY_MAX_S
            return
        runs = sum(batch.left for batch in batches)
        for batch in batches:
            self._settle_stored(batch, stored)
            batch.first_sent_at = None
            batch.resend_at = now
        sent = sum(batch.left for batch in batches)
        log.info("looked up %d runs in the stream: it has %d, %d are sent", runs, runs - sent, sent)

    def _settle_stored(self, batch: Batch, stored: set[str]) -> None:
        for index in batch.open():
            if run_id(batch.frame(index)) in stored:
                self._settle(batch, index, duplicate=True)

    def _error(self, reason: str) -> None:
        self._metrics.publish_errors.labels(reason).inc()

    def _on_acks(self, acks: Acks) -> None:
        self._answered_at = self._clock.monotonic()
        for stored in self._flying.cross_off(acks):
            self._note(stored)

    def _on_answer(self, answered: Answered) -> None:
        """Everything but the plain acknowledgements, which come in bulk."""
        self._answered_at = self._clock.monotonic()
        found = self._flying.find(answered.number)
        if found is None:
            return
        batch, index = found
        answer = read_answer(answered.data, answered.status)
        if answer.stored:
            self._settle(batch, index, duplicate=answer.duplicate)
        else:
            self._refused(batch, index, answer)

    def _settle(self, batch: Batch, index: int, *, duplicate: bool) -> None:
        self._flying.settle(batch, index)
        self._note(Stored(batch, 1, int(duplicate), [index]))

    def _on_denied(self, name: str) -> None:
        self._answered_at = now = self._clock.monotonic()
        if self._denials.note(name, now):
            log.warning(denied_text(name))
        self._wake.set()

    def _refuse_denied(self) -> None:
        """The broker names the subject and no run: every open one of it is meant."""
        if not (denied := self._denials.take()):
            return
        for batch in self._flying:
            if batch.first_sent_at is not None:
                self._refuse_denied_of(batch, denied)

    def _refuse_denied_of(self, batch: Batch, denied: Mapping[str, bool]) -> None:
        for index in batch.open():
            never = denied.get(subject(batch.frame(index)).lower())
            if never is None:
                continue
            self._error("no_permission")
            if never:
                self._set_aside(batch, index, "the login may not publish to its subject")
            else:
                batch.refuse("no_permission", self._clock.monotonic())

    def _note(self, stored: Stored) -> None:
        """Tell everybody who counts."""
        batch, runs = stored.batch, stored.runs
        lateness = self._clock.now() - batch.due_since
        self._stored_at = self._clock.monotonic()
        self._refused_for = ""
        self.acknowledged.note(stored, lateness)
        self._metrics.lateness.observe(lateness, runs)
        self._metrics.acknowledged.inc(runs)
        if stored.duplicates:
            self._metrics.duplicate.inc(stored.duplicates)
        self._on_settled(batch.second, runs)
        if not self._full():
            self._room.set()

    def _refused(self, batch: Batch, index: int, answer: Answer) -> None:
        self._error(answer.reason)
        if answer.permanent:
            self._set_aside(batch, index, answer.text)
            return
        self._refused_for = answer.reason
        self._tell(answer)
        self._stream_missing = self._stream_missing or answer.reason == "no_responders"
        batch.refuse(answer.reason, self._clock.monotonic())

    def _tell(self, answer: Answer) -> None:
        """Once in a while: where some runs are stored between those refused, each would be news."""
        now = self._clock.monotonic()
        if now - self._told.get(answer.reason, -math.inf) < _REMIND_S:
            return
        self._told[answer.reason] = now
        mend = f". Mend: {MENDS[answer.reason]}" if answer.reason in MENDS else ""
        log.warning("the broker refuses runs (%s); they are sent again%s", answer.text, mend)

    def _set_aside_too_large(self, batch: Batch) -> None:
        """A message over the server's limit would cost the connection, and with it every other run."""
        limit = self._broker.max_payload
        if limit >= FRAME_BYTES_MAX:
            return
        for index in np.flatnonzero(np.diff(batch.offsets) > limit).tolist():
            if (size := message_bytes(batch.frame(index))) > limit:
                self._set_aside(
                    batch, index, f"its {size} bytes are over the server's max_payload of {limit}"
                )

    def _set_aside_unknown(self, batches: list[Batch]) -> None:
        """Sent (again) they might be stored twice, and while they wait no second after theirs is settled."""
        for batch in batches:
            for index in batch.open():
                self._set_aside(
                    batch, index, "whether it is stored cannot be looked up in a stream of its retention"
                )

    def _set_aside(self, batch: Batch, index: int, reason: str) -> None:
        self._metrics.dead_letters.inc()
        self._flying.settle(batch, index)
        self._on_dead(batch.second, run_id(batch.frame(index)), reason)
        self._room.set()
