"""What an audit found, as it is printed."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Report:
    """first, stop: the span [first, stop), epoch seconds.

    owed: runs that had to come. stored: distinct runs of the span in the stream. either: those of them of
    which a change left open whether they had to come. skipped: owed, and left out by catch-up as a gap record
    tells. dead_lettered: owed, and can never be stored, as its record tells. evicted: owed, and older than
    what the stream still holds. judged_from: `first`, or the instant from which on the stream holds all.
    hands: runs by hand.
    """

    first: int
    stop: int
    jobs: int = 0
    quarantined: int = 0
    changes: int = 0
    messages: int = 0
    owed: int = 0
    stored: int = 0
    either: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    dead_lettered: int = 0
    evicted: int = 0
    judged_from: int = 0
    hands: int = 0
    missing: int = 0
    duplicate: int = 0
    unexpected: int = 0
    missing_ids: list[str] = field(default_factory=list)
    duplicate_ids: list[str] = field(default_factory=list)
    unexpected_ids: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether nothing is missing, twice there, or there without being owed."""
        return not (self.missing or self.duplicate or self.unexpected)

    def to_dict(self) -> dict[str, Any]:
        """For JSON; the span is half open."""
        names = list(self.__slots__)
        values = {name: getattr(self, name) for name in names[2:]}
        return {"from": self.first, "to": self.stop, **values}
