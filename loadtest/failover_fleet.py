"""The jobs of a drill, and a user who goes on changing them whatever happens to the nodes."""

import asyncio
import math
import random
from functools import cache
from importlib.resources import files
from typing import Final

import asyncpg

from mainspring.engine.clock import SystemClock

POLICIES: Final = ("all", "latest", "none")
_EVERY_S: Final = (5, 60)
_ONCE_WITHIN_S: Final = 40
_BOOST_S: Final = 30
_RUNS_PER_S: Final = 0.0495
"""Of a brisk job, by the mean of what `sow` draws from."""
_SOW_TIMEOUT_S: Final = 300


@cache
def _queries() -> dict[str, str]:
    text = (files("mainspring.loadtest") / "failover.sql").read_text("utf-8")
    _, *parts = text.split("-- name: ")
    return {name: body.strip() for name, _, body in (part.partition("\n") for part in parts)}


async def sow(
    connection: asyncpg.Connection,
    jobs: int,
    policies: tuple[str, ...],
    *,
    runs_per_s: float = math.inf,
    payload_bytes: int = 1,
) -> None:
    """Insert the fleet: so many jobs are brisk as come to that rate, the others run a few times a day."""
    brisk = math.ceil(min(jobs, runs_per_s / _RUNS_PER_S))
    await connection.execute(_queries()["sow"], jobs, policies, payload_bytes, brisk, timeout=_SOW_TIMEOUT_S)


class Changes:
    """Changes at random moments, each a transaction: inserts, edits, boosts, pauses, resumes and deletes."""

    def __init__(
        self, connection: asyncpg.Connection, seed: int, per_s: float, policies: tuple[str, ...]
    ) -> None:
        self._connection, self._per_s, self._policies = connection, per_s, policies
        self._random = random.Random(seed)
        self._clock = SystemClock()
        self.made = 0

    async def go_on(self, begun: asyncio.Event) -> None:
        """From then on, until cancelled."""
        await begun.wait()
        kinds = (
            *(self._add, self._add, self._add_once, self._edit, self._edit, self._boost),
            *(self._change_policy, self._pause, self._resume, self._delete),
        )
        while True:
            await self._random.choice(kinds)()
            self.made += 1
            await asyncio.sleep(self._random.expovariate(self._per_s))

    async def _add(self) -> None:
        soon = self._random.random() < 0.5
        await self._run("add", self._random.randint(*_EVERY_S), self._policy(), soon)

    async def _add_once(self) -> None:
        """Some are late when they are committed."""
        ahead_s = self._random.uniform(-_ONCE_WITHIN_S / 4, _ONCE_WITHIN_S)
        await self._run("add_once", self._clock.now() + ahead_s, self._policy())

    async def _edit(self) -> None:
        await self._run("edit", await self._any_job(), self._random.randint(*_EVERY_S))

    async def _boost(self) -> None:
        await self._run("boost", await self._any_job(), self._clock.now() + _BOOST_S)

    async def _change_policy(self) -> None:
        await self._run("policy", await self._any_job(), self._policy())

    async def _pause(self) -> None:
        await self._run("pause", await self._any_job())

    async def _resume(self) -> None:
        await self._run("resume", await self._any_job(enabled=False))

    async def _delete(self) -> None:
        await self._run("delete", await self._any_job())

    def _policy(self) -> str:
        return self._random.choice(self._policies)

    async def _any_job(self, *, enabled: bool = True) -> int | None:
        last = await self._connection.fetchval(_queries()["last_id"])
        found: int | None = await self._connection.fetchval(
            _queries()["any_job"], self._random.randint(1, max(1, last)), enabled
        )
        return found

    async def _run(self, name: str, *values: object) -> None:
        await self._connection.execute(_queries()[name], *values)
