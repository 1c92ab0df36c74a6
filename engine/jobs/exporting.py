"""Writes all of ``mainspring.jobs`` as a file that `jobs import` takes unchanged, ids included.

The rows are spelled by Postgres and only passed on here, so the export is one snapshot, keeps every
digit of a payload, and holds no more than a chunk in memory.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import asyncpg

from mainspring.engine.jobs.definition import judge_cron
from mainspring.engine.jobs.queries import query

# JSON text holds no raw control character, so with these two the CSV writer of Postgres never quotes
# and never escapes: what comes is the bare JSON, a line each.
_BARE: Final[dict[str, Any]] = {"format": "csv", "delimiter": "\x02", "quote": "\x01"}
_CSV: Final[dict[str, Any]] = {"format": "csv", "header": True}


async def export_jobs(
    connection: asyncpg.Connection, sink: Callable[[bytes], Awaitable[None]], *, fmt: str = "jsonl"
) -> int:
    """Hand the file's bytes to ``sink``, chunk by chunk in id order; the number of jobs written."""
    options = _CSV if fmt == "csv" else _BARE
    status = await connection.copy_from_query(query(f"export_{fmt}"), output=sink, **options)
    return int(status.rpartition(" ")[2])


async def unfit_crons(connection: asyncpg.Connection) -> list[tuple[int, int, str]]:
    """What import would refuse of an export: (jobs, id of one of them, reason) for each bad cron and zone."""
    rows = await connection.fetch(query("distinct_crons"))
    judged = ((row["jobs"], row["example"], judge_cron(row["cron"], row["tz"])) for row in rows)
    return [(jobs, example, reason) for jobs, example, reason in judged if reason is not None]
