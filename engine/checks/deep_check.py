"""`mainspring doctor --deep`: does the wheel of a running node hold what the table holds, every job of it?

    finding = await compare(settings, "http://127.0.0.1:8088")

The node tells digest and number of the jobs of each shard, and the cursor they belong to. The table is read
as that cursor saw it, through the node's own decoder and judge, and each definition is hashed by the function
that hashed it in the wheel. So nothing has to stand still, and nothing is sampled. Where a shard differs, the
node names its jobs, and those that no change since then has touched tell which they are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import aiohttp
import asyncpg
import numpy as np
from numpy.typing import NDArray

from mainspring.changelog_tailer import LOST, ChangeLogError, Cursor, Decoder, Rows, close, connect
from mainspring.changelog_tailer.past import Past, load_at
from mainspring.engine.checks.findings import Finding
from mainspring.engine.config import Settings
from mainspring.engine.intake.judge import Judge
from mainspring.engine.intake.quarantine import Quarantine
from mainspring.engine.tls import postgres_tls
from mainspring.wheel import OP_LOAD, SHARDS, Wheel, shards_of

NAME: Final = "wheel against table"
TIMEOUT_S: Final = 300.0
SHARDS_NAMED: Final = 4
JOBS_NAMED: Final = 5
_RELOAD: Final = "restart that node, it loads the jobs again; and report it with what this line names"

Uint64s = NDArray[np.uint64]
Int64s = NDArray[np.int64]
T = TypeVar("T")


class NodeSilent(Exception):
    """The node does not tell its digests; the message says why."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Of each shard, both of shape (256,)."""

    digests: Uint64s
    jobs: Int64s

    def differing(self, other: "Sums") -> list[int]:
        """The shards in which the two are not the same."""
        return [int(s) for s in np.flatnonzero((self.digests != other.digests) | (self.jobs != other.jobs))]


@dataclass(frozen=True, slots=True)
class Difference:
    """What one shard holds otherwise than the table: ids, sorted."""

    shard: int
    missing: list[int]
    surplus: list[int]
    changed: list[int]

    def __str__(self) -> str:
        parts = [
            f"{len(ids)} {what} ({', '.join(map(str, ids[:JOBS_NAMED]))}{', ...' * (len(ids) > JOBS_NAMED)})"
            for ids, what in (
                (self.missing, "missing"),
                (self.surplus, "not in the table"),
                (self.changed, "with another definition"),
            )
            if ids
        ]
        return f"shard {self.shard}: {', '.join(parts) or 'no job that stood still differs now'}"


async def compare(settings: Settings, node: str) -> Finding:
    """Hold the wheel of the node at this address against the table; what is away is told, not raised."""
    try:
        async with _Node(node) as asked:
            return await _compare(settings, asked)
    except NodeSilent as silent:
        return Finding(NAME, False, str(silent), "start the node, or name it: --node http://HOST:PORT")
    except (*LOST, ChangeLogError) as error:
        return Finding(NAME, False, str(error) or repr(error), "mend what the line names, and ask again")


async def _compare(settings: Settings, node: "_Node") -> Finding:
    told = await node.get()
    held = Sums(_hex(told["sums"]), np.array(told["jobs"], np.int64))
    table = _Table(settings)
    expected, moved = await table.sums(Cursor.from_dict(told["cursor"]))
    differing = held.differing(expected)
    if not differing:
        says = f"{held.jobs.sum():,} jobs, the same in each of {SHARDS} shards"
        return Finding(
            NAME, True, f"{says}; {moved:,} were changed after that reading of the log" if moved else says
        )
    named = [str(await _difference(node, table, shard)) for shard in differing[:SHARDS_NAMED]]
    return Finding(NAME, False, f"{len(differing)} shards differ: {'; '.join(named)}", _RELOAD)


