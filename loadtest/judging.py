"""The judge of a drill: `verify`, asked again and again, each time from where it was asked last."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from statistics import quantiles
from typing import Any, Final

from nats.errors import Error as NatsError

from mainspring.engine.broker.bucket import find_bucket
from mainspring.engine.cli.nats_connection import connected
from mainspring.engine.clock import SystemClock
from mainspring.engine.config import Settings
from mainspring.engine.failover.recovery import RecoveryPoint, read_recovery_point
from mainspring.engine.verify.effect import SLACK_DEFAULT_S, Effect
from mainspring.engine.verify.report import Report
from mainspring.engine.verify.verifying import verify
from mainspring.loadtest.node_process import NodeFailed

SETTLE_TIMEOUT_S: Final = 120.0
SUMS: Final = ("owed", "stored", "either", "evicted", "missing", "duplicate", "unexpected")
FAULTS: Final = ("missing", "duplicate", "unexpected")
_SHOWN: Final = 10
_KEPT: Final = 20
_LOOK_S: Final = 0.2


class Judge:
    """margin_s: so long after the call the judged span ends, for its last runs to be on time again."""

    def __init__(self, settings: Settings, tell: Callable[[str], None], *, margin_s: int = 3) -> None:
        self._settings, self._tell, self._margin_s = settings, tell, margin_s
        self._clock = SystemClock()
        self._judged_to = 0

    async def begin(self) -> None:
        """Wait until the first runs are stored: what is judged begins there."""
        self._judged_to = int(self._clock.now()) + self._margin_s
        await self.settled(self._judged_to)

    async def verdict(self, effect: Effect | None = None) -> Report:
        """Of all since the last one, once it is settled. Raises NodeFailed, and what `verify` raises."""
        stop = int(self._clock.now()) + self._margin_s
        await self.settled(stop)
        first, self._judged_to = self._judged_to, stop
        self._tell(f"verifying {stop - first} s")
        async with connected(self._settings, "judge") as client:
            return await verify(
                self._settings,
                client,
                first,
                stop,
                effect=effect or Effect(SLACK_DEFAULT_S),
                tell=lambda _text: None,
            )

    async def settled(self, second: int) -> None:
        """Until every run up to the second is settled. Raises NodeFailed."""
        try:
            async with asyncio.timeout(SETTLE_TIMEOUT_S):
                while (point := await self.point()) is None or point.watermark < second:
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            raise NodeFailed(
                f"not settled up to {second} within {SETTLE_TIMEOUT_S:.0f} s; see node.log"
            ) from None

    async def point(self) -> RecoveryPoint | None:
        """The recovery point as it is now; None where there is none, or the broker does not answer."""
        with suppress(NatsError, OSError):
            async with connected(self._settings, "judge") as client:
                bucket = await find_bucket(client.jetstream(), self._settings.instance)
                return None if bucket is None else await read_recovery_point(bucket)
        return None


def sums(reports: Iterable[Report]) -> dict[str, int]:
    """Of all figures that are counts of runs."""
    seen = list(reports)
    skipped = sum(sum(report.skipped.values()) for report in seen)
    return {name: sum(getattr(report, name) for report in seen) for name in SUMS} | {"skipped": skipped}


def told(report: Report) -> dict[str, Any]:
    """For JSON, with the first ids of each fault."""
    names = ("from", "to", *SUMS, "skipped", *(f"{name}_ids" for name in FAULTS))
    values = report.to_dict()
    return {name: values[name][:_KEPT] if name.endswith("_ids") else values[name] for name in names}


def lines(head: str, report: Report) -> Iterator[str]:
    """For people."""
    yield (
        f"{head}; {report.owed:,} owed, {report.missing} missing, {report.duplicate} duplicate, "
        f"{report.unexpected} unexpected, {sum(report.skipped.values())} skipped"
    )
    for name in FAULTS:
        if ids := getattr(report, f"{name}_ids"):
            yield f"    {name}: {', '.join(ids[:_SHOWN])}"


def quantile(seconds: list[float], percent: int) -> float | None:
    """None of nothing."""
    if not seconds:
        return None
    return quantiles(seconds, n=100, method="inclusive")[percent - 1] if len(seconds) > 1 else seconds[0]
