"""One loading of the wheel with the loops that work on it.

When the cursor of the change log turns out void, the node ends this generation and makes the next.
"""

import asyncio
import logging
from concurrent.futures import Executor
from typing import Any

from mainspring.changelog_tailer import Cursor, CursorVoid, Rows, Tailer
from mainspring.engine.applier import Applier
from mainspring.engine.changes import ChangeQueue
from mainspring.engine.clock import Clock
from mainspring.engine.conductor import LATE_S, Conductor
from mainspring.engine.digests import Digests
from mainspring.engine.inflight import FRAMES_MAX
from mainspring.engine.loading import Loaded
from mainspring.engine.metrics import Metrics
from mainspring.engine.publisher import Publisher
from mainspring.engine.settlement import Settlement
from mainspring.engine.stopping import run_beside
from mainspring.engine.watchdog import Watchdog
from mainspring.wheel import ManualClock, Ticker

log = logging.getLogger(__name__)

# How long a late tick waits for the change log: a lost Postgres never stops the firing.
REFRESH_TIMEOUT_S = 3.0
_REFRESH_LOOK_S = 0.02


class Generation:
    """Conductor, ticker, tailer and watchdog of one wheel."""

    def __init__(
        self,
        loaded: Loaded,
        publisher: Publisher,
        settlement: Settlement[Cursor],
        *,
        clock: Clock,
        metrics: Metrics,
        threads: Executor,
        watchdog_period_s: float,
        tailer_options: dict[str, Any],
    ) -> None:
        self.wheel = loaded.wheel
        self.quarantine = loaded.quarantine
        self._judge = loaded.judge
        self._changes = ChangeQueue(loaded.cursor)
        self._changes.preload(loaded.owed_changes, loaded.tail_from)
        self.digests = Digests(self.wheel, self._changes)
        self.tailer = Tailer(
            cursor=loaded.tail_from, sink=self._take, decoder=loaded.decoder, **tailer_options
        )
        applier = Applier(self.wheel, self.quarantine, metrics, threads)
        applier.count_jobs()
        ticker = Ticker(
            self.wheel,
            late_after_s=LATE_S,
            first=publisher.next_number(),
            max_frames=FRAMES_MAX,
            clock=clock if isinstance(clock, ManualClock) else None,
        )
        self._conductor = Conductor(
            self.wheel,
            ticker,
            publisher,
            settlement,
            self._changes,
            applier=applier,
            clock=clock,
            metrics=metrics,
            read_changes=self._read_changes,
        )
        self._void: CursorVoid | None = None
        self._watchdog = Watchdog(self.wheel, metrics, threads, period_s=watchdog_period_s)

    async def run(self) -> None:
        """Until `stop`. Raises `CursorVoid` when the jobs have to be loaded again, and any loop's error.

        What the ticker has drained is out of the wheel: it all goes to the publisher before this returns.
        """
        await run_beside(self._conductor.run(), self._tail(), self._watchdog.run())
        if self._void is not None:
            raise self._void

    async def _tail(self) -> None:
        try:
            await self.tailer.run()
        except CursorVoid as void:
            self._void = void
            self._conductor.stop()

    def stop(self) -> None:
        """End `run` after what is being drained."""
        self._conductor.stop()

    async def aclose(self) -> None:
        """End the connections to Postgres."""
        await self.tailer.aclose()

    async def _take(self, rows: Rows, cursor: Cursor) -> None:
        await self._changes.put(self._judge.judge(rows), cursor)

    async def _read_changes(self) -> None:
        """Wait for a reading of the log that began after this call, unless the log cannot be read now."""
        loop = asyncio.get_running_loop()
        called_at = loop.time()
        if self.tailer.last_error is not None:
            return
        self.tailer.wake()
        while loop.time() - called_at < REFRESH_TIMEOUT_S:
            if self.tailer.polled_at is not None and self.tailer.polled_at >= called_at:
                return
            if self._changes.full:
                return
            await asyncio.sleep(_REFRESH_LOOK_S)
        log.warning("the change log did not answer within %.0f s: firing what is known", REFRESH_TIMEOUT_S)
