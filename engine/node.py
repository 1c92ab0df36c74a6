"""The node: composes the parts, from the first connection to the orderly end."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from nats.errors import Error as NatsError

from mainspring.changelog_tailer import LOST, ChangeLogError, Cursor, CursorVoid, close, connect, costs_little
from mainspring.changelog_tailer.backoff import Backoff
from mainspring.changelog_tailer.connection import server_time, session
from mainspring.engine.broker.bucket import Bucket, BucketUnfit
from mainspring.engine.broker.connections import Broker
from mainspring.engine.clock import Clock, SystemClock
from mainspring.engine.config import Settings
from mainspring.engine.failover.clock_guard import AGREES_S, ClockGuard, ClockWentBack
from mainspring.engine.failover.gaps import NOT_COUNTED, OWED_MAX_S, START, Gap
from mainspring.engine.failover.handover import Handover
from mainspring.engine.failover.lease import Lease
from mainspring.engine.failover.recovery import RecoveryPoint, RecoveryWriter, read_recovery_point
from mainspring.engine.generation import Generation
from mainspring.engine.intake.loading import Loaded, Loader
from mainspring.engine.metrics import Metrics
from mainspring.engine.publishing.acknowledged import Acknowledged
from mainspring.engine.publishing.dead_letters import DeadLetters
from mainspring.engine.publishing.publisher import REACH_MARGIN_S, SILENCE_MAX_S, Publisher
from mainspring.engine.publishing.settlement import Settlement
from mainspring.engine.stopping import run_beside, unless_stopped
from mainspring.engine.tls import postgres_tls
from mainspring.engine.web import Web
from mainspring.wheel import Wheel

log = logging.getLogger(__name__)

# One thread applies, one sweeps; the ticker has its own. The wheel's locks are per shard: they seldom meet.
_THREADS = 2
# What is silent may be slow; what refuses has said so, and may still be on its way to being ready.
REFUSED_MAX_S = 3.0
_LOADED = "loaded"
_WAITING = "waiting for the lease"
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """What the node looks like now. recent: acknowledged runs, newest last. behind_s: of the watermark."""

    ready: bool = False
    active: bool = False
    jobs: int = 0
    acknowledged: int = 0
    duplicates: int = 0
    in_flight: int = 0
    watermark: int | None = None
    behind_s: int = 0
    lateness_p50_s: float = 0.0
    lateness_p99_s: float = 0.0
    recent: list[Acknowledged] = field(default_factory=list)
    quarantined: int = 0
    postgres_connected: bool = False
    broker_connected: bool = False


class Node:
    """`start`, then `run_until`, then `aclose`; each once, `aclose` whatever happened before.

    resume: go on from the recovery point; without it the first second is the present one. lease: publish only
    while no other node of the instance does; without it this one publishes regardless.
    """

    def __init__(
        self, settings: Settings, clock: Clock | None = None, *, resume: bool = True, lease: bool = True
    ) -> None:
        self._settings = settings
        self._resume = resume
        self._clock = clock or SystemClock()
        self._metrics = Metrics()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="wheel")
        self._broker = Broker(settings)
        self._guard = ClockGuard(self._clock, {"Postgres": self._postgres_now, "NATS": self._broker.now})
        self._lease = (
            Lease(self._broker.options("lease"), bucket=settings.instance, clock=self._clock)
            if lease
            else None
        )
        self._web = Web(
            self._metrics,
            self._why_not_ready,
            lambda: self._generation.digests if self._generation else None,
            host=settings.http_host,
            port=settings.http_port,
        )
        self._phase = "starting"
        self._publisher: Publisher | None = None
        self._dead_letters: DeadLetters | None = None
        self._settlement: Settlement[Cursor] | None = None
        self._generation: Generation | None = None
        self._recovery: RecoveryWriter | None = None
        self._handover: Handover | None = None

    @property
    def url(self) -> str:
        """Where the node serves HTTP."""
        return self._web.url

    async def start(self) -> None:
        """Connect, read the recovery point, load the jobs; waits for servers that are away.

        Raises `PortTaken`, `StreamUnfit`, `BucketUnfit` and `RecoveryPointDamaged`.
        """
        await self._web.start()
        self._phase = "connecting to NATS"
        if self._lease is not None:
            self._broker.publish_under(self._lease)
        await self._broker.connect()
        window_s, bucket = await self._open_stream()
        self._phase = "waiting for a second clock that agrees"
        await self._guard.settle()
        self._phase = _WAITING
        point = await self._first_point(bucket)
        self._phase = "loading jobs"
        watermark = self._first_watermark(point)
        loaded = await self._load(watermark, point)
        await self._compose(loaded, bucket, watermark, window_s)
        self._tell_of_the_past(point, watermark)
        if self._lease is not None:
            self._lease.want()
            self._phase = _WAITING
            await self._lease.looked()
        self._phase = _LOADED
        stream = self._broker.stream
        log.info("ready: stream %s, subjects %s, HTTP on %s", stream.name, stream.subjects, self.url)

    async def run_until(self, stop: asyncio.Event) -> None:
        """Fire until `stop` is set, then end the present second. Raises when a part of the node fails."""
        if (
            self._publisher is None
            or self._recovery is None
            or self._handover is None
            or self._dead_letters is None
        ):
            raise RuntimeError("start the node first")
        await self._handover.begin()
        await run_beside(
            self._run_generations(stop),
            self._publisher.run(),
            self._dead_letters.run(),
            self._recovery.run(),
            self._handover.run(),
            self._stop_when(stop),
        )

    async def aclose(self) -> None:
        """Drain what is in flight until the deadline, write the recovery point, close; say what is left."""
        self._phase = "stopping"
        async with AsyncExitStack() as last_to_first:  # whatever one of them raises, the others are done
            last_to_first.callback(self._threads.shutdown, wait=True)
            last_to_first.push_async_callback(self._web.aclose)
            last_to_first.push_async_callback(self._broker.aclose)
            if self._lease is not None:
                last_to_first.push_async_callback(self._lease.aclose)
            if self._recovery is not None:
                last_to_first.push_async_callback(self._recovery.run_once)
            if self._dead_letters is not None:
                last_to_first.push_async_callback(self._dead_letters.run_once)
            if self._publisher is not None:
                last_to_first.push_async_callback(self._drain, self._publisher)
            if self._generation is not None:
                last_to_first.push_async_callback(self._generation.aclose)
        log.info("stopped: %d runs acknowledged", self.status().acknowledged)

    async def _drain(self, publisher: Publisher) -> None:
        if self._handover is None or not self._handover.leads:
            return  # what is open is another's to publish
        if left := await publisher.drain(self._settings.drain_timeout_s):
            log.warning("%d runs stayed without acknowledgement; the next start sends them again", left)

    def status(self) -> NodeStatus:
        """The node as it is now, also before `start` and after `aclose`."""
        if self._publisher is None or self._settlement is None or self._generation is None:
            return NodeStatus(broker_connected=self._broker.connected)
        publisher, generation = self._publisher, self._generation
        median, high = publisher.acknowledged.lateness_quantiles()
        return NodeStatus(
            ready=not self._why_not_ready(),
            active=self._active(),
            jobs=len(generation.wheel),
            acknowledged=publisher.acknowledged.count,
            duplicates=publisher.acknowledged.duplicates,
            in_flight=publisher.in_flight,
            watermark=self._settlement.watermark,
            behind_s=max(0, int(self._clock.now()) - self._settlement.watermark),
            lateness_p50_s=median,
            lateness_p99_s=high,
            recent=publisher.acknowledged.last(),
            quarantined=len(generation.quarantine),
            postgres_connected=generation.tailer.last_error is None,
            broker_connected=self._broker.connected,
        )

    def _why_not_ready(self) -> str:
        if self._guard.doubt:
            return self._guard.doubt
        trouble = f": {self._broker.trouble}" if self._broker.trouble else ""
        if self._phase != _LOADED or self._publisher is None or self._handover is None:
            phase = self._with_trouble(self._phase) if self._phase == _WAITING else self._phase
            return phase + trouble
        if not self._broker.connected:
            return f"NATS is away{trouble}"
        if not self._handover.leads:
            return ""
        return self._why_not_publishing(self._publisher, self._handover)

    def _with_trouble(self, text: str) -> str:
        trouble = self._lease.trouble if self._lease is not None else ""
        return f"{text}: {trouble}" if trouble else text

    def _why_not_publishing(self, publisher: Publisher, handover: Handover) -> str:
        if not handover.active:
            return self._with_trouble("the lease has lapsed, and NATS does not take its renewal")
        silent_s, refused_for = publisher.silent_s(), publisher.refused_for
        if silent_s <= (REFUSED_MAX_S if refused_for else SILENCE_MAX_S):
            return ""
        return f"no run was stored for {silent_s:.0f} s" + (f" ({refused_for})" if refused_for else "")

    def _active(self) -> bool:
        return self._handover is not None and self._handover.active and self._phase == _LOADED

    async def _open_stream(self) -> tuple[float, Bucket]:
        """The stream's duplicate window, and the bucket; waits until JetStream is ready."""
        backoff = Backoff(self._settings.retry_cap_s)
        while True:
            try:
                window_s = await self._broker.ensure_stream()
                return window_s, await self._broker.bucket()
            except BucketUnfit:
                raise
            except (NatsError, OSError, TimeoutError) as error:
                pause_s = backoff.failed()
                log.warning(
                    "JetStream not ready (%s); trying again in %.1f s", str(error) or repr(error), pause_s
                )
                await asyncio.sleep(pause_s)

    async def _first_point(self, bucket: Bucket) -> RecoveryPoint | None:
        """Where to go on. Without any the node has to be the active one: a standby needs one to follow."""
        if self._lease is not None:
            self._lease.start()
        if not self._resume:
            return None
        while True:
            with suppress(NatsError, OSError, TimeoutError):
                point = await read_recovery_point(bucket)
                if point is not None or self._lease is None or self._lease.held:
                    return point
            self._lease_wanted()
            await asyncio.sleep(_LOOK_S)

    def _lease_wanted(self) -> None:
        if self._lease is not None:
            self._lease.want()

    async def _postgres_now(self) -> float:
        options = {"ssl_context": postgres_tls(self._settings)}
        async with session(self._settings.postgres_dsn, **options) as connection:
            return await server_time(connection)

    def _first_watermark(self, point: RecoveryPoint | None) -> int:
        """Where draining begins: after the recovery point, or now on a first start."""
        now = int(self._clock.now())
        if point is None:
            log.info("no recovery point: the first second is the present one")
            return now
        if point.watermark > now + AGREES_S:
            log.warning("the recovery point lies %d s in the future", point.watermark - now)
            return now - self._settings.catch_up_window_s
        if now - point.watermark > OWED_MAX_S:
            log.warning("the recovery point is %d s old: older runs are not owed", now - point.watermark)
        log.info("going on from the recovery point: %d seconds are owed", now - point.watermark)
        return max(min(point.watermark, now), now - OWED_MAX_S)

    def _tell_of_the_past(self, point: RecoveryPoint | None, watermark: int) -> None:
        """What came before where draining begins: too old to be worked through, or perhaps done already."""
        if self._settlement is None or self._publisher is None:
            return
        if point is None:
            if self._resume:
                before = Gap(watermark - OWED_MAX_S + 1, watermark, {START: NOT_COUNTED})
                self._settlement.gaps.over.append(before)
        elif point.watermark < watermark and point.watermark <= self._clock.now() - OWED_MAX_S:
            unworked = Gap(point.watermark + 1, watermark, {"window": NOT_COUNTED})
            self._settlement.gaps.over += [gap for gap in (point.gap, unworked) if gap is not None]
        elif point.watermark > watermark:
            self._publisher.look_up_until(point.watermark)
        else:
            self._settlement.gaps.open = point.gap

    async def _load(self, watermark: int, since: RecoveryPoint | None) -> Loaded:
        """Load with a fresh wheel for each attempt, for as long as Postgres is away."""
        backoff = Backoff(self._settings.retry_cap_s)
        while True:
            try:
                return await self._load_once(watermark, since)
            except (*LOST, ChangeLogError) as error:
                pause_s = backoff.failed(cheap=costs_little(error))
                log.warning(
                    "jobs not loaded (%s); trying again in %.1f s", str(error) or repr(error), pause_s
                )
                await asyncio.sleep(pause_s)

    async def _load_once(self, watermark: int, since: RecoveryPoint | None) -> Loaded:
        wheel = Wheel(
            watermark,
            instance=self._settings.instance,
            reply_prefix=self._broker.inbox,
            catch_up_window_s=self._settings.catch_up_window_s,
        )
        tls = postgres_tls(self._settings)
        connection = await connect(self._settings.postgres_dsn, ssl_context=tls)
        try:
            loader = Loader(connection, wheel, self._threads)
            return await (loader.load(since.cursor, since.earlier) if since else loader.load(None))
        finally:
            await close(connection)

    async def _compose(self, loaded: Loaded, bucket: Bucket, watermark: int, window_s: float) -> None:
        settlement = Settlement(watermark, loaded.cursor, earlier=loaded.earlier)
        self._settlement = settlement
        self._metrics.watermark.set_function(lambda: settlement.watermark)
        self._metrics.active.set_function(lambda: float(self._active()))
        self._metrics.behind.set_function(self._behind_s)
        self._dead_letters = DeadLetters(bucket, settlement.settle)
        self._publisher = Publisher(
            self._broker,
            self._metrics,
            self._clock,
            max_in_flight=self._settings.max_in_flight,
            reach_s=window_s - REACH_MARGIN_S,
            on_settled=settlement.settle,
            on_dead=self._dead_letters.add,
        )
        self._recovery = RecoveryWriter(bucket, settlement, self._active_or_ending)
        await self._publisher.start()
        self._bucket = bucket
        self._generation = self._generate(loaded)
        self._handover = Handover(
            self._lease,
            bucket=bucket,
            broker=self._broker,
            publisher=self._publisher,
            settlement=settlement,
            generation=self._present_generation,
            clock=self._clock,
        )

    def _active_or_ending(self) -> bool:
        return self._handover is not None and self._handover.active

    def _present_generation(self) -> Generation:
        if self._generation is None:
            raise RuntimeError("start the node first")
        return self._generation

    def _behind_s(self) -> float:
        """Since when the newest drained second is over, were it the present one: 0 while all are on time."""
        if self._generation is None:
            return 0.0
        return max(0.0, int(self._clock.now()) - self._generation.wheel.now - 1.0)

    def _generate(self, loaded: Loaded) -> Generation:
        if self._publisher is None or self._settlement is None:
            raise RuntimeError("start the node first")
        return Generation(
            loaded,
            self._publisher,
            self._settlement,
            clock=self._clock,
            metrics=self._metrics,
            threads=self._threads,
            bucket=self._bucket,
            guard=self._guard,
            window_s=self._settings.catch_up_window_s,
            watchdog_period_s=self._settings.watchdog_period_s,
            tailer_options=self._tailer_options(),
            sure=lambda: self._handover is None or self._handover.sure,
        )

    def _tailer_options(self) -> dict[str, Any]:
        return {
            "dsn": self._settings.postgres_dsn,
            "tail_poll_s": self._settings.tail_poll_s,
            "retry_cap_s": self._settings.retry_cap_s,
            "ssl_context": postgres_tls(self._settings),
        }

    async def _run_generations(self, stop: asyncio.Event) -> None:
        while self._generation is not None and not stop.is_set():
            try:
                await self._generation.run()
            except CursorVoid as void:
                log.warning("loading the jobs again: %s", void)
                await self._load_again(self._drained(self._generation.wheel), stop)
            except ClockWentBack as back:
                log.warning("loading the jobs again: %s", back)
                await self._begin_anew(self._generation.wheel.now, stop)

    def _drained(self, wheel: Wheel) -> int:
        """Where another wheel goes on: what this one has leapt over and not given yet would go with it."""
        return wheel.now if self._settlement is None else min(wheel.now, self._settlement.newest)

    async def _load_again(self, watermark: int, stop: asyncio.Event) -> None:
        if self._generation is None or self._handover is None:
            raise RuntimeError("start the node first")
        self._phase = "loading jobs"
        await self._generation.aclose()
        loaded = await unless_stopped(self._load(watermark, None), stop)
        if loaded is None:
            return
        self._generation = self._generate(loaded)
        await self._handover.take_part()
        self._phase = _LOADED

    async def _begin_anew(self, drained: int, stop: asyncio.Event) -> None:
        """As a restart would: what is open is dropped, since its seconds come once more."""
        if self._publisher is None or self._settlement is None or self._dead_letters is None:
            raise RuntimeError("start the node first")
        watermark = int(self._clock.now()) - self._settings.catch_up_window_s
        self._publisher.look_up_until(drained)
        self._publisher.forget()
        self._dead_letters.forget()
        self._settlement.begin_anew(watermark, self._settlement.mark)
        await self._load_again(watermark, stop)

    async def _stop_when(self, stop: asyncio.Event) -> None:
        await stop.wait()
        if self._publisher is not None:
            self._publisher.stop_waiting()
        if self._generation is not None:
            self._generation.stop()
