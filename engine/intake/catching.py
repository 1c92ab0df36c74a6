"""Catching up with the change log before owed seconds are drained: what changed meanwhile must be known.

For a bounded time: a lost Postgres never stops the firing.
"""

import asyncio
import math
from typing import Final, Protocol

ANSWER_S: Final = 3.0
_LOOK_S: Final = 0.02


class Reading(Protocol):
    """Of a tailer: when its last reading that succeeded began, and its last that failed, in loop time."""

    polled_at: float | None
    failed_from: float | None

    def wake(self) -> None:
        """Read at once."""
        ...


class Room(Protocol):
    """Of the queue of changes."""

    @property
    def full(self) -> bool: ...


class Catching:
    """Waits until the log has been read to its end, or `changes` holds as much of it as it takes."""

    def __init__(self, changes: Room) -> None:
        self._changes = changes
        self._in_vain_at = -math.inf

    def __repr__(self) -> str:
        return f"Catching(in_vain_at={self._in_vain_at})"

    async def up(self, tailer: Reading, late_s: float) -> bool:
        """False where the log did not answer in time.

        late_s: for so many seconds a run has been owed. Where the log was asked in vain since then it is not
        waited for again: the firing would stay behind by as much as the waiting takes.
        """
        loop = asyncio.get_running_loop()
        called_at = loop.time()
        if self._in_vain_at >= max(called_at - late_s, tailer.polled_at or -math.inf):
            return True
        tailer.wake()
        if await self._answered(tailer, called_at):
            return True
        self._in_vain_at = loop.time()
        return False

    async def _answered(self, tailer: Reading, called_at: float) -> bool:
        """A reading that fails tells nothing if it began before the call: it may have waited for its answer
        while this process stood still, and took the time that went by for the server's.
        """
        loop = asyncio.get_running_loop()
        while loop.time() - called_at < ANSWER_S:
            if self._changes.full or (tailer.polled_at or -math.inf) >= called_at:
                return True
            if (tailer.failed_from or -math.inf) >= called_at:
                return False
            await asyncio.sleep(_LOOK_S)
        return False
