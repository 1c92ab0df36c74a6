"""Puts judged batches into the wheel, and counts what became of them."""

import asyncio
from concurrent.futures import Executor

import numpy as np

from mainspring.changelog_tailer import OP_DELETE, OP_INSERT, OP_TRUNCATE, OP_UPDATE
from mainspring.engine.intake.judge import Batch
from mainspring.engine.intake.quarantine import Quarantine
from mainspring.engine.metrics import Metrics
from mainspring.wheel import Wheel

_OP_NAMES = {OP_INSERT: "insert", OP_UPDATE: "update", OP_DELETE: "delete", OP_TRUNCATE: "truncate"}


class Applier:
    """Applies on a worker thread, where the wheel lets go of the GIL."""

    def __init__(self, wheel: Wheel, quarantine: Quarantine, metrics: Metrics, threads: Executor) -> None:
        self._wheel = wheel
        self._quarantine = quarantine
        self._metrics = metrics
        self._threads = threads

    async def apply(self, batch: Batch) -> None:
        """Apply in order; a truncate empties the wheel at its place in that order."""
        loop = asyncio.get_running_loop()
        start = 0
        for position in np.flatnonzero(batch.ops == OP_TRUNCATE):
            await self._apply_rows(batch, start, int(position))
            await loop.run_in_executor(self._threads, self._wheel.clear)
            start = int(position) + 1
        await self._apply_rows(batch, start, len(batch))
        self._count(batch)

    async def _apply_rows(self, batch: Batch, start: int, stop: int) -> None:
        if start < stop:
            loop = asyncio.get_running_loop()
            definitions = batch.definitions[start:stop]
            await loop.run_in_executor(self._threads, self._wheel.apply, definitions, batch.texts)

    def _count(self, batch: Batch) -> None:
        for op, count in zip(*np.unique(batch.ops, return_counts=True), strict=True):
            if name := _OP_NAMES.get(int(op)):
                self._metrics.changes.labels(name).inc(int(count))
        self.count_jobs()

    def count_jobs(self) -> None:
        """Show how many jobs there are."""
        for kind, count in self._wheel.counts().items():
            self._metrics.jobs.labels(kind).set(count)
        self._metrics.quarantined.set(len(self._quarantine))
