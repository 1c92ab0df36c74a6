"""A hot standby: a loaded wheel that is kept where the active node's recovery point is.

What the recovery point's cursor sees of the change log is applied, and the seconds up to its watermark are
drained into nothing; so at every moment the wheel is what a restart would make of the recovery point, and a
takeover owes just what lies behind it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import asyncpg
import numpy as np
from nats.errors import Error as NatsError

from mainspring.changelog_tailer import (
    LOST,
    ROW,
    ChangeLogError,
    Cursor,
    CursorVoid,
    Decoder,
    Rows,
    changes_between,
    cursor_now,
)
from mainspring.changelog_tailer.reading import require_continues
from mainspring.engine.broker.bucket import Bucket
from mainspring.engine.failover.recovery import RecoveryPoint, read_recovery_point

log = logging.getLogger(__name__)

LOOK_S = 0.25
_RETRY_S = 1.0
# After a load the wheel may be ahead of what the active node has written, but not for long.
_AHEAD_MAX_S = 15.0

Connect = Callable[[], Awaitable[asyncpg.Connection]]


class Follower:
    """Follows the recovery point from `cursor` on: `sink(rows, cursor, upto)` takes what was changed before
    the second `upto` was settled, then `arrive(point)` lets the seconds up to there be drained.
    """

    def __init__(
        self,
        bucket: Bucket,
        connect: Connect,
        decoder: Decoder,
        cursor: Cursor,
        *,
        sink: Callable[[Rows, Cursor, int], Awaitable[None]],
        arrive: Callable[[RecoveryPoint], None],
    ) -> None:
        self.cursor = cursor
        self.point: RecoveryPoint | None = None
        self.last_error: str | None = None
        self._bucket = bucket
        self._connect = connect
        self._decoder = decoder
        self._sink = sink
        self._arrive = arrive
        self._connection: asyncpg.Connection | None = None
        self._ahead_since: float | None = None

    async def run(self) -> None:
        """Follow until cancelled. Raises CursorVoid when the jobs have to be loaded again."""
        try:
            while True:
                pause_s = LOOK_S if await self.run_once() else _RETRY_S
                await asyncio.sleep(pause_s)
        finally:
            self._drop()

    async def run_once(self) -> bool:
        """Come to the present recovery point; False where a server did not answer, which is told once."""
        try:
            point = await read_recovery_point(self._bucket)
            if point is not None and point != self.point:
                await self._come_to(point)
        except CursorVoid:
            raise
        except (NatsError, *LOST, ChangeLogError) as error:
            self._tell(error)
            return False
        self.last_error = None
        return True

    async def _come_to(self, point: RecoveryPoint) -> None:
        if point.cursor != self.cursor and not self._is_ahead_of(point.cursor):
            await self._read_upto(point)
        self.point = point
        self._arrive(point)

    def _is_ahead_of(self, cursor: Cursor) -> bool:
        """What was loaded just now may be newer than what the other had applied at its watermark."""
        if not cursor.same_log(self.cursor) or cursor.xmax >= self.cursor.xmax:
            self._ahead_since = None
            return False
        now = asyncio.get_running_loop().time()
        self._ahead_since = self._ahead_since or now
        return now - self._ahead_since < _AHEAD_MAX_S

    async def _read_upto(self, point: RecoveryPoint) -> None:
        since, upto = self.cursor, point.watermark

        async def take(rows: Rows) -> None:
            await self._sink(rows, since, upto)

        if self._connection is None:
            self._connection = await self._connect()
            require_continues(since, await cursor_now(self._connection))
        await changes_between(self._connection, since, point.cursor, take, self._decoder)
        self.cursor = point.cursor
        nothing = Rows(np.empty(0, ROW), b"", self._decoder.routes, self._decoder.crons)
        await self._sink(nothing, self.cursor, upto)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    def _tell(self, error: BaseException) -> None:
        self._drop()
        if self.last_error is None:
            log.warning("not following the active node (%s); trying again", str(error) or repr(error))
        self.last_error = str(error) or repr(error)
