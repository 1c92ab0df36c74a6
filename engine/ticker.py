"""The conductor: the only writer of the wheel's time.

It alternates two things, applying the changes that are ready and draining the next second, so that neither
ever happens inside the other. Every second since the last is drained, in order, and none twice, whatever
the wall clock does: after a step back it waits for the clock to come past the last second again.
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import suppress

from mainspring.changelog_tailer import Cursor
from mainspring.engine.applier import Applier
from mainspring.engine.changes import ChangeQueue
from mainspring.engine.clock import Clock
from mainspring.engine.metrics import Metrics
from mainspring.engine.publisher import Publisher
from mainspring.engine.settlement import Settlement
from mainspring.wheel import Frames, Wheel

log = logging.getLogger(__name__)

# From this lateness on, what changed meanwhile is read before the owed seconds are drained.
LATE_S = 3
_SKIPPED = {
    "window": "age (catch_up = all reaches back catch_up_window_s, or one gap over an hour)",
    "latest": "a newer missed run (catch_up = latest)",
    "none": "catch_up = none",
}
# A bulk change is applied in stretches of this length, so that it delays no tick by more.
APPLY_BUDGET_S = 0.05
# A step back of the wall clock by this much is told.
_STEP_BACK_S = 2


class Ticker:
    """Drains `wheel` into `publisher`, one second after the other.

    `read_changes` reads the change log up to now, or gives up after a bounded time: a lost Postgres never
    stops the firing.
    """

    def __init__(
        self,
        wheel: Wheel,
        publisher: Publisher,
        settlement: Settlement[Cursor],
        changes: ChangeQueue,
        applier: Applier,
        *,
        clock: Clock,
        metrics: Metrics,
        threads: Executor,
        read_changes: Callable[[], Awaitable[None]],
    ) -> None:
        self._wheel = wheel
        self._publisher = publisher
        self._settlement = settlement
        self._changes = changes
        self._applier = applier
        self._clock = clock
        self._metrics = metrics
        self._threads = threads
        self._read_changes = read_changes
        self._frames = Frames()
        self._fresh_until = wheel.now
        self._stopping = False
        self._skipped: Counter[str] = Counter()

    async def run(self) -> None:
        """Tick until `stop`."""
        while not self._stopping:
            if not await self.run_once():
                await self._wait()

    def stop(self) -> None:
        """End `run` after the piece that is being drained."""
        self._stopping = True
        self._changes.arrived.set()

    async def run_once(self) -> bool:
        """Apply some changes and drain one second, where there are such; False when idle."""
        now = self._clock.now()
        await self._refresh_when_late(now)
        applied = await self._apply_for(APPLY_BUDGET_S, int(now))
        drained = await self._drain_next(int(now))
        return applied or drained

    async def _refresh_when_late(self, now: float) -> None:
        """Once a stall: what changed during it must be known before its seconds are drained."""
        if self._wheel.now < self._fresh_until or int(now) - self._wheel.now <= LATE_S:
            return
        log.warning("%d seconds are owed, from %d on", int(now) - self._wheel.now, self._wheel.now + 1)
        await self._read_changes()
        # What is not read yet, because so much waits to be applied, was changed after the newest that waits.
        self._fresh_until = min(int(now), self._changes.newest) if self._changes.full else int(now)

    async def _apply_for(self, budget_s: float, now: int) -> bool:
        """Apply what is ready, but no longer than the next tick can bear."""
        until = self._clock.monotonic() + budget_s
        applied = False
        while self._clock.monotonic() <= until and await self._apply(now):
            applied = True
        return applied

    async def _apply(self, now: int) -> bool:
        batch = self._changes.ready(self._wheel.now, now)
        if batch is None:
            return False
        await self._applier.apply(batch)
        self._changes.applied(len(batch))
        self._metrics.change_lag.set(max(0.0, self._clock.now() - float(batch.changed_at[-1])))
        return True

    async def _drain_next(self, now: int) -> bool:
        second = self._wheel.now + 1
        if second > now or self._must_apply_first(second, now):
            return False
        started = self._clock.monotonic()
        self._settlement.begin(second, self._changes.cursor)
        while not await self._drain_piece(second, now):
            if self._stopping:  # the rest of this second is left to the next start: it is not settled
                return True
        self._settlement.drained(second)
        self._metrics.tick.observe(self._clock.monotonic() - started)
        if second == now:
            self._tell_skipped()
        return True

    def _tell_skipped(self) -> None:
        """Once the owed seconds are worked through: what catch-up left out must not go unseen."""
        if skipped := +self._skipped:
            reasons = ", ".join(f"{count} by {_SKIPPED[reason]}" for reason, count in skipped.items())
            log.warning("missed runs that are not owed any more: %s", reasons)
        self._skipped.clear()

    def _must_apply_first(self, second: int, now: int) -> bool:
        """Late, changes go before the seconds that follow them; on time a bulk change delays no tick."""
        return now - second >= LATE_S and self._changes.ready(self._wheel.now, now) is not None

    async def _drain_piece(self, second: int, now: int) -> bool:
        frames = self._frames
        frames.reset(self._publisher.next_number())
        loop = asyncio.get_running_loop()
        complete = await loop.run_in_executor(self._threads, self._wheel.drain, second, now, frames)
        self._metrics.due.inc(frames.due)
        for reason, count in frames.skipped.items():
            self._metrics.skipped.labels(reason).inc(count)
            self._skipped[reason] += count
        self._settlement.owe(second, len(frames))
        await self._publisher.submit(frames)
        return complete

    async def _wait(self) -> None:
        """Sleep until the next second begins or a change arrives."""
        now = self._clock.now()
        if now < self._wheel.now - _STEP_BACK_S:
            log.warning("the clock is %.0f s behind the last second drained: waiting", self._wheel.now - now)
        next_second = max(math.floor(now) + 1, min(self._wheel.now + 1, math.floor(now) + 5))
        self._changes.arrived.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(next_second - now):
                await self._changes.arrived.wait()
