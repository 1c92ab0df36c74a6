"""What gap records excuse: runs that catch-up skipped, no more of them than the record counts.

A record names a stretch of late seconds (`from` and `to`, both inclusive) and how many runs of it were
skipped, by reason; null is a number that nobody knows. Within a stretch the oldest runs are excused first,
for it is the newest that catch-up keeps.

A run that can never be stored is excused by the note that an engine left of it (`dead_letters.py`).
"""

import json
from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainspring.changelog_tailer import CATCH_UP_LATEST, CATCH_UP_NONE
from mainspring.engine.broker.bucket import Bucket
from mainspring.engine.failover.gaps import KEY as GAPS
from mainspring.engine.failover.gaps import NOT_COUNTED, START, Gap
from mainspring.engine.failover.recovery import read_recovery_point
from mainspring.engine.publishing.dead_letters import KEY as DEAD
from mainspring.engine.verify.effect import Instants

_UNCOUNTED: Final = 2**62
_REASONS: Final = {CATCH_UP_NONE: ("none", START), CATCH_UP_LATEST: ("latest", "window", START)}
_REASONS_OF_ALL: Final = ("window", START)


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


async def read_told(bucket: Bucket) -> Told | None:
    """All that the bucket holds, the gap that is still open among it, gaps oldest first; None where no engine
    has left a recovery point.
    """
    names = await bucket.names(GAPS)
    values = [value for name in names if (value := await bucket.get(name)) is not None]
    point = await read_recovery_point(bucket)
    if point is None:
        return None
    gaps = [Gap.from_dict(json.loads(value)) for value in values]
    gaps += [point.gap] if point.gap is not None else []
    longest = {gap.first: gap for gap in sorted(gaps, key=lambda gap: gap.last)}
    notes = [note for name in await bucket.names(DEAD) if (note := await bucket.get(name)) is not None]
    dead = (run.split("@") for note in notes for run in json.loads(note))
    return Told(
        point.watermark,
        [longest[first] for first in sorted(longest)],
        frozenset((int(job), int(at)) for job, at in dead),
    )


def excuse(
    gaps: list[Gap], at: Instants, until: Instants, *policies: NDArray[np.uint8]
) -> tuple[NDArray[np.bool_], Counter[str]]:
    """Which of these runs, none of them stored, the gaps excuse; and how many by reason.

    at, until: (n,) the first and the last second that each may have been due in. policies: (n,) that of each
    run's job, likeliest first: around a change either may have held.
    """
    excused, skipped = np.zeros(len(at), np.bool_), Counter[str]()
    for gap in gaps:
        left = {
            reason: _UNCOUNTED if count is NOT_COUNTED else count for reason, count in gap.skipped.items()
        }
        for catch_up in policies:
            inside = (until >= gap.first) & (at <= gap.last) & ~excused
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
