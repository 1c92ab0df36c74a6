"""Writes records into ``mainspring.jobs`` in one transaction: upsert by id, else by key, else insert.

All records are staged by COPY in a temporary table, judged there against each other and against the
table, and then written by at most three statements. Memory is flat, whatever the size of the file, and
whoever stops it halfway leaves nothing behind.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import asyncpg

from mainspring.engine.jobs.definition import DefinitionError, Problem, read_definition
from mainspring.engine.jobs.errors import SessionLost, TableMoved
from mainspring.engine.jobs.queries import query
from mainspring.engine.jobs.records import Record
from mainspring.engine.jobs.staging import COLUMNS, staged_row

_CHUNK_ROWS: Final = 1000


@dataclass
class ImportReport:
    """What an import did, or with ``dry_run`` would have done.

    ``problems`` holds (line, problem) for the first ``problems_max`` bad lines; ``bad`` counts all of them.
    """

    problems_max: int = 100
    skip_bad: bool = False
    phase: str = "reading"
    read: int = 0
    bad: int = 0
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    written: bool = False
    problems: list[tuple[int, Problem]] = field(default_factory=list)

    @property
    def refused(self) -> bool:
        """Whether bad rows kept all others from being written."""
        return self.bad > 0 and not self.skip_bad

    def refuse(self, line: int, problems: Iterable[Problem]) -> None:
        """Count one bad line, and keep its problems while there is room."""
        self.bad += 1
        if self.bad <= self.problems_max:
            self.problems.extend((line, problem) for problem in problems)


class Import:
    """One import over one connection; ``run`` is called once."""

    def __init__(
        self,
        connection: asyncpg.Connection,
        *,
        skip_bad: bool = False,
        dry_run: bool = False,
        problems_max: int = 100,
        progress: Callable[[ImportReport], None] | None = None,
    ) -> None:
        self._connection = connection
        self._dry_run = dry_run
        self._progress = progress or (lambda _report: None)
        self.report = ImportReport(problems_max, skip_bad)

    async def run(self, records: Iterable[Record | bytes]) -> ImportReport:
        """Stage, judge, write. Nothing is written where a record is bad, unless ``skip_bad``.

        ``bytes`` are a staged row, good by itself.

        Raises TableMoved where others changed the same jobs meanwhile, SessionLost, and what Postgres raises.
        """
        try:
            async with self._connection.transaction():
                await self._stage(records)
                self._enter("checking")
                await self._refuse_conflicts()
                self.report.problems.sort(key=lambda entry: entry[0])
                if self.report.refused:
                    return self.report
                await self._count()
                if not self._dry_run:
                    self._enter("writing")
                    await self._write()
                    self._enter("committing")
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            if self._connection.is_closed():
                raise SessionLost(committing=self.report.phase == "committing") from error
            raise
        self.report.written = not self._dry_run
        return self.report

    def _enter(self, phase: str) -> None:
        self.report.phase = phase
        self._progress(self.report)

    async def _stage(self, records: Iterable[Record | bytes]) -> None:
        await self._connection.execute(query("widen_memory"))
        await self._connection.execute(query("create_stage"))
        await self._connection.copy_to_table(
            "job_import", schema_name="pg_temp", columns=COLUMNS, format="text", source=self._chunks(records)
        )
        await self._connection.execute(query("analyze_stage"))

    async def _chunks(self, records: Iterable[Record | bytes]) -> AsyncIterator[bytes]:
        rows: list[bytes] = []
        for record in records:
            self.report.read += 1
            row = record if isinstance(record, bytes) else self._row(record)
            if row is not None:
                rows.append(row)
            if self.report.read % _CHUNK_ROWS == 0:
                self._progress(self.report)
                yield b"".join(rows)
                rows.clear()
                # The driver only waits when its buffer is full: without this a Ctrl-C would never be heard.
                await asyncio.sleep(0)
                if self._connection.is_closed():
                    raise SessionLost(committing=False)
        yield b"".join(rows)

    def _row(self, record: Record) -> bytes | None:
        line, fields, problems = record
        try:
            definition = read_definition(fields)
        except DefinitionError as error:
            # A field that could not even be read hides the others' faults only where it is the whole line.
            problems = problems or error.problems
        if problems:
            self.report.refuse(line, problems)
            return None
        return staged_row(line, definition, says_enabled=fields.get("enabled") is not None)

    async def _refuse_conflicts(self) -> None:
        twice = await self._connection.fetch(query("conflicts_in_file"))
        await self._refuse(
            (
                row["line"],
                Problem(row["field"], f"{row['value']!r} stands on line {row['first_line']} already"),
            )
            for row in twice
        )
        taken = await self._connection.fetch(query("conflicts_with_table"))
        await self._refuse((row["line"], _taken(row)) for row in taken)

    async def _refuse(self, conflicts: Iterable[tuple[int, Problem]]) -> None:
        by_line: dict[int, list[Problem]] = {}
        for line, problem in conflicts:
            by_line.setdefault(line, []).append(problem)
        for line, problems in sorted(by_line.items()):
            self.report.refuse(line, problems)
        if by_line:
            await self._connection.execute(query("drop_lines"), list(by_line))

    async def _count(self) -> None:
        await self._connection.execute(query("create_match"))
        for meets in ("meets_by_id", "meets_by_key"):
            await self._connection.execute(query("match", meets=query(meets)))
        staged = await self._connection.fetchval(query("count_stage"))
        matched = await self._connection.fetchrow(query("count_match"))
        self.report.updated, self.report.unchanged = matched["changed"], matched["unchanged"]
        self.report.inserted = staged - matched["changed"] - matched["unchanged"]

    async def _write(self) -> None:
        updated = inserted = 0
        if self.report.updated:
            updated = await self._execute("update_matched")
        if self.report.inserted:
            inserted = await self._execute("insert_with_id")
            # Before the rows without an id draw theirs, or they would meet the ones just written.
            await self._connection.execute(query("advance_identity"))
            inserted += await self._execute("insert_without_id")
        if (updated, inserted) != (self.report.updated, self.report.inserted):
            raise TableMoved

    async def _execute(self, name: str) -> int:
        try:
            status = await self._connection.execute(query(name))
        except asyncpg.UniqueViolationError as error:
            raise TableMoved from error
        return int(status.rpartition(" ")[2])


def _taken(row: asyncpg.Record) -> Problem:
    if row["first_line"] is not None:
        return Problem(
            "key", f"{row['key']!r} is job {row['owner']}, which line {row['first_line']} gives by id"
        )
    return Problem("key", f"{row['key']!r} belongs to job {row['owner']}: give that id, or another key")
