"""A writer of jobs that no outage of the server stops."""

import asyncio
import random

import asyncpg

from mainspring.changelog_tailer import LOST


class StubbornWriter:
    """Goes on through every outage and counts what it was told is committed."""

    def __init__(self, dsn: str, seed: int) -> None:
        self._dsn = dsn
        self._draw = random.Random(seed)
        self._connection: asyncpg.Connection | None = None
        self.committed = 0
        self.stopping = False

    async def run(self) -> None:
        while not self.stopping:
            try:
                self._connection = self._connection or await asyncpg.connect(self._dsn, timeout=5)
                await self._write(self._connection)
            except LOST:
                self._connection = None
                await asyncio.sleep(0.05)

    async def _write(self, connection: asyncpg.Connection) -> None:
        every_s = self._draw.randint(1, 10**6)
        statement = self._draw.choice(
            [
                f"insert into mainspring.jobs (every_s) values ({every_s})",
                f"update mainspring.jobs set every_s = {every_s} where id % 5 = 0",
                "delete from mainspring.jobs where id = (select min(id) from mainspring.jobs)",
            ]
        )
        if self._draw.random() < 0.3:
            await connection.execute(f"begin; {statement}; rollback")
        await connection.execute(statement)
        self.committed += 1
