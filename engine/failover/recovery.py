"""The recovery point: what a replacement needs to go on where this node stopped.

One value in the KV bucket, (watermark, cursor, earlier, gap): every second up to the watermark is settled,
`cursor` is what of the change log was applied when that second was drained, and `gap` the stretch of skipped
runs that was open then (gaps.py). `earlier` is such a cursor of some seconds before: who came since then may
still wait for a first run soon.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass

from nats.errors import Error as NatsError

from mainspring.changelog_tailer import Cursor
from mainspring.engine.broker.bucket import Bucket
from mainspring.engine.failover.gaps import KEEP_S, Gap, key_of
from mainspring.engine.publishing.settlement import Settlement

log = logging.getLogger(__name__)

KEY = "recovery"
_PERIOD_S = 1.0
_TIMEOUT_S = 3.0


class RecoveryPointDamaged(Exception):
    """The value in the bucket is none that a node wrote."""


@dataclass(frozen=True, slots=True)
class RecoveryPoint:
    """watermark: epoch seconds."""

    watermark: int
    cursor: Cursor
    gap: Gap | None = None
    earlier: Cursor | None = None

    def encode(self) -> bytes:
        """JSON, so that a person can read it in the bucket."""
        gap = {} if self.gap is None else {"gap": self.gap.to_dict()}
        earlier = {} if self.earlier is None else {"earlier": self.earlier.to_dict()}
        point = {"watermark": self.watermark, "cursor": self.cursor.to_dict()}
        return json.dumps(point | earlier | gap).encode()

    @classmethod
    def decode(cls, value: bytes) -> "RecoveryPoint":
        """Raises `RecoveryPointDamaged` for anything but what `encode` writes."""
        try:
            fields = json.loads(value)
            gap = Gap.from_dict(fields["gap"]) if "gap" in fields else None
            earlier = Cursor.from_dict(fields["earlier"]) if "earlier" in fields else None
            return cls(int(fields["watermark"]), Cursor.from_dict(fields["cursor"]), gap, earlier)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise RecoveryPointDamaged(
                f"the recovery point {value[:120]!r} is not readable ({error!r}). Mend: delete the key "
                f"{KEY!r} of the instance's KV bucket, and the engine begins at the present second"
            ) from error


async def read_recovery_point(bucket: Bucket) -> RecoveryPoint | None:
    """The last one written, None on a first start. Raises `RecoveryPointDamaged`."""
    async with asyncio.timeout(_TIMEOUT_S):
        value = await bucket.get(KEY)
    return None if value is None else RecoveryPoint.decode(value)


class RecoveryWriter:
    """Writes the recovery point each second, and before it the gaps that it drops. One that has not moved is
    written too: the bucket may have been made again since.

    `active` says whether this node is to write at all.
    """

    def __init__(
        self, bucket: Bucket, settlement: Settlement[Cursor], active: Callable[[], bool] = lambda: True
    ) -> None:
        self._bucket = bucket
        self._settlement = settlement
        self._active = active
        self._failing = False

    async def run_once(self) -> bool:
        """Write; False when the broker did not take it, which is tried again next time."""
        settlement = self._settlement
        gaps = settlement.gaps
        point = RecoveryPoint(settlement.watermark, settlement.mark, gaps.open, settlement.earlier)
        over = list(gaps.over)
        # Below what another node has settled its recovery point is the better one.
        if point.watermark < settlement.elsewhere or not self._active():
            return True
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                await self._write(over, point)
        except (NatsError, OSError, TimeoutError) as error:
            self._tell(
                f"the broker does not take the recovery point ({str(error) or 'no answer'}); trying again"
            )
            return False
        gaps.over = gaps.over[len(over) :]
        self._failing = False
        return True

    async def _write(self, over: list[Gap], point: RecoveryPoint) -> None:
        for gap in over:
            await self._bucket.put(key_of(gap), json.dumps(gap.to_dict()).encode(), KEEP_S)
        await self._bucket.put(KEY, point.encode())

    async def run(self) -> None:
        """Write for ever."""
        while True:
            await self.run_once()
            await asyncio.sleep(_PERIOD_S)

    def _tell(self, text: str) -> None:
        if not self._failing:
            log.warning(text)
        self._failing = True
