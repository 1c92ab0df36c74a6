"""The rows that the decoder gives: one layout for the table, its change log, and what undoes it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NEVER = 2**63 - 1
BEGINNING = -(2**63)

OP_LOAD = 0
OP_INSERT = 1
OP_UPDATE = 2
OP_DELETE = 3
OP_TRUNCATE = 4
OP_UNKNOWN = 255

CATCH_UP_ALL = 0
CATCH_UP_LATEST = 1
CATCH_UP_NONE = 2
CATCH_UP_UNKNOWN = 255

ROW = np.dtype(
    [
        ("seq", "i8"),  # 0 in a load
        ("job_id", "i8"),
        ("changed_at", "i8"),  # epoch microseconds; 0 in a load, but for a newcomer's
        ("run_at", "i8"),  # NEVER when null
        ("starts_at", "i8"),  # BEGINNING when null
        ("ends_at", "i8"),  # NEVER when null
        ("boost_until", "i8"),  # BEGINNING when null
        ("every_s", "i4"),  # 0 when null
        ("phase_s", "i4"),  # -1 when null
        ("jitter_s", "i4"),  # -1 when null
        ("boost_every_s", "i4"),  # 0 when null
        ("route", "u4"),  # index into Rows.routes
        ("cron", "u4"),  # index into Rows.crons, 0 when null
        ("key_at", "u4"),  # slice of Rows.texts, length 0 when null
        ("key_len", "u4"),
        ("data_at", "u4"),  # slice of Rows.texts, length 0 when null
        ("data_len", "u4"),
        ("op", "u1"),
        ("enabled", "u1"),
        ("first_run_soon", "u1"),
        ("catch_up", "u1"),
    ],
    align=True,
)


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows, in the order in which the server sent them.

    rows: (n,) of ROW; instants are epoch seconds, rounded up, so that comparisons with whole seconds stay
    true. texts: UTF-8 keys and payloads, and bytes between them that mean nothing. routes and crons belong to
    the decoder, are shared by all its Rows and only ever grow; crons are (expression, zone).
    """

    rows: NDArray[np.void]
    texts: bytes
    routes: list[str]
    crons: list[tuple[str, str]]

    def __len__(self) -> int:
        return len(self.rows)

    def key(self, position: int) -> str | None:
        """The key of one row."""
        return self._text("key", position)

    def payload(self, position: int) -> str | None:
        """The payload of one row, as JSON text."""
        return self._text("data", position)

    def _text(self, field: str, position: int) -> str | None:
        row = self.rows[position]
        at, length = int(row[f"{field}_at"]), int(row[f"{field}_len"])
        return self.texts[at : at + length].decode() if length else None
