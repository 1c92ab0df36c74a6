"""What a node tells of its wheel, so that `mainspring doctor --deep` can hold it against the table.

    GET /api/digest             {"cursor": {...}, "sums": ["<16 hex digits>", ...], "jobs": [n, ...]}
    GET /api/digest?shard=7     {"since": {...}, "ids": [...], "digests": ["...", ...]}

The first is the sum and the count of every shard, exact at that cursor of the change log. The second names
the jobs of one shard: those that are not changed after that cursor are there as they are.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from aiohttp import web

from mainspring.engine.intake.changes import ChangeQueue
from mainspring.wheel import SHARDS, Digester, Wheel

EXACT_TIMEOUT_S: Final = 60.0
"""Changes wait while owed seconds are drained, so the wheel may be between two cursors for long."""

Answer = dict[str, Any]
T = TypeVar("T")


class Digests:
    """Of one wheel, with what is applied to it. One question at a time: each reads the whole wheel."""

    def __init__(self, wheel: Wheel, changes: ChangeQueue) -> None:
        self._wheel = wheel
        self._changes = changes
        self._turn = asyncio.Lock()

    async def sums(self) -> Answer:
        """Digest and count of each shard at a cursor. Raises TimeoutError where the wheel is long at none."""
        async with self._turn:
            with Digester(self._wheel) as digester:
                await asyncio.to_thread(digester.walk)
                return await self._when_exact(lambda: self._told(digester))

    async def shard(self, shard: int) -> Answer:
        """Id and digest of each job of one shard, 0 to 255."""
        async with self._turn:
            since = self._changes.cursor
            with Digester(self._wheel) as digester:
                ids, digests = await asyncio.to_thread(digester.shard, shard)
        return {
            "since": since.to_dict(),
            "ids": ids.tolist(),
            "digests": [f"{digest:016x}" for digest in digests.tolist()],
        }

    def _told(self, digester: Digester) -> Answer:
        """Read where nothing can be applied in between: on the loop, which alone begins to apply."""
        sums, jobs = digester.sums()
        return {
            "cursor": self._changes.cursor.to_dict(),
            "sums": [f"{digest:016x}" for digest in sums.tolist()],
            "jobs": jobs.tolist(),
        }

    async def _when_exact(self, look: Callable[[], T]) -> T:
        seen: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._changes.when_exact(lambda: None if seen.done() else seen.set_result(look()))
        async with asyncio.timeout(EXACT_TIMEOUT_S):
            return await seen


async def digest_answer(digests: Digests | None, shard: str | None) -> web.Response:
    """The HTTP answer to /api/digest, of one shard where one is named."""
    if digests is None:
        return web.Response(status=503, text="not ready: the jobs are not loaded yet\n")
    if shard is not None and not (shard.isascii() and shard.isdigit() and int(shard) < SHARDS):
        return web.Response(status=400, text=f"shard={shard!r}: give 0 to {SHARDS - 1}\n")
    try:
        return web.json_response(await (digests.sums() if shard is None else digests.shard(int(shard))))
    except TimeoutError:
        return web.Response(status=503, text="changes have been waiting to be applied for a minute\n")
