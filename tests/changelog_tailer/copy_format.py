"""A writer of binary COPY in plain Python, the other side of the decoder."""

import struct
from collections.abc import Iterable
from typing import Any

HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
TRAILER = b"\xff\xff"
EPOCH_2000_US = 946_684_800 * 1_000_000
INFINITY = 2**63 - 1

LOG_COLUMNS = ("seq", "op", "changed_at")
JOB_COLUMNS = (
    "job_id", "key", "every_s", "cron", "run_at", "tz", "phase_s", "jitter_s", "starts_at", "ends_at",
    "boost_every_s", "boost_until", "catch_up", "first_run_soon", "enabled", "route", "payload",
)  # fmt: skip
_INT8 = ("seq", "job_id")
_INT4 = ("every_s", "phase_s", "jitter_s", "boost_every_s")
_INSTANTS = ("changed_at", "run_at", "starts_at", "ends_at", "boost_until")

JOB: dict[str, Any] = dict.fromkeys(JOB_COLUMNS) | {
    "job_id": 1,
    "every_s": 60,
    "tz": "UTC",
    "catch_up": "all",
    "first_run_soon": False,
    "enabled": True,
    "route": "default",
}
CHANGE: dict[str, Any] = {"seq": 1, "op": "insert", "changed_at": 0} | JOB


def field(name: str, value: Any) -> bytes:
    """One field with its length. Instants are epoch microseconds, or plus or minus INFINITY."""
    if value is None:
        return struct.pack(">i", -1)
    data = value if isinstance(value, bytes) else _encoded(name, value)
    return struct.pack(">i", len(data)) + data


def _encoded(name: str, value: Any) -> bytes:
    if name in _INT8:
        return struct.pack(">q", value)
    if name in _INT4:
        return struct.pack(">i", value)
    if name in _INSTANTS:
        infinite = {INFINITY: 2**63 - 1, -INFINITY: -(2**63)}
        return struct.pack(">q", infinite.get(value, value - EPOCH_2000_US))
    if isinstance(value, bool):
        return struct.pack(">?", value)
    text: bytes = value.encode()
    return b"\x01" + text if name == "payload" else text


def row(values: dict[str, Any]) -> bytes:
    """One row of the table, or of the log where it has a seq."""
    columns = (*LOG_COLUMNS, *JOB_COLUMNS) if "seq" in values else JOB_COLUMNS
    return struct.pack(">h", len(columns)) + b"".join(field(name, values[name]) for name in columns)


def copy_of(rows: Iterable[dict[str, Any]]) -> bytes:
    """A whole COPY."""
    return HEADER + b"".join(row(values) for values in rows) + TRAILER
