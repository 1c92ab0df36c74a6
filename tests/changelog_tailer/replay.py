"""The jobs as a reader of the log knows them, in plain Python."""

from typing import Any

import asyncpg

from mainspring.changelog_tailer import (
    OP_DELETE,
    OP_INSERT,
    OP_LOAD,
    OP_TRUNCATE,
    OP_UPDATE,
    ROW,
    Cursor,
    Decoder,
    Rows,
    changes_between,
    cursor_now,
    load,
    undo_since,
)

_PLAIN = (
    "run_at", "starts_at", "ends_at", "boost_until", "every_s", "phase_s", "jitter_s", "boost_every_s",
    "enabled", "first_run_soon", "catch_up",
)  # fmt: skip
assert set(_PLAIN) < set(ROW.names or ())


def definition(rows: Rows, position: int) -> dict[str, Any]:
    """Everything that decides a job's runs, without the numbers that only the decoder gives out."""
    row = rows.rows[position]
    found: dict[str, Any] = {name: int(row[name]) for name in _PLAIN}
    found["key"] = rows.key(position)
    found["payload"] = rows.payload(position)
    found["route"] = rows.routes[row["route"]]
    found["cron"] = rows.crons[row["cron"]]
    return found


class Replay:
    """Applies rows in the order given and remembers the seq of each."""

    def __init__(self, jobs: dict[int, dict[str, Any]] | None = None) -> None:
        self.jobs = dict(jobs or {})
        self.seqs: list[int] = []
        self.ops: list[tuple[int, int]] = []

    async def sink(self, rows: Rows) -> None:
        for position in range(len(rows)):
            self._apply(rows, position)

    async def page_sink(self, rows: Rows, _: Cursor) -> None:
        await self.sink(rows)

    def _apply(self, rows: Rows, position: int) -> None:
        row = rows.rows[position]
        op, job_id = int(row["op"]), int(row["job_id"])
        self.seqs.append(int(row["seq"]))
        self.ops.append((op, job_id))
        if op in (OP_LOAD, OP_INSERT, OP_UPDATE):
            self.jobs[job_id] = definition(rows, position)
        elif op == OP_DELETE:
            self.jobs.pop(job_id, None)
        elif op == OP_TRUNCATE:
            self.jobs.clear()


async def loaded(connection: asyncpg.Connection) -> tuple[Replay, Cursor]:
    """The table now, and the cursor of that moment."""
    replay = Replay()
    cursor = await load(connection, replay.sink, Decoder())
    return replay, cursor


async def changes_since(connection: asyncpg.Connection, since: Cursor) -> tuple[Replay, Cursor]:
    """The changes from `since` until now, and the cursor of now."""
    replay = Replay()
    upto = await cursor_now(connection)
    await changes_between(connection, since, upto, replay.sink, Decoder())
    return replay, upto


async def undone(connection: asyncpg.Connection, since: Cursor) -> Replay:
    """The jobs as they were at `since`, made from the table now and the log."""
    replay, upto = await loaded(connection)
    await undo_since(connection, since, upto, replay.sink, Decoder())
    return replay
