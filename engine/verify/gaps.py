"""What gap records excuse: runs that catch-up skipped, no more of them than the record counts.

A record names a stretch of late seconds (`from` and `to`, both inclusive) and how many runs of it were
skipped, by reason; null is a number that nobody knows. Within a stretch the oldest runs are excused first,
for it is the newest that catch-up keeps.

A run that can never be stored is excused by a key of its own, `dead.<job id>.<instant>`, where an engine
writes one.
"""

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from nats.js.errors import KeyNotFoundError, NoKeysError
from nats.js.kv import KeyValue
from numpy.typing import NDArray

from mainspring.changelog_tailer import CATCH_UP_LATEST, CATCH_UP_NONE
from mainspring.engine.recovery import KEY
from mainspring.engine.verify.effect import Instants

GAPS: Final = "gaps."
DEAD: Final = "dead."
UNCOUNTED: Final = 2**62
_REASONS: Final = {CATCH_UP_NONE: ("none",), CATCH_UP_LATEST: ("latest", "window")}
_REASONS_OF_ALL: Final = ("window",)


@dataclass(frozen=True, slots=True)
class Gap:
    """first, last: epoch seconds. skipped: how many runs, by reason."""

    first: int
    last: int
    skipped: dict[str, int]

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Of the record's JSON."""
        skipped = {
            reason: UNCOUNTED if count is None else int(count) for reason, count in fields["skipped"].items()
        }
        return cls(int(fields["from"]), int(fields["to"]), skipped)


@dataclass(frozen=True, slots=True)
class Told:
    """What the engines of an instance told. dead: (job id, instant). watermark: all is settled up to it."""

    watermark: int
    gaps: list[Gap]
    dead: frozenset[tuple[int, int]] = frozenset()

    def is_dead(self, job_ids: Instants, at: Instants) -> NDArray[np.bool_]:
        """Which of these runs were set aside as dead letters."""
        if not self.dead:
            return np.zeros(len(at), np.bool_)
        pairs = zip(job_ids.tolist(), at.tolist(), strict=True)
        return np.fromiter((pair in self.dead for pair in pairs), np.bool_, len(at))


async def read_told(bucket: KeyValue, watermark: int) -> Told:
    """All that the bucket holds, the gap that is still open among it; gaps oldest first."""
    names = await _names(bucket)
    values = [value for name in names if name.startswith(GAPS) and (value := await _value(bucket, name))]
    open_gap = json.loads(await _value(bucket, KEY) or b"{}").get("gap")
    gaps = [Gap.from_dict(json.loads(value)) for value in values]
    gaps += [Gap.from_dict(open_gap)] if open_gap else []
    longest: dict[int, Gap] = {}
    for gap in sorted(gaps, key=lambda gap: gap.last):
        longest[gap.first] = gap
    dead = (name.removeprefix(DEAD).split(".") for name in names if name.startswith(DEAD))
    settled_gaps = [longest[first] for first in sorted(longest)]
    return Told(watermark, settled_gaps, frozenset((int(job), int(at)) for job, at in dead))


async def _names(bucket: KeyValue) -> list[str]:
    try:
        return list(await bucket.keys())
    except NoKeysError:
        return []


async def _value(bucket: KeyValue, name: str) -> bytes | None:
    try:
        return (await bucket.get(name)).value
    except KeyNotFoundError:
        return None


def excuse(
    gaps: list[Gap], at: Instants, catch_up: NDArray[np.uint8]
) -> tuple[NDArray[np.bool_], Counter[str]]:
    """Which of these runs, none of them stored, the gaps excuse; and how many by reason.

    at: (n,) the seconds they were due in. catch_up: (n,) the policy of each run's job.
    """
    excused, skipped = np.zeros(len(at), np.bool_), Counter[str]()
    for gap in gaps:
        left = dict(gap.skipped)
        inside = (at >= gap.first) & (at <= gap.last) & ~excused
        for policy in np.unique(catch_up[inside]).tolist():
            of_policy = np.flatnonzero(inside & (catch_up == policy))
            oldest_first = of_policy[np.argsort(at[of_policy], kind="stable")]
            for reason in _REASONS.get(policy, _REASONS_OF_ALL):
                count = min(len(oldest_first), left.get(reason, 0))
                excused[oldest_first[:count]] = True
                oldest_first = oldest_first[count:]
                left[reason] = left.get(reason, 0) - count
                skipped[reason] += count
    return excused, +skipped
