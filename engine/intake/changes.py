"""Changes that are read and not yet applied, in the order of the log.

A change takes effect with the first second drained after it is applied. While seconds are drained late it
has to wait: what was owed before its `changed_at` is owed under the old definition.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mainspring.changelog_tailer import Cursor
from mainspring.engine.intake.judge import Batch

SLICE_ROWS = 4096
ROWS_MAX = 100_000


@dataclass(slots=True)
class _Page:
    batch: Batch
    cursor: Cursor
    applied: int = 0


class ChangeQueue:
    """Bounded: `put` waits while many rows are unapplied, so that a bulk change cannot fill the memory."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.arrived = asyncio.Event()
        self._pages: deque[_Page] = deque()
        self._rows = 0
        self._room = asyncio.Event()
        self._emptied = asyncio.Event()
        self._exact = True
        self._looks: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"ChangeQueue(pages={len(self._pages)}, cursor={self.cursor})"

    @property
    def full(self) -> bool:
        """Whether `put` would wait."""
        return self._rows >= ROWS_MAX

    @property
    def newest(self) -> int:
        """The second in which the last of the waiting changes was made; only while there are any."""
        return int(self._pages[-1].batch.changed_at[-1])

    @property
    def owed_until(self) -> int | None:
        """The second to be drained before the first change that waits, None when none does."""
        if not self._pages:
            return None
        page = self._pages[0]
        return int(page.batch.changed_at[page.applied])

    async def put(self, batch: Batch, cursor: Cursor) -> None:
        """Append a page; `cursor` counts as applied with its last row."""
        if not len(batch) and self._pages:  # it only closes what the pages before it began
            self._pages[-1].cursor = cursor
            return
        while self.full:
            self._room.clear()
            await self._room.wait()
        self._pages.append(_Page(batch, cursor))
        self._rows += len(batch)
        self._skip_empty()
        self.arrived.set()

    async def all_applied(self) -> None:
        """Wait until nothing waits any more."""
        while self._pages:
            self._emptied.clear()
            await self._emptied.wait()

    def when_exact(self, look: Callable[[], None]) -> None:
        """Call `look` once, as soon as what is applied is what `cursor` sees and nothing else: now or later.

        Between the pages of a long reading, and while a slice is being applied, it is not.
        """
        self._looks.append(look)
        self._tell_exact()

    def preload(self, batches: list[Batch], cursor: Cursor) -> None:
        """Changes that were read before there was a reader; `cursor` counts as applied with their last."""
        self._rows += sum(map(len, batches))
        self._pages.extend(_Page(batch, self.cursor) for batch in batches[:-1])
        if batches:
            self._pages.append(_Page(batches[-1], cursor))
        self._skip_empty()

    def ready(self, drained: int, now: int) -> Batch | None:
        """The next slice that may be applied, at most 4,096 rows; call `applied` when it is.

        `drained` is the last second drained and `now` the present one. On time everything is ready; late,
        only what changed before the next second to drain.
        """
        if not self._pages:
            return None
        page = self._pages[0]
        stop = min(page.applied + SLICE_ROWS, len(page.batch))
        if drained < now:
            stop = page.applied + _prefix_before(page.batch.changed_at[page.applied : stop], drained + 1)
        if stop == page.applied:
            return None
        rows = slice(page.applied, stop)
        batch = page.batch
        self._exact = False
        return Batch(batch.definitions[rows], batch.texts, batch.changed_at[rows], batch.ops[rows])

    def applied(self, rows: int) -> None:
        """The last slice of `ready` is in the wheel."""
        self._pages[0].applied += rows
        self._rows -= rows
        self._skip_empty()

    def _skip_empty(self) -> None:
        while self._pages and self._pages[0].applied == len(self._pages[0].batch):
            cursor = self._pages.popleft().cursor
            if cursor != self.cursor:  # a page within a reading carries the one before it
                self.cursor, self._exact = cursor, True
                self._tell_exact()
        if not self.full:
            self._room.set()
        if not self._pages:
            self._emptied.set()

    def _tell_exact(self) -> None:
        if self._exact:
            looks, self._looks = self._looks, []
            for look in looks:
                look()


def _prefix_before(changed_at: NDArray[np.float64], second: int) -> int:
    """How many leading rows changed before `second`: the log's order is kept, so a later one stops."""
    later = np.flatnonzero(changed_at >= second)
    return int(later[0]) if len(later) else len(changed_at)
