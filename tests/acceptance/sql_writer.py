"""Writes interval jobs with plain SQL and keeps the history that the oracle judges by."""

import random
import time

import asyncpg

from acceptance.oracle import Change, JobHistory

INSERT = """
insert into mainspring.jobs (every_s, payload)
select every_s, '{"n": 1}' from unnest($1::int[]) every_s
returning id, every_s
"""


class SqlWriter:
    """Each method is one committed transaction; `histories` says what it means."""

    def __init__(self, connection: asyncpg.Connection, seed: int) -> None:
        self._connection = connection
        self._random = random.Random(seed)
        self._paused: dict[int, int] = {}
        self.histories: dict[int, JobHistory] = {}
        self.changes = 0

    async def insert(self, every_s: list[int]) -> None:
        """Add jobs, one for each interval."""
        begun = time.time()
        rows = await self._connection.fetch(INSERT, every_s)
        for row in rows:
            self._note(row["id"], begun, row["every_s"])

    async def random_change(self) -> None:
        """An insert, an edit, a pause, a resume or a delete."""
        action = self._random.choice((self._add, self._edit, self._pause, self._resume, self._delete))
        await action()
        self.changes += 1

    async def _add(self) -> None:
        await self.insert([self._interval()])

    async def _edit(self) -> None:
        every_s = self._interval()
        job_id = self._any_running()
        await self._change(job_id, every_s, "update mainspring.jobs set every_s = $2 where id = $1", every_s)

    async def _pause(self) -> None:
        job_id = self._any_running()
        self._paused[job_id] = self.histories[job_id].changes[-1].every_s or 0
        await self._change(job_id, None, "update mainspring.jobs set enabled = false where id = $1")

    async def _resume(self) -> None:
        if not self._paused:
            return await self._pause()
        job_id, every_s = self._paused.popitem()
        await self._change(job_id, every_s, "update mainspring.jobs set enabled = true where id = $1")
        return None

    async def _delete(self) -> None:
        await self._change(self._any_running(), None, "delete from mainspring.jobs where id = $1")

    async def _change(self, job_id: int, every_s: int | None, statement: str, *parameters: object) -> None:
        begun = time.time()
        await self._connection.execute(statement, job_id, *parameters)
        self._note(job_id, begun, every_s)

    def _note(self, job_id: int, begun: float, every_s: int | None) -> None:
        history = self.histories.setdefault(job_id, JobHistory(job_id))
        history.changes.append(Change(begun, time.time(), every_s))

    def _interval(self) -> int:
        return self._random.randint(5, 60)

    def _any_running(self) -> int:
        while True:
            job_id = self._random.choice(list(self.histories))
            if self.histories[job_id].changes[-1].every_s is not None:
                return job_id