async def _difference(node: "_Node", table: "_Table", shard: int) -> Difference:
    told = await node.get(shard)
    held_ids, held = np.array(told["ids"], np.int64), _hex(told["digests"])
    ids, digests, moved = await table.shard(shard, Cursor.from_dict(told["since"]))
    here = dict(zip(ids.tolist(), digests.tolist(), strict=True))
    there = dict(zip(held_ids.tolist(), held.tolist(), strict=True))
    still = (here.keys() | there.keys()) - set(moved.tolist())
    return Difference(
        shard,
        missing=sorted(job for job in still if job not in there),
        surplus=sorted(job for job in still if job not in here),
        changed=sorted(job for job in still if job in here and job in there and here[job] != there[job]),
    )


class _Node:
    """A running node, asked over HTTP."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/") + "/api/digest"
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S))

    async def __aenter__(self) -> "_Node":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get(self, shard: int | None = None) -> dict[str, Any]:
        """Its answer. Raises NodeSilent."""
        query = {} if shard is None else {"shard": shard}
        try:
            async with self._session.get(self._url, params=query) as answer:
                if answer.status != 200:
                    raise NodeSilent(f"{self._url} answers {answer.status}: {(await answer.text()).strip()}")
                return dict(await answer.json())
        except (aiohttp.ClientError, TimeoutError) as error:
            raise NodeSilent(
                f"no node answers at {self._url} ({str(error) or 'no answer in time'})"
            ) from error


class _Table:
    """The jobs in Postgres as a node would load them; its empty wheel numbers routes and expressions."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._wheel = Wheel(0)
        self._judge = Judge(self._wheel, _Untold())
        self._decoder = Decoder()

    async def sums(self, since: Cursor) -> tuple[Sums, int]:
        """Digest and number of the jobs of each shard as `since` saw them, and how many changed later."""
        sums = Sums(np.zeros(SHARDS, np.uint64), np.zeros(SHARDS, np.int64))

        async def add(rows: Rows) -> None:
            _, digests, shards = self._digested(rows)
            np.add.at(sums.digests, shards, digests)
            np.add.at(sums.jobs, shards, 1)

        past: Past = await self._read(lambda connection: load_at(connection, since, add, self._decoder))
        return sums, len(past.moved)

    async def shard(self, shard: int, since: Cursor) -> tuple[Int64s, Uint64s, Int64s]:
        """Id and digest of each of its jobs as `since` saw them, and the ids of what was changed later."""
        ids: list[Int64s] = []
        digests: list[Uint64s] = []

        async def keep(rows: Rows) -> None:
            found, their, shards = self._digested(rows)
            ids.append(found[shards == shard])
            digests.append(their[shards == shard])

        past: Past = await self._read(lambda connection: load_at(connection, since, keep, self._decoder))
        none = np.empty(0, np.int64)
        return np.concatenate([none, *ids]), np.concatenate([none.astype(np.uint64), *digests]), past.moved

    def _digested(self, rows: Rows) -> tuple[Int64s, Uint64s, NDArray[np.uint8]]:
        """Ids, digests and shards of the good ones: one in quarantine is in no wheel."""
        batch = self._judge.judge(rows)
        good = batch.definitions[batch.definitions["op"] == OP_LOAD]
        ids = np.ascontiguousarray(good["id"])
        return ids, self._wheel.digests(good, batch.texts), shards_of(ids)

    async def _read(self, read: Callable[[asyncpg.Connection], Any]) -> Any:
        tls = postgres_tls(self._settings)
        connection = await connect(self._settings.postgres_dsn, ssl_context=tls)
        try:
            return await read(connection)
        finally:
            await close(connection)


class _Untold(Quarantine):
    """`doctor` has a finding of its own for what is in quarantine."""

    def add(self, job_id: int, reason: str) -> None:
        """Nothing is said and nothing kept."""


def _hex(digests: list[str]) -> Uint64s:
    return np.array([int(digest, 16) for digest in digests], np.uint64)
