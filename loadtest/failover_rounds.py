"""The rounds of a failover test: what happens to the nodes in each, and what verify says of it."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import asyncpg
from nats.aio.client import Client
from nats.js.client import JetStreamContext
from nats.js.errors import NotFoundError

from mainspring.changelog_tailer import schema
from mainspring.engine.clock import SystemClock
from mainspring.engine.config import load_settings
from mainspring.engine.embedded import EmbeddedServers
from mainspring.engine.stopping import cancelled
from mainspring.engine.verify.effect import SLACK_DEFAULT_S, Effect
from mainspring.engine.verify.report import Report
from mainspring.loadtest.failover_fleet import Changes, sow
from mainspring.loadtest.judging import Judge
from mainspring.loadtest.node_process import NodeFailed, NodeProcess
from mainspring.loadtest.tcp_proxy import TcpProxy, proxied

INSTANCE: Final = "failover"
RUN_TIMEOUT_S: Final = 30.0
_AHEAD_S: Final = (3.0, 8.0)
_LOOK_S: Final = 0.1
# After an outage Postgres is tried again within `retry_cap_s`; here sooner, so that rounds are short.
_RETRY_CAP_S: Final = 3


class Mode(StrEnum):
    """What happens in a round."""

    KILL = "kill"
    TERM = "term"
    STOP = "stop"
    BOTH = "both"
    STANDBY = "standby"


@dataclass(slots=True)
class Round:
    """One round: its seed, how long nobody fired, when the first run came after that, and the verdict."""

    seed: int
    gap_s: float
    first_run_s: float | None
    report: Report


@dataclass(frozen=True, slots=True)
class Plan:
    """runs_per_s: at most. gap_s: least and greatest gap, drawn anew each round. policies: of the fleet, in
    equal parts.
    """

    jobs: int
    runs_per_s: float
    mode: Mode
    gap_s: tuple[float, float]
    changes_per_s: float
    policies: tuple[str, ...]


class Drill:
    """Rounds on servers that are there for this alone; `played` hears of each as it ends."""

    def __init__(
        self, folder: Path, plan: Plan, tell: Callable[[str], None], played: Callable[[Round], None]
    ) -> None:
        self.folder, self.plan, self.tell, self._played = folder, plan, tell, played

    async def run(self, seed: int, rounds: int) -> list[Round]:
        """All rounds; the seed of each is one more than that of the one before."""
        async with EmbeddedServers(self.folder) as servers:
            await schema.init(servers.postgres_dsn)
            port = urlsplit(servers.postgres_dsn).port or 0
            async with proxied(port) as proxy:
                return await self._on(servers, proxy, seed, rounds)

    async def _on(self, servers: EmbeddedServers, proxy: TcpProxy, seed: int, rounds: int) -> list[Round]:
        connection = await asyncpg.connect(servers.postgres_dsn)
        client = Client()
        await client.connect(servers.nats_url)
        self.tell(f"making {self.plan.jobs:,} jobs")
        await sow(connection, self.plan.jobs, self.plan.policies, runs_per_s=self.plan.runs_per_s)
        stage = _Stage(self, servers, proxy, client)
        user = Changes(connection, seed, self.plan.changes_per_s, self.plan.policies)
        begun = asyncio.Event()  # what is inserted before the very first load owes no first run soon
        changes = asyncio.ensure_future(user.go_on(begun))
        try:
            await stage.begin()
            begun.set()
            done = []
            for number in range(rounds):
                if changes.done():
                    changes.result()
                self.tell(f"round {number + 1} of {rounds}, seed {seed + number}")
                done.append(await stage.play(seed + number))
                self._played(done[-1])
            return done
        finally:
            await cancelled(changes)
            await stage.end()
            await connection.close()
            await client.close()


class _Stage:
    """The nodes, and what verify has judged so far."""

    def __init__(self, drill: Drill, servers: EmbeddedServers, proxy: TcpProxy, client: Client) -> None:
        self._drill, self._proxy = drill, proxy
        self._clock = SystemClock()
        self._settings = load_settings(
            {"postgres_dsn": servers.postgres_dsn, "nats_url": servers.nats_url, "instance": INSTANCE}
        )
        self._jetstream: JetStreamContext = client.jetstream()
        self._node = self._new_node()
        self._other = self._new_node(behind_proxy=drill.plan.mode == Mode.BOTH)
        self._judge = Judge(self._settings, drill.tell)

    def _new_node(self, *, behind_proxy: bool = False) -> NodeProcess:
        dsn = self._settings.postgres_dsn
        if behind_proxy:
            dsn = dsn.replace(f":{urlsplit(dsn).port}/", f":{self._proxy.port}/")
        settings = {
            "postgres_dsn": dsn,
            "nats_url": self._settings.nats_url,
            "instance": INSTANCE,
            "retry_cap_s": str(_RETRY_CAP_S),
        }
        flags = ("--no-lease",) if self._drill.plan.mode == Mode.BOTH else ()
        return NodeProcess(self._drill.folder / "node.log", settings, *flags)

    async def begin(self) -> None:
        """Start the nodes, and wait until the first runs are stored."""
        await self._node.start()
        await self._node.ready()
        if self._drill.plan.mode in (Mode.BOTH, Mode.STANDBY):
            await self._other.start()
            await self._other.ready()
        await self._judge.begin()

    async def end(self) -> None:
        """End what runs."""
        await self._node.aclose()
        await self._other.aclose()

    async def play(self, seed: int) -> Round:
        """One round, judged from where the last one was judged to."""
        draw = random.Random(seed)
        await asyncio.sleep(draw.uniform(*_AHEAD_S))
        gap_s = draw.uniform(*self._drill.plan.gap_s)
        play = {
            Mode.KILL: self._replace,
            Mode.TERM: self._replace,
            Mode.STOP: self._freeze,
            Mode.BOTH: self._blind,
            Mode.STANDBY: self._take_over,
        }
        begun = self._clock.now()
        first_run_s = await play[self._drill.plan.mode](gap_s)
        effect = Effect(SLACK_DEFAULT_S)
        if self._drill.plan.mode == Mode.BOTH:
            effect = Effect(SLACK_DEFAULT_S + _RETRY_CAP_S, [(begun, begun + gap_s)])
        return Round(seed, gap_s, first_run_s, await self._judge.verdict(effect))

    # -------------------------------------------------------------------------------- what happens to nodes

    async def _replace(self, gap_s: float) -> float:
        """The node ends, and after the gap another takes its place."""
        if self._drill.plan.mode == Mode.KILL:
            await self._node.kill()
        else:
            await self._node.end()
        await asyncio.sleep(gap_s)
        last_seq, since = await self._last_seq(), self._clock.now()
        self._node = self._new_node()
        await self._node.start()
        await self._node.ready()
        return await self._first_run(last_seq, since)

    async def _freeze(self, gap_s: float) -> float:
        """The node stands still, and goes on as if nothing had been."""
        self._node.freeze()
        await asyncio.sleep(gap_s)
        last_seq, since = await self._last_seq(), self._clock.now()
        self._node.thaw()
        return await self._first_run(last_seq, since)

    async def _blind(self, gap_s: float) -> None:
        """Both fire; one of them hears nothing of Postgres for a while."""
        self._proxy.freeze(coming=True)
        await asyncio.sleep(gap_s)
        self._proxy.thaw()
        await asyncio.sleep(_RETRY_CAP_S)

    async def _take_over(self, _gap_s: float) -> float:
        """The active node is killed, the standby goes on, and a new standby is started."""
        if await self._other.active():
            self._node, self._other = self._other, self._node
        last_seq, since = await self._last_seq(), self._clock.now()
        await self._node.kill()
        last_seq = max(last_seq, await self._last_seq())
        first_run_s = await self._first_run(last_seq, since)
        self._node, self._other = self._other, self._new_node()
        await self._other.start()
        await self._other.ready()
        return first_run_s

    # ------------------------------------------------------------------------------------ what is looked at

    async def _last_seq(self) -> int:
        return (await self._jetstream.stream_info(INSTANCE.upper())).state.last_seq

    async def _first_run(self, last_seq: int, since: float) -> float:
        """Seconds from `since` until the stream took the first message behind `last_seq`."""
        try:
            async with asyncio.timeout(RUN_TIMEOUT_S):
                while True:
                    try:
                        message = await self._jetstream.get_msg(INSTANCE.upper(), seq=last_seq + 1)
                        break
                    except NotFoundError:
                        await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            raise NodeFailed(f"no run within {RUN_TIMEOUT_S:.0f} s; see node.log") from None
        if message.time is None:
            raise NodeFailed("the stream tells no time of its messages")
        return max(0.0, message.time.timestamp() - since)
