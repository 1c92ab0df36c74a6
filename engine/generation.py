"""A loaded wheel with the loops that work on it.

When the cursor of the change log turns out void, the jobs are loaded again beside the firing.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final

import asyncpg

from mainspring.changelog_tailer import (
    LOST,
    ChangeLogError,
    Cursor,
    CursorVoid,
    Rows,
    Tailer,
    close,
    connect,
    costs_little,
)
from mainspring.changelog_tailer.backoff import Backoff
from mainspring.engine.broker.bucket import Bucket
from mainspring.engine.checks.digests import Digests
from mainspring.engine.clock import Clock
from mainspring.engine.conductor import LATE_S, Conductor
from mainspring.engine.failover.clock_guard import ClockGuard
from mainspring.engine.failover.recovery import RecoveryPoint
from mainspring.engine.failover.standby import Follower
from mainspring.engine.intake.applier import Applier
from mainspring.engine.intake.catching import Catching
from mainspring.engine.intake.changes import ChangeQueue
from mainspring.engine.intake.loading import Loaded
from mainspring.engine.intake.reloading import Reload
from mainspring.engine.metrics import Metrics
from mainspring.engine.publishing.inflight import FRAMES_MAX
from mainspring.engine.publishing.publisher import Publisher
from mainspring.engine.publishing.settlement import Settlement
from mainspring.engine.stopping import run_beside, unless_stopped
from mainspring.engine.watchdog import Watchdog
from mainspring.wheel import ManualClock, Ticker

log = logging.getLogger(__name__)

NO_GATE: Final = 2**63 - 1
_SURE_LOOK_S: Final = 0.02


class Generation:
    """Conductor, ticker, tailer and watchdog of one wheel.

    sure: whether it is known which part this node has; false amid a lapse of its lease.
    """

    def __init__(
        self,
        loaded: Loaded,
        publisher: Publisher,
        settlement: Settlement[Cursor],
        *,
        clock: Clock,
        metrics: Metrics,
        threads: Executor,
        bucket: Bucket,
        guard: ClockGuard,
        window_s: float,
        watchdog_period_s: float,
        tailer_options: dict[str, Any],
        sure: Callable[[], bool],
    ) -> None:
        self.wheel = loaded.wheel
        self._decoder = loaded.decoder
        self._guard = guard
        self._window_s = window_s
        self._bucket = bucket
        self._tailer_options = tailer_options
        self._sure = sure
        self._following: Callable[[RecoveryPoint], None] | None = None
        self._turned = asyncio.Event()
        self.quarantine = loaded.quarantine
        self._clock = clock
        self._threads = threads
        self._judge = loaded.judge
        self._changes = ChangeQueue(loaded.cursor)
        self._changes.preload(loaded.owed_changes, loaded.tail_from)
        self.digests = Digests(self.wheel, self._changes)
        self.tailer = self._new_tailer(loaded.tail_from)
        self._applier = Applier(self.wheel, self.quarantine, metrics, threads)
        self._applier.count_jobs()
        self._ticker = ticker = Ticker(
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
            applier=self._applier,
            clock=clock,
            metrics=metrics,
            read_changes=self._read_changes,
        )
        self._catching = Catching(self._changes)
        self._void: CursorVoid | None = None
        self._watchdog = Watchdog(self.wheel, metrics, threads, period_s=watchdog_period_s)

    async def run(self) -> None:
        """Until `stop`. Raises `ClockWentBack`, and `CursorVoid` where this node follows, when the jobs have
        to be loaded again, and any loop's error.

        What the ticker has drained is out of the wheel: it all goes to the publisher before this returns.
        """
        watching = self._guard.watch(self._ticker, lambda: self.wheel.now, window_s=self._window_s)
        await run_beside(self._conductor.run(), self._tail(), self._watchdog.run(), watching)
        if self._void is not None:
            raise self._void

    async def _tail(self) -> None:
        try:
            while True:
                self._turned.clear()
                await unless_stopped(self._read_on(), self._turned)
        except CursorVoid as void:
            self._void = void
            self._conductor.stop()

    async def _read_on(self) -> None:
        """The whole log where this node leads; what the leading one has applied where it follows."""
        if self._following is not None:
            await self._follower(self._following).run()
            return
        while True:
            try:
                await self.tailer.run()
            except CursorVoid as void:
                await self._load_beside_the_firing(void)

    async def _load_beside_the_firing(self, void: CursorVoid) -> None:
        log.warning("loading the jobs again, beside the firing: %s", void)
        self.tailer.last_error = str(void)
        await self.tailer.aclose()
        self.tailer = self._new_tailer(await self._reload())
        self._applier.count_jobs()  # who left quarantine without a row is counted by no batch

    async def _reload(self) -> Cursor:
        """Where to tail on, once every difference is on its way; tried for as long as Postgres is away."""
        backoff = Backoff(self._tailer_options["retry_cap_s"])
        while True:
            try:
                return await self._reload_once()
            except (*LOST, ChangeLogError) as error:
                pause_s = backoff.failed(cheap=costs_little(error))
                log.warning(
                    "jobs not loaded again (%s); trying again in %.1f s", str(error) or repr(error), pause_s
                )
                await asyncio.sleep(pause_s)

    async def _reload_once(self) -> Cursor:
        connection = await self._connect_to_log()
        reload = Reload(
            self.wheel,
            self.quarantine,
            self._judge,
            self._decoder,
            self._changes,
            threads=self._threads,
            began_at=self._clock.now(),
            void=self.tailer.cursor,
        )
        try:
            return await reload.run(connection)
        finally:
            await close(connection)

    async def _connect_to_log(self) -> asyncpg.Connection:
        options = self._tailer_options
        return await connect(options["dsn"], ssl_context=options["ssl_context"])

    # ------------------------------------------------------------------------------ leading, following

    async def lead(self) -> None:
        """Drain each second as it begins, and read the log to its end: first of all where another has led,
        since what it applied and settled not yet must be known before its seconds are drained again.
        """
        if self._following is not None:
            self.tailer = self._new_tailer(self._read_upto)
            self._following = None
            self._turned.set()
            await self._catch_up(0.0)
        self._ticker.gate = NO_GATE

    def follow(self, arrive: Callable[[RecoveryPoint], None]) -> None:
        """Drain up to where another node is, and apply what that has applied: `arrive` is told of it, and
        opens the gate.
        """
        self._following = arrive
        self._ticker.gate = self.wheel.now
        self._turned.set()

    def open_gate(self, second: int) -> None:
        """Let the seconds up to this one be drained."""
        if self._following is not None:
            self._ticker.gate = max(self._ticker.gate, second)

    def _new_tailer(self, cursor: Cursor) -> Tailer:
        self._read_upto = cursor
        return Tailer(cursor=cursor, sink=self._take, decoder=self._decoder, **self._tailer_options)

    def _follower(self, arrive: Callable[[RecoveryPoint], None]) -> Follower:
        return Follower(
            self._bucket,
            self._connect_to_log,
            self._decoder,
            self._read_upto,
            sink=self._take_followed,
            arrive=arrive,
        )

    async def _take_followed(self, rows: Rows, cursor: Cursor, upto: int) -> None:
        if self._changes.full:  # its rows wait for the seconds before them
            self.open_gate(min(upto, self._changes.newest - 1))
        await self._take(rows, cursor)

    def stop(self) -> None:
        """End `run` after what is being drained."""
        self._conductor.stop()

    async def aclose(self) -> None:
        """End the connections to Postgres."""
        await self.tailer.aclose()

    async def _take(self, rows: Rows, cursor: Cursor) -> None:
        await self._changes.put(self._judge.judge(rows), cursor)
        self._read_upto = cursor

    async def _read_changes(self, late_s: float) -> bool:
        """Wait for the log to be read to its end, for a bounded time; late_s as in `Catching.up`.

        False where this node follows: what is late is another's to give. One that has stood still learns only
        now whether it was deposed.
        """
        while self._following is None and not self._sure():
            await asyncio.sleep(_SURE_LOOK_S)
        if self._following is not None:
            return False
        await self._catch_up(late_s)
        return True

    async def _catch_up(self, late_s: float) -> None:
        if not await self._catching.up(self.tailer, late_s):
            log.warning("the change log does not answer: firing what is known")
