"""The conductor: what goes on beside the tick thread, on the event loop.

The tick thread (`mainspring.wheel.Ticker`) drains every second as it begins, in order and none twice, and
asks nobody. The conductor takes its pieces to the publisher, applies changes, and answers when a late second
asks for its permit: then what changed meanwhile is read, and applied at its place, before that second.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Protocol

from mainspring.changelog_tailer import Cursor
from mainspring.engine.clock import Clock
from mainspring.engine.intake.applier import Applier
from mainspring.engine.intake.changes import ChangeQueue
from mainspring.engine.marks import Marks
from mainspring.engine.metrics import Metrics
from mainspring.engine.publishing.settlement import Settlement
from mainspring.engine.stopping import run_beside
from mainspring.wheel import Frames, Piece, Ticker, Wheel

log = logging.getLogger(__name__)

# From this lateness on, what changed meanwhile is read before the owed seconds are drained.
LATE_S = 3
_SKIPPED = {
    "window": "age (catch_up = all reaches back catch_up_window_s, or one gap over an hour)",
    "latest": "a newer missed run (catch_up = latest)",
    "none": "catch_up = none",
}
# From this many owed seconds on that lie beyond catch-up the wheel leaps: it looks at each job once, which
# costs as much as to drain some minutes.
LEAP_LEAST_S = 300
_LEAP_TRIES = 5
_LEAP_PAUSE_S = 0.25
# A step back of the wall clock by this much is told, each time that nothing has happened for so long.
_STEP_BACK_S = 2
_QUIET_S = 5


class Taking(Protocol):
    """What the conductor asks of the publisher."""

    async def submit(self, frames: Frames) -> None:
        """Take over the runs; wait while there are too many."""
        ...


class Conductor:
    """Leads one wheel through its seconds, with a ticker that has been made for it and not started.

    `read_changes` reads the change log up to now, or gives up after a bounded time: a lost Postgres never
    stops the firing. It is told for how long, in seconds, the first owed second has waited, and says whether
    the owed seconds are this node's to give.
    """

    def __init__(
        self,
        wheel: Wheel,
        ticker: Ticker,
        publisher: Taking,
        settlement: Settlement[Cursor],
        changes: ChangeQueue,
        *,
        applier: Applier,
        clock: Clock,
        metrics: Metrics,
        read_changes: Callable[[float], Awaitable[bool]],
    ) -> None:
        self._wheel = wheel
        self._ticker = ticker
        self._publisher = publisher
        self._settlement = settlement
        self._changes = changes
        self._applier = applier
        self._clock = clock
        self._metrics = metrics
        self._read_changes = read_changes
        self._marks = Marks(changes.cursor)
        self._rung = asyncio.Event()
        self._fresh_until = wheel.now
        self._refused = 0
        self._skipped: Counter[str] = Counter()

    async def run(self) -> None:
        """Until `stop`; what was drained by then is with the publisher. Raises what ended the ticker."""
        loop = asyncio.get_running_loop()
        bell = self._ticker.fileno()
        loop.add_reader(bell, self._hear)
        try:
            self._ticker.start()
            await run_beside(self._publish(), self._conduct())
        finally:
            loop.remove_reader(bell)
            self._ticker.close()

    def stop(self) -> None:
        """End `run` after the piece that is being drained."""
        self._ticker.stop()

    def _hear(self) -> None:
        self._ticker.hear()
        self._rung.set()
        self._changes.arrived.set()  # a second more is drained, or waits for its permit

    # ------------------------------------------------------------------------ from ticker to publisher

    async def _publish(self) -> None:
        ended = False
        while not ended:
            await self._rung.wait()
            self._rung.clear()
            ended = self._ticker.ended  # asked before the ring is emptied: nothing comes after it
            self._tell_refusals()
            while (piece := self._ticker.take()) is not None:
                await self._hand_over(piece)
        if (error := self._ticker.error) is not None:
            raise error

    async def _hand_over(self, piece: Piece) -> None:
        second = piece.second
        self._settlement.begin(second, self._marks.cursor_at(piece.mark))
        if second > self._settlement.elsewhere:
            self._settlement.owe(second, len(piece))
            self._count(piece)
            await self._publisher.submit(piece)
        if piece.whole:
            self._settlement.drained(second, in_time=piece.late_s < LATE_S)
        self._ticker.give_back(piece)

    def _count(self, piece: Piece) -> None:
        self._metrics.due.inc(piece.due)
        for reason, count in piece.skipped.items():
            self._metrics.skipped.labels(reason).inc(count)
            self._skipped[reason] += count
        self._settlement.skip(piece.second, piece.skipped, piece.skipped_span)
        if piece.whole:
            self._metrics.tick.observe(piece.took_s)
            self._metrics.tick_lateness.observe(piece.late_s)
            if piece.late_s < LATE_S:
                self._tell_skipped()

    def _tell_skipped(self) -> None:
        """Once the owed seconds are worked through: what catch-up left out must not go unseen."""
        if skipped := +self._skipped:
            reasons = ", ".join(f"{count} by {_SKIPPED[reason]}" for reason, count in skipped.items())
            log.warning("missed runs that are not owed any more: %s", reasons)
        self._skipped.clear()

    def _tell_refusals(self) -> None:
        if self._ticker.refused > self._refused:
            self._refused = self._ticker.refused
            log.error("no memory to drain second %d: trying again", self._wheel.now + 1)

    # ---------------------------------------------------------------------------- changes and permits

    async def _conduct(self) -> None:
        while True:
            self._changes.arrived.clear()
            await self._apply_ready()
            if self._ticker.waits_for == "permit":
                await self._permit(self._wheel.now + 1)
            try:
                async with asyncio.timeout(_QUIET_S):
                    await self._changes.arrived.wait()
            except TimeoutError:
                self._tell_step_back()

    async def _apply_ready(self) -> None:
        """Apply what may be applied now, beside the second that is being drained, if there is one."""
        while True:
            self._ticker.mark = self._marks.note(self._changes.cursor)
            batch = self._changes.ready(self._wheel.now, int(self._clock.now()))
            if batch is None:
                return
            await self._applier.apply(batch)
            self._changes.applied(len(batch))
            self._metrics.change_lag.set(max(0.0, self._clock.now() - float(batch.changed_at[-1])))

    async def _permit(self, second: int) -> None:
        """Let the owed seconds from this one on be drained, up to that in which the next change was made."""
        if second > self._fresh_until:
            await self._refresh(second)
        # Again: the second before this one may have been drained since the last look.
        await self._apply_ready()
        owed_until = self._changes.owed_until
        last = self._fresh_until if owed_until is None else min(self._fresh_until, owed_until)
        await self._leap(second, last)
        self._ticker.permit(max(self._wheel.now + 1, last))

    async def _leap(self, second: int, last: int) -> None:
        """Pass over the seconds from this one on that lie beyond catch-up, if they are many.

        What they owe comes with the one after them, so that one has to be among those that may be drained.
        """
        now = int(self._clock.now())
        to = min(last - 1, self._ticker.gate - 1, self._wheel.farthest_leap(now))
        if to - second >= LEAP_LEAST_S and await self._leapt(to, now):
            log.warning("%d seconds lie beyond catch-up: their runs are counted", to - second + 1)
            self._settlement.leapt(second, to)

    async def _leapt(self, to: int, now: int) -> bool:
        for _ in range(_LEAP_TRIES - 1):
            try:
                return await asyncio.to_thread(self._ticker.leap, to, now)
            except MemoryError:
                await asyncio.sleep(_LEAP_PAUSE_S)
        return await asyncio.to_thread(self._ticker.leap, to, now)

    async def _refresh(self, second: int) -> None:
        """Once a stall: what changed during it must be known before its seconds are drained."""
        now = int(self._clock.now())
        if await self._read_changes(now - second):
            log.warning("%d seconds are owed, from %d on", now - second + 1, second)
        # What is not read yet, because so much waits to be applied, was changed after the newest that waits.
        self._fresh_until = min(now, self._changes.newest) if self._changes.full else now

    def _tell_step_back(self) -> None:
        behind_s = self._wheel.now - self._clock.now()
        if behind_s > _STEP_BACK_S:
            log.warning("the clock is %.0f s behind the last second drained: waiting", behind_s)
