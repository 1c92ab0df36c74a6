"""A node at a steady rate on servers of its own, and what is seen of it from outside.

    async with steady_node(jobs, folder, tell) as steady:
        await steady.begin()
        before = await steady.look()
        ...
        lateness = (await steady.look()).lateness.since(before.lateness)
        await steady.end()

The node is a process of its own, started as an operator starts it, with the fleet of `stocking.py`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Final

from nats.aio.client import Client
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from mainspring.engine.embedded import EmbeddedNats
from mainspring.loadtest.cpu import cpu_s, machine_cpu_s
from mainspring.loadtest.distribution import Distribution
from mainspring.loadtest.node_process import NodeProcess
from mainspring.loadtest.rounds import RunsLost
from mainspring.loadtest.stocking import stocked

INSTANCE: Final = "steady"
SETTLE_TIMEOUT_S: Final = 30.0
_LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Look:
    """What the node tells at one moment, and the CPU time used by then, seconds."""

    at: float
    due: float
    acknowledged: float
    duplicates: float
    left_out: float
    errors: float
    in_flight: float
    lateness: Distribution
    node_cpu_s: float
    server_cpu_s: float
    others_cpu_s: float


class SteadyNode:
    """The node and its broker; `begin` starts the node."""

    def __init__(self, node: NodeProcess, server: EmbeddedNats) -> None:
        self._node, self.server = node, server

    async def begin(self) -> None:
        """Start it, and wait until it publishes."""
        await self._node.start()
        await self._node.ready()

    async def end(self) -> None:
        """End it as an operator does."""
        await self._node.end()

    async def look(self) -> Look:
        """Now."""
        self._node.require_running()
        told = {metric.name: metric for metric in text_string_to_metric_families(await self._node.metrics())}
        node_cpu_s, server_cpu_s = cpu_s(self._node.pid), cpu_s(self.server.pid)
        return Look(
            at=perf_counter(),
            due=_total(told["mainspring_runs_due"]),
            acknowledged=_total(told["mainspring_runs_acknowledged"]),
            duplicates=_total(told["mainspring_runs_duplicate"]),
            left_out=_total(told["mainspring_runs_skipped"]) + _total(told["mainspring_dead_letters"]),
            errors=_total(told["mainspring_publish_errors"]),
            in_flight=_total(told["mainspring_in_flight"]),
            lateness=Distribution.of(told["mainspring_lateness_seconds"]),
            node_cpu_s=node_cpu_s,
            server_cpu_s=server_cpu_s,
            others_cpu_s=machine_cpu_s() - node_cpu_s - server_cpu_s - process_time(),
        )

    async def look_settled(self) -> Look:
        """As soon as every run that came due is acknowledged, and the stream has them. Raises RunsLost."""
        async with asyncio.timeout(SETTLE_TIMEOUT_S):
            while (look := await self.look()).in_flight:
                await asyncio.sleep(_LOOK_S)
        if lost := look.due - look.acknowledged - look.left_out:
            raise RunsLost(f"of {look.due:.0f} runs {lost:.0f} were neither acknowledged nor left out")
        if (stored := await self._stored()) < look.acknowledged - look.duplicates:
            raise RunsLost(f"{look.acknowledged:.0f} runs were acknowledged, {stored} messages stored")
        return look

    async def _stored(self) -> int:
        """Messages that the stream has ever taken."""
        client = Client()
        await client.connect(self.server.url)
        info = await client.jetstream().stream_info(INSTANCE.upper())
        await client.close()
        return int(info.state.last_seq)


@asynccontextmanager
async def steady_node(jobs: int, folder: Path, tell: Callable[[int], None]) -> AsyncIterator[SteadyNode]:
    """With servers that keep their files in `folder`; `tell` is told how many jobs are written."""
    async with stocked(jobs, folder, tell) as dsn:
        server = EmbeddedNats(folder)
        await server.start()
        settings = {"postgres_dsn": dsn, "nats_url": server.url, "instance": INSTANCE}
        node = NodeProcess(folder / "node.log", settings)
        try:
            yield SteadyNode(node, server)
        finally:
            await node.aclose()
            await server.kill()


def _total(metric: Metric) -> float:
    """Of all its labels."""
    return sum(sample.value for sample in metric.samples if not sample.name.endswith("_created"))
