"""Gap records: which stretches of late seconds left runs out, and how many by which reason.

A stretch goes from the first instant of a run that catch-up skipped to the last, and ends with the first
second that is drained in time. While it is open it is a part of the recovery point, so that the two are of
one moment: a node that goes on from there neither loses what was skipped before nor counts it twice. Once
it is over it is written under a key of its own, before the recovery point drops it; to write it again changes
nothing.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

KEY = "gaps."
# So long a record is kept: their number is bounded by that, for no stretch is shorter than a few seconds.
KEEP_S = 7 * 86_400

OWED_MAX_S = 24 * 3600
"""No run is owed for longer than this, whatever its catch-up policy."""

NOT_COUNTED = None
START = "start"
"""The reason of what lies before the first second of an instance that has no recovery point."""


@dataclass(frozen=True, slots=True)
class Gap:
    """first, last: epoch seconds, both inclusive. skipped: runs by reason, None where nobody counted."""

    first: int
    last: int
    skipped: Mapping[str, int | None]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"from": self.first, "to": self.last, "skipped": dict(self.skipped)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Gap":
        """The inverse of `to_dict`. Raises LookupError, TypeError or ValueError for anything else."""
        skipped = {
            str(reason): None if count is None else int(count)
            for reason, count in dict(fields["skipped"]).items()
        }
        return cls(int(fields["from"]), int(fields["to"]), skipped)

    def with_skipped(self, more: "Skipped") -> "Gap":
        """The stretch with these."""
        total = dict(self.skipped)
        for reason, count in more.runs.items():
            before = total.get(reason, 0)
            total[reason] = NOT_COUNTED if before is NOT_COUNTED else before + count
        return Gap(min(self.first, more.first), max(self.last, more.last), total)


@dataclass(slots=True)
class Skipped:
    """Runs left out, by reason, and from when to when they were due; falsy while there are none."""

    runs: Counter[str] = field(default_factory=Counter)
    first: int = 0
    last: int = 0

    def __bool__(self) -> bool:
        return bool(self.runs)

    def add(self, runs: Mapping[str, int], span: tuple[int, int]) -> None:
        """So many more, due in that span."""
        if not (more := +Counter(runs)):
            return
        first, last = span
        self.first, self.last = (min(self.first, first), max(self.last, last)) if self.runs else span
        self.runs += more


class Gaps:
    """The stretch that is open at the watermark, and those before it that are over and not yet written."""

    def __init__(self, open_one: Gap | None = None) -> None:
        self.open = open_one
        self.over: list[Gap] = []

    def __repr__(self) -> str:
        return f"Gaps(open={self.open}, over={self.over})"

    def settled(self, skipped: Skipped, *, in_time: bool) -> None:
        """The watermark has come to one more second; call for each, in order."""
        if skipped:
            self.open = (self.open or Gap(skipped.first, skipped.last, {})).with_skipped(skipped)
        if in_time and self.open is not None:
            self.over.append(self.open)
            self.open = None

    def written(self, gap: Gap) -> None:
        """This one, the oldest of those that are over, is safe."""
        self.over.remove(gap)


def key_of(gap: Gap) -> str:
    """The name in the bucket: the same for the same stretch, whoever writes it and however often."""
    return f"{KEY}{gap.first}"
