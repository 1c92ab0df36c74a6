"""Jobs in ``mainspring.jobs``, one at a time, by id or key."""

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import asyncpg

from mainspring.engine.jobs.definition import Definition
from mainspring.engine.jobs.editing import changed_fields, edited
from mainspring.engine.jobs.errors import IdTaken, KeyTaken, UnknownJob
from mainspring.engine.jobs.fields import INT8_MAX, INT8_MIN
from mainspring.engine.jobs.queries import query

_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_BATCH_ROWS: Final = 1000
_WIDTH: Final = len(Definition._fields)


@dataclass(frozen=True, slots=True)
class Job:
    """A stored definition, with what the database wrote beside it."""

    definition: Definition
    created_at: datetime
    updated_at: datetime

    @property
    def id(self) -> int:
        assert self.definition.id is not None  # the column is the primary key
        return self.definition.id


@dataclass(frozen=True, slots=True)
class Held:
    """What held at an instant by the change log: a definition, or None where the job was not there.

    `unsure_before`: between the instant and this moment the job may have been changed and the log no longer
    tell of it, for it was pruned at `pruned_at`. None where the log tells all.
    """

    definition: Definition | None
    unsure_before: datetime | None = None
    pruned_at: datetime | None = None


class JobStore:
    """The table over one connection. Each method is one transaction of its own."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def add(self, definition: Definition) -> Job:
        """Insert; the database gives an id where there is none. Raises KeyTaken, IdTaken."""
        given = changed_fields(Definition(), definition)
        values = ", ".join(f"${position}" for position in range(1, len(given) + 1))
        statement = query("insert", columns=", ".join(given), values=values)
        return await self._written(statement, *given.values(), key=definition.key)

    async def find(self, name: str) -> Job:
        """The job with this id or key; raises UnknownJob."""
        return await self._find("find", name)

    async def held_at(self, job: Job, instant: datetime) -> Held:
        """The definition that held at an instant, and how far the change log bears it out.

        What the log does not reach back to is taken to have been as it was when it begins.
        """
        if instant < job.created_at:
            return Held(None)
        if job.updated_at <= instant:
            return Held(job.definition)
        row = await self._connection.fetchrow(query("first_change_since"), job.id, instant)
        if row is None:
            return Held(job.definition)
        if row["op"] == "insert":
            return Held(None)
        held = Definition(id=job.id, **{name: row[name] for name in Definition._fields[1:]})
        if row["pruned_at"] is None:
            return Held(held)
        return Held(held, row["changed_at"], row["pruned_at"])

    async def edit(self, name: str, changes: Mapping[str, object], clear: Iterable[str] = ()) -> Job:
        """Change the given fields alone, see ``edited``; raises UnknownJob, KeyTaken, DefinitionError."""
        async with self._connection.transaction():
            job = await self._find("find_for_update", name)
            new = edited(job.definition, changes, clear)
            differing = changed_fields(job.definition, new)
            if not differing:
                return job
            assignments = ", ".join(f"{column} = ${position}" for position, column in enumerate(differing, 2))
            statement = query("update", assignments=assignments)
            return await self._written(statement, job.id, *differing.values(), key=new.key)

    async def set_enabled(self, names: list[str], *, enabled: bool) -> dict[str, bool]:
        """Resume or pause all of the jobs or, where one is unknown, none; name -> whether that changed it."""
        async with self._connection.transaction():
            ids = await self._ids(names)
            rows = await self._connection.fetch(query("set_enabled"), list(ids.values()), enabled)
        changed = {row["id"] for row in rows}
        return {name: job_id in changed for name, job_id in ids.items()}

    async def remove(self, names: list[str]) -> list[int]:
        """Delete all of the jobs or, where one is unknown, none; their ids."""
        async with self._connection.transaction():
            ids = await self._ids(names)
            rows = await self._connection.fetch(query("remove"), list(ids.values()))
        return sorted(row["id"] for row in rows)

    async def list(
        self,
        *,
        route: str | None = None,
        kind: str | None = None,
        enabled: bool | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[Job]:
        """Jobs in id order, streamed from a cursor: any number of them in flat memory."""
        async with self._connection.transaction(readonly=True):
            statement = query("list")
            cursor = self._connection.cursor(statement, route, kind, enabled, limit, prefetch=_BATCH_ROWS)
            async for row in cursor:
                yield _job(row)

    async def _find(self, statement: str, name: str) -> Job:
        row = await self._connection.fetchrow(query(statement), _id_in(name), name)
        if row is None:
            raise UnknownJob([name])
        return _job(row)

    async def _ids(self, names: Iterable[str]) -> dict[str, int]:
        ids = {}
        unknown = []
        for name in dict.fromkeys(names):
            try:
                ids[name] = (await self.find(name)).id
            except UnknownJob:
                unknown.append(name)
        if unknown:
            raise UnknownJob(unknown)
        return ids

    async def _written(self, statement: str, *values: object, key: str | None) -> Job:
        try:
            return _job(await self._connection.fetchrow(statement, *values))
        except asyncpg.UniqueViolationError as error:
            if error.constraint_name == "jobs_key_key" and key is not None:
                raise KeyTaken(key) from error
            raise IdTaken from error


def _id_in(name: str) -> int | None:
    if _INTEGER.fullmatch(name) and INT8_MIN <= int(name) <= INT8_MAX:
        return int(name)
    return None


def _job(row: asyncpg.Record) -> Job:
    values = tuple(row)
    return Job(Definition(*values[:_WIDTH]), row["created_at"], row["updated_at"])
