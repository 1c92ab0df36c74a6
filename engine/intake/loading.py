"""Fills a wheel: the table, and what is needed to go on from a recovery point.

A replacement has to owe what the old node owed. So the table is loaded as it is, its rows staged as they come
and the wheel built once from all of them; what the log holds since the recovery point's cursor is undone, the
jobs arm at the first instant after the watermark, and the same changes then wait in the queue, to be applied
as their seconds come. Who came shortly before that cursor may still wait for its first run soon: the log
tells.
"""

import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field

import asyncpg

from mainspring.changelog_tailer import (
    Cursor,
    CursorVoid,
    Decoder,
    Rows,
    changes_between,
    expected_jobs,
    load,
    newcomers_between,
    undo_since,
)
from mainspring.engine.intake.judge import Batch, Judge
from mainspring.engine.intake.load_progress import LoadProgress
from mainspring.engine.intake.quarantine import Quarantine
from mainspring.engine.threads import on_each_thread, on_thread
from mainspring.wheel import OP_LOAD, Wheel
from mainspring.wheel import Loader as Staged

log = logging.getLogger(__name__)

_FINISHING_THREADS = 2


@dataclass(slots=True)
class Loaded:
    """A wheel that stands at `cursor`, the changes that bring it to `tail_from`, and where to tail on.

    earlier: a cursor before which nobody came who still waits for a first run soon.
    """

    wheel: Wheel
    quarantine: Quarantine
    judge: Judge
    decoder: Decoder
    cursor: Cursor
    tail_from: Cursor
    earlier: Cursor
    owed_changes: list[Batch] = field(default_factory=list)


class Loader:
    """Fills one wheel once; a failed attempt is thrown away with its wheel."""

    def __init__(self, connection: asyncpg.Connection, wheel: Wheel, threads: Executor) -> None:
        self._connection = connection
        self._wheel = wheel
        self._threads = threads
        self._quarantine = Quarantine()
        self._judge = Judge(wheel, self._quarantine)
        self._decoder = Decoder()

    async def load(self, since: Cursor | None, earlier: Cursor | None = None) -> Loaded:
        """Load the table; where `since` still means something, as it was then, with the first runs soon that
        were pending of jobs that came after `earlier`.

        Raises what `mainspring.changelog_tailer.LOST` names, and `ChangeLogError`.
        """
        upto = await self._load_table()
        loaded = Loaded(self._wheel, self._quarantine, self._judge, self._decoder, upto, upto, upto)
        log.info("loaded %d jobs", len(self._wheel))
        if since is not None:
            await self._go_back(loaded, since, earlier or since)
        return loaded

    async def _load_table(self) -> Cursor:
        with (
            self._wheel.loader() as staged,
            LoadProgress(await expected_jobs(self._connection)) as progress,
        ):
            upto = await load(self._connection, self._stage(staged, progress), self._decoder)
            await on_each_thread(self._threads, _FINISHING_THREADS, staged.finish)
        return upto

    def _stage(self, staged: Staged, progress: LoadProgress) -> Callable[[Rows], Awaitable[None]]:
        def stage(rows: Rows) -> None:
            batch = self._judge.judge(rows)
            # Of a job that is in quarantine there is nothing to load.
            loads = batch.definitions["op"] == OP_LOAD
            staged.add(batch.definitions if loads.all() else batch.definitions[loads], batch.texts)

        async def stage_beside(rows: Rows) -> None:
            await on_thread(self._threads, stage, rows)
            progress.advance(len(rows))

        return stage_beside

    async def _go_back(self, loaded: Loaded, since: Cursor, earlier: Cursor) -> None:
        try:
            await undo_since(self._connection, since, loaded.tail_from, self._apply, self._decoder)
        except CursorVoid as void:
            log.warning("what changed since the recovery point cannot be told: %s", void)
            return
        loaded.earlier = await self._await_first_runs(earlier, since)
        await changes_between(
            self._connection, since, loaded.tail_from, self._keep(loaded.owed_changes), self._decoder
        )
        loaded.cursor = since

    async def _await_first_runs(self, earlier: Cursor, since: Cursor) -> Cursor:
        """Give newcomers the first run soon that they wait for; gives what then stands for `earlier`."""
        try:
            await newcomers_between(self._connection, earlier, since, self._apply, self._decoder)
        except CursorVoid as void:
            log.warning("which new jobs wait for a first run soon cannot be told: %s", void)
            return since
        return earlier

    def _keep(self, changes: list[Batch]) -> Callable[[Rows], Awaitable[None]]:
        async def keep(rows: Rows) -> None:
            changes.append(self._judge.judge(rows))

        return keep

    async def _apply(self, rows: Rows) -> None:
        batch = self._judge.judge(rows)
        await on_thread(self._threads, self._wheel.apply, batch.definitions, batch.texts)
