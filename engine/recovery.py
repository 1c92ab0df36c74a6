"""The recovery point: what a replacement needs to go on where this node stopped.

One value in the KV bucket, (watermark, cursor): every second up to the watermark is settled, and `cursor` is
what of the change log was applied when that second was drained.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass

from nats.errors import Error as NatsError
from nats.js.errors import KeyNotFoundError
from nats.js.kv import KeyValue

from mainspring.changelog_tailer import Cursor

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

    def encode(self) -> bytes:
        """JSON, so that a person can read it in the bucket."""
        return json.dumps({"watermark": self.watermark, "cursor": self.cursor.to_dict()}).encode()

    @classmethod
    def decode(cls, value: bytes) -> "RecoveryPoint":
        """Raises `RecoveryPointDamaged` for anything but what `encode` writes."""
        try:
            fields = json.loads(value)
            return cls(int(fields["watermark"]), Cursor.from_dict(fields["cursor"]))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise RecoveryPointDamaged(
                f"the recovery point {value[:120]!r} is not readable ({error!r}). Mend: delete the key "
                f"{KEY!r} of the instance's KV bucket, and the engine begins at the present second"
            ) from error


async def read_recovery_point(bucket: KeyValue) -> RecoveryPoint | None:
    """The last one written, None on a first start. Raises `RecoveryPointDamaged`."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            entry = await bucket.get(KEY)
    except KeyNotFoundError:
        return None
    return RecoveryPoint.decode(entry.value or b"")


class RecoveryWriter:
    """Writes the recovery point each second in which it moved."""

    def __init__(self, bucket: KeyValue, current: Callable[[], RecoveryPoint]) -> None:
        self._bucket = bucket
        self._current = current
        self._written: RecoveryPoint | None = None
        self._failing = False

    async def run_once(self) -> bool:
        """Write if it moved; False when the broker did not take it, which is tried again next time."""
        point = self._current()
        if point == self._written:
            return True
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                await self._bucket.put(KEY, point.encode())
        except (NatsError, OSError, TimeoutError) as error:
            self._tell(
                f"the broker does not take the recovery point ({str(error) or 'no answer'}); trying again"
            )
            return False
        self._written = point
        self._failing = False
        return True

    async def run(self) -> None:
        """Write for ever."""
        while True:
            await self.run_once()
            await asyncio.sleep(_PERIOD_S)

    def _tell(self, text: str) -> None:
        if not self._failing:
            log.warning(text)
        self._failing = True
