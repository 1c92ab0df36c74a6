"""Proves one shard right every period, and puts right what it finds wrong."""

import asyncio
import logging
from concurrent.futures import Executor

from mainspring.engine.metrics import Metrics
from mainspring.wheel import SHARDS, Wheel

log = logging.getLogger(__name__)


class Watchdog:
    """Sweeps the shards in turn; at a period of 2 s the whole wheel is proved in under nine minutes."""

    def __init__(self, wheel: Wheel, metrics: Metrics, threads: Executor, *, period_s: float) -> None:
        self._wheel = wheel
        self._metrics = metrics
        self._threads = threads
        self._period_s = period_s
        self._shard = 0

    async def run_once(self) -> dict[str, int]:
        """Sweep the next shard; returns what was healed, by fault."""
        shard, self._shard = self._shard, (self._shard + 1) % SHARDS
        loop = asyncio.get_running_loop()
        healed = await loop.run_in_executor(self._threads, self._wheel.sweep, shard)
        self._metrics.sweeps.inc()
        for fault, count in healed.items():
            if count:
                log.error("watchdog: shard %d had %d entries %s; put right", shard, count, fault)
                self._metrics.rearms.labels(fault).inc(count)
        return healed

    async def run(self) -> None:
        """Sweep for ever. How long a sweep takes does not delay the next, so a rotation keeps its length."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            await self.run_once()
            due = max(due + self._period_s, loop.time())
            await asyncio.sleep(due - loop.time())
