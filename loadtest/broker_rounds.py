"""The rounds of a broker drill: what happens to NATS or the way to it in each, and what verify says of it."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import asyncpg
from nats.js.api import DiscardPolicy

from mainspring.changelog_tailer import schema
from mainspring.engine.cli.nats_connection import connected
from mainspring.engine.clock import SystemClock
from mainspring.engine.config import load_settings
from mainspring.engine.embedded import EmbeddedNats, EmbeddedPostgres
from mainspring.engine.stopping import cancelled
from mainspring.engine.verify.report import Report
from mainspring.loadtest.broker_link import BrokerFaults, Loss
from mainspring.loadtest.failover_fleet import Changes, sow
from mainspring.loadtest.judging import Judge
from mainspring.loadtest.node_process import NodeFailed, NodeProcess
from mainspring.loadtest.tcp_proxy import proxied

INSTANCE: Final = "broker"
FULL: Final = "stream_full"
_AHEAD_S: Final = (0.1, 1.0)
_MARGIN_S: Final = 1
_CUTS: Final = 3
RUN_TIMEOUT_S: Final = 30.0
_DROPPED: Final = (0.02, 0.3, 1.0)
_TRIES: Final = 5
_UNHEARD_S: Final = 1.2
# A run that is not answered is sent again after 3 s: by then the node has to be dead.
_KILLED_AFTER_S: Final = 2.6


class Kind(StrEnum):
    """What happens in a round."""

    KILL = "kill"
    FREEZE = "freeze"
    CUT = "cut"
    DELAY = "delay"
    DROP = "drop"
    FULL = "full"
    LOSE = "lose"


@dataclass(slots=True)
class Memory:
    """Of one life of a node: bytes before the first round and after the last, and what its runs weigh.

    Half of that weight is the bound: a node that kept the frame of every run would grow by all of it.
    """

    before: int
    after: int = 0
    frames: int = 0

    @property
    def flat(self) -> bool:
        return self.after - self.before <= self.frames // 2


@dataclass(slots=True)
class Round:
    """One round: its seed, for how long it was so, how long until all was settled again, what memory the node
    had then, and the verdict.
    """

    kind: Kind
    seed: int
    span_s: float
    settled_s: float
    resident_bytes: int
    report: Report


@dataclass(frozen=True, slots=True)
class Plan:
    """span_s: by kind, the least and the greatest time for which it is so, drawn anew each round. settings:
    further ones of the node.
    """

    jobs: int
    payload_bytes: int
    span_s: dict[Kind, tuple[float, float]]
    changes_per_s: float
    policies: tuple[str, ...]
    settings: dict[str, str]


class Drill:
    """Rounds on servers that are there for this alone; `played` hears of each as it ends."""

    def __init__(
        self, folder: Path, plan: Plan, tell: Callable[[str], None], played: Callable[[Round], None]
    ) -> None:
        self.folder, self.plan, self.tell, self._played = folder, plan, tell, played

    async def run(self, kinds: list[Kind], seed: int, rounds: int) -> tuple[list[Round], list[Memory]]:
        """So many rounds of each kind; the seed of each is one more than that of the one before."""
        postgres, nats = EmbeddedPostgres(self.folder), EmbeddedNats(self.folder)
        try:
            await asyncio.gather(postgres.start(), nats.start())
            await schema.init(postgres.dsn)
            faults = BrokerFaults(seed)
            async with proxied(nats.port, faults.watch) as proxy:
                stage = _Stage(self, postgres.dsn, nats, proxy.port, faults)
                return await self._on(
                    stage, postgres.dsn, [kind for kind in kinds for _ in range(rounds)], seed
                )
        finally:
            await asyncio.gather(postgres.kill(), nats.kill())

    async def _on(
        self, stage: "_Stage", dsn: str, kinds: list[Kind], seed: int
    ) -> tuple[list[Round], list[Memory]]:
        connection = await asyncpg.connect(dsn)
        self.tell(f"making {self.plan.jobs:,} jobs")
        await sow(connection, self.plan.jobs, self.plan.policies, payload_bytes=self.plan.payload_bytes)
        user = Changes(connection, seed, self.plan.changes_per_s, self.plan.policies)
        begun = asyncio.Event()  # what is inserted before the very first load owes no first run soon
        changes = asyncio.ensure_future(user.go_on(begun))
        try:
            await stage.begin()
            begun.set()
            done = []
            for number, kind in enumerate(kinds):
                if changes.done():
                    changes.result()
                self.tell(f"round {number + 1} of {len(kinds)}: {kind}, seed {seed + number}")
                done.append(await stage.play(kind, seed + number))
                self._played(done[-1])
            return done, await stage.memory()
        finally:
            await cancelled(changes)
            await stage.end()
            await connection.close()


class _Stage:
    """The node, its broker, and the way between them."""

    def __init__(self, drill: Drill, dsn: str, nats: EmbeddedNats, port: int, faults: BrokerFaults) -> None:
        self._drill, self._nats, self._faults = drill, nats, faults
        self._clock = SystemClock()
        self._draw = random.Random()
        settings = {"postgres_dsn": dsn, "instance": INSTANCE}
        self._settings = load_settings(settings | {"nats_url": nats.url})
        self._node_settings = settings | {
            "nats_url": nats.url.replace(f":{nats.port}", f":{port}"),
            **drill.plan.settings,
        }
        self._node = self._new_node()
        self._judge = Judge(self._settings, drill.tell, margin_s=_MARGIN_S)
        self._lives: list[Memory] = []

    def _new_node(self) -> NodeProcess:
        return NodeProcess(self._drill.folder / "node.log", self._node_settings)

    async def begin(self) -> None:
        """Start the node, and wait until the first runs are stored."""
        await self._node.start()
        await self._node.ready()
        await self._judge.begin()
        self._lives.append(Memory(self._node.resident_bytes()))

    async def end(self) -> None:
        """End it."""
        await self._node.aclose()

    async def memory(self) -> list[Memory]:
        """Of each life of a node up to now."""
        await self._weigh()
        return self._lives

    async def play(self, kind: Kind, seed: int) -> Round:
        """One round, judged from where the last one was judged to."""
        self._draw = random.Random(seed)
        await asyncio.sleep(self._draw.uniform(*_AHEAD_S))
        span_s = self._draw.uniform(*self._drill.plan.span_s[kind])
        play = {
            Kind.KILL: self._kill,
            Kind.FREEZE: self._freeze,
            Kind.CUT: self._cut,
            Kind.DELAY: self._delay,
            Kind.DROP: self._drop,
            Kind.LOSE: self._lose,
            Kind.FULL: self._fill,
        }
        await play[kind](span_s)
        over = self._clock.now()
        await self._judge.settled(int(over))
        settled_s = self._clock.now() - over
        report = await self._judge.verdict()
        return Round(kind, seed, span_s, settled_s, self._node.resident_bytes(), report)

    # ------------------------------------------------------------------------------------ what happens

    async def _kill(self, span_s: float) -> None:
        """SIGKILL, and a start on the same store."""
        await self._nats.kill()
        await asyncio.sleep(span_s)
        await self._nats.start()

    async def _freeze(self, span_s: float) -> None:
        """SIGSTOP and SIGCONT. The last acknowledgements before are lost: those runs are stored, and once the
        stream has forgotten their ids nobody can know that but who reads it.
        """
        self._faults.drop = 1
        await asyncio.sleep(_UNHEARD_S)
        self._nats.freeze()
        self._faults.drop = 0
        await asyncio.sleep(span_s)
        self._nats.thaw()

    async def _cut(self, span_s: float) -> None:
        """The connection ends amid a run or an acknowledgement, several times."""
        for _ in range(_CUTS):
            async with asyncio.timeout(RUN_TIMEOUT_S):
                await self._faults.cut(upward=self._draw.random() < 0.5, share=self._draw.random())
            await asyncio.sleep(span_s / _CUTS)

    async def _delay(self, span_s: float) -> None:
        """Each acknowledgement comes late, up to so late that its run has been sent again."""
        self._faults.delay_s = self._draw.uniform(0.1, 6)
        await asyncio.sleep(span_s)
        self._faults.delay_s = 0

    async def _drop(self, span_s: float) -> None:
        """A share of the acknowledgements is lost, or all of them."""
        self._faults.drop = self._draw.choice(_DROPPED)
        await asyncio.sleep(span_s)
        self._faults.drop = 0

    async def _lose(self, _span_s: float) -> None:
        """A run or its answer is lost, the next second completes, the node is killed and replaced."""
        for _ in range(_TRIES):
            loss = await self._lose_one()
            if loss.run and not loss.again and loss.sent[loss.second + 2] and loss.complete(loss.second + 1):
                break
        else:
            raise NodeFailed(
                f"in {_TRIES} tries no second was complete in time after one that lost a run: {loss}"
            )
        await self._weigh()
        await self._node.kill()
        point = await self._judge.point()
        if point is None or point.watermark >= loss.second:
            raise NodeFailed(f"the recovery point is {point}, and {loss.run} was never acknowledged")
        self._node = self._new_node()
        await self._node.start()
        await self._node.ready()
        self._lives.append(Memory(self._node.resident_bytes()))

    async def _lose_one(self) -> Loss:
        second = int(self._clock.now()) + 1
        self._faults.loss = loss = Loss(second, upward=self._draw.random() < 0.5)
        await asyncio.sleep(second + _KILLED_AFTER_S - self._clock.now())
        self._faults.loss = None
        return loss

    async def _fill(self, span_s: float) -> None:
        """The stream is full and refuses; the node has to say so."""
        refused = f'mainspring_publish_errors_total{{reason="{FULL}"}}'
        before = await self._node.metric(refused)
        async with connected(self._settings, "drill") as client:
            jetstream = client.jetstream()
            info = await jetstream.stream_info(INSTANCE.upper())
            await jetstream.update_stream(
                info.config, max_msgs=max(1, info.state.messages), discard=DiscardPolicy.NEW
            )
            await asyncio.sleep(span_s)
            why, after = await self._node.not_ready(), await self._node.metric(refused)
            await jetstream.update_stream(info.config, max_msgs=-1, discard=DiscardPolicy.OLD)
        if FULL not in why or after == before:
            raise NodeFailed(f"the stream was full, /readyz said {why!r}, and {refused} went to {after}")

    # ---------------------------------------------------------------------------------- what is weighed

    async def _weigh(self) -> None:
        """The node as it is now."""
        async with connected(self._settings, "drill") as client:
            state = (await client.jetstream().stream_info(INSTANCE.upper())).state
        runs = await self._node.metric("mainspring_runs_acknowledged_total")
        life = self._lives[-1]
        life.after = self._node.resident_bytes()
        life.frames = int(runs * state.bytes / max(1, state.messages))
