"""Where a reader of the change log stands."""

import re
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

_SNAPSHOT = re.compile(r"\d{1,20}:\d{1,20}:(\d{1,20}(,\d{1,20})*)?")


@dataclass(frozen=True, slots=True)
class Cursor:
    """All changes whose transactions `snapshot` sees are known, and no others.

    A position in a sequence would lose changes, since commits come out of order. A snapshot means nothing
    outside the history of one log: system_identifier names the cluster, timeline its line of succession,
    database and log_table (oids) the log in it. snapshot: text of a `pg_snapshot`, `xmin:xmax:xip,...`.
    """

    system_identifier: int
    timeline: int
    snapshot: str
    database: int = 0
    log_table: int = 0

    def __post_init__(self) -> None:
        # The snapshot goes into SQL as a literal, and a cursor may come from a store that others write.
        if not isinstance(self.snapshot, str) or not _SNAPSHOT.fullmatch(self.snapshot):
            raise ValueError(f"snapshot {str(self.snapshot)[:60]!r} is not of the form xmin:xmax:xip,...")

    def at(self, snapshot: str) -> "Cursor":
        """The same log at another snapshot."""
        return replace(self, snapshot=snapshot)

    def same_log(self, other: "Cursor") -> bool:
        """Whether the two snapshots can be compared."""
        return self.log_identity() == other.log_identity()

    def same_database(self, other: "Cursor") -> bool:
        """Whether both are of one database, be it that its log was made anew or its server took over."""
        return (self.system_identifier, self.database) == (other.system_identifier, other.database)

    def log_identity(self) -> tuple[int, int, int, int]:
        """(system identifier, timeline, database, log table)."""
        return self.system_identifier, self.timeline, self.database, self.log_table

    @property
    def xmin(self) -> int:
        """The first transaction id that was still open: the snapshot sees all before it."""
        return int(self.snapshot.split(":")[0])

    @property
    def xmax(self) -> int:
        """The first transaction id not yet assigned when the snapshot was taken."""
        return int(self.snapshot.split(":")[1])

    @property
    def open_ids(self) -> str:
        """The transaction ids below xmax that were open, with commas between them."""
        return self.snapshot.split(":")[2]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The inverse of `to_dict`. Raises ValueError or TypeError for anything else."""
        names = ("system_identifier", "timeline", "database", "log_table")
        numbers = {name: int(fields.get(name, 0)) for name in names}
        return cls(snapshot=fields.get("snapshot", ""), **numbers)
