"""After ten minutes away a node publishes what the contract's catch-up names, and counts the rest to the run.

The outage is a recovery point that lies so far back; all else is a real node between real servers. Every job
has its instants where no second of a slow start decides. 600 s are leapt over, 380 s are stepped through.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from acceptance.node_process import running_node
from acceptance.oracle import Run, phase
from acceptance.stream_reader import stored_runs
from mainspring.changelog_tailer import schema
from mainspring.changelog_tailer.connection import cursor_now
from mainspring.engine.broker.bucket import Bucket
from mainspring.engine.broker.connections import Broker
from mainspring.engine.config import load_settings
from mainspring.engine.failover.recovery import KEY, RecoveryPoint

POLICIES = ("all", "latest", "none")
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
WINDOW_S = 90
NEWEST_S = 45
"""So long before the start lies the newest run of those that run each minute; the one before is too old."""

ONE_S = 300
"""And the only run of the others."""

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Fleet:
    """Jobs by name; the id follows from the place. Instants are epoch seconds."""

    watermark: int
    start: int

    def jobs(self) -> dict[str, dict[str, Any]]:
        one = self.start - ONE_S
        found: dict[str, dict[str, Any]] = {}
        minute: dict[str, Any] = {"every_s": MINUTE_S, "phase_s": (self.start - NEWEST_S) % MINUTE_S}
        for policy in POLICIES:
            kinds: dict[str, dict[str, Any]] = {
                "minute": minute,
                "hour": {"every_s": HOUR_S, "phase_s": one % HOUR_S},
                "longer": {"every_s": HOUR_S + 1, "phase_s": one % (HOUR_S + 1)},
                "nightly": {"every_s": DAY_S, "phase_s": one % DAY_S},
                "cron": {"cron": f"{at(one):%-S %-M %-H} * * *", "tz": "UTC"},
                "once": {"run_at": at(one)},
                "ended": minute | {"ends_at": at(self.start - 200)},
                "begun": minute | {"starts_at": at(self.start - 200)},
                "boosted": {"every_s": DAY_S, "phase_s": (self.start + HOUR_S) % DAY_S}
                | {"boost_every_s": 20, "boost_until": at(self.start - 150)},
            }
            found |= {f"{kind} {policy}": job | {"catch_up": policy} for kind, job in kinds.items()}
        return found

    def instants(self, job_id: int, kind: str) -> list[int]:
        """Those that the outage took."""
        each_minute = list(self._back(self.start - NEWEST_S, MINUTE_S))
        if kind == "boosted":
            grid = range(self.watermark + 1, self.start - 150)
            return [at for at in grid if at % 20 == phase(job_id, 20)]
        if kind in {"minute", "ended", "begun"}:
            begins = self.start - 200 if kind == "begun" else self.watermark
            ends = self.start - 200 if kind == "ended" else self.start
            return [at for at in each_minute if begins <= at < ends]
        return [self.start - ONE_S]

    def _back(self, newest: int, every_s: int) -> Iterator[int]:
        yield from sorted(range(newest, self.watermark, -every_s))

    def outcome(self) -> tuple[set[Run], Counter[str], list[int]]:
        """By the words of the contract: the runs published, the skipped by reason, and when they were due."""
        published: set[Run] = set()
        skipped: Counter[str] = Counter()
        skipped_at: list[int] = []
        for job_id, name in enumerate(self.jobs(), start=1):
            kind, policy = name.split()
            instants = self.instants(job_id, kind)
            for instant in instants:
                reason = self._reason(kind, policy, instant, newest=instant == instants[-1])
                if reason is None:
                    published.add((job_id, instant))
                else:
                    skipped[reason] += 1
                    skipped_at.append(instant)
        return published, skipped, skipped_at

    def _reason(self, kind: str, policy: str, instant: int, *, newest: bool) -> str | None:
        if policy == "none":
            return "none"
        # After the newest one under its boost the next comes in over an hour.
        long_gap = kind in {"longer", "nightly", "cron", "once"} or (kind == "boosted" and newest)
        if policy == "latest":
            return None if newest else "latest"
        return None if self.start - instant <= WINDOW_S or long_gap else "window"


def at(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


async def insert(connection: asyncpg.Connection, jobs: dict[str, dict[str, Any]]) -> None:
    for job_id, (name, job) in enumerate(jobs.items(), start=1):
        columns = {"id": job_id, "key": name} | job
        places = ", ".join(f"${n}" for n in range(1, len(columns) + 1))
        await connection.execute(
            f"insert into mainspring.jobs ({', '.join(columns)}) overriding system value values ({places})",
            *columns.values(),
        )


async def stop_at(fleet: Fleet, dsn: str, bucket: Bucket) -> None:
    """As a node leaves it that knew the fleet and settled the watermark last."""
    connection = await asyncpg.connect(dsn)
    await insert(connection, fleet.jobs())
    cursor = await cursor_now(connection)
    await bucket.put(KEY, RecoveryPoint(fleet.watermark, cursor).encode())
    await connection.close()


async def gap_record(bucket: Bucket, first: int) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while (value := await bucket.get(f"gaps.{first}")) is None:
            await asyncio.sleep(0.1)
    return dict(json.loads(value))


@pytest.mark.parametrize("away_s", [600, 380])
async def test_what_is_owed_comes_and_what_is_not_is_counted(
    away_s: int, database: str, nats_url: str, server_folder: Path
) -> None:
    await schema.init(database)
    instance = f"away{away_s}"
    broker = Broker(load_settings({"nats_url": nats_url, "instance": instance}))
    await broker.connect()
    bucket = await broker.bucket()
    start = int(time.time()) + 1
    fleet = Fleet(start - away_s, start)
    await stop_at(fleet, database, bucket)
    published, skipped, skipped_at = fleet.outcome()
    async with running_node(server_folder, database, nats_url, instance=instance) as node:
        await node.until_metric("mainspring_watermark_timestamp_seconds", start)
        counted = {
            reason: await node.metric(f'mainspring_runs_skipped_total{{reason="{reason}"}}')
            for reason in ("window", "latest", "none")
        }
        record = await gap_record(bucket, min(skipped_at))
        told = node.log.read_text()
    await broker.aclose()
    stored = await stored_runs(nats_url, instance.upper())
    assert {run for run in stored if run[1] < start} == published
    assert set(stored.values()) == {1}
    assert counted == dict(skipped)
    assert record == {"from": min(skipped_at), "to": max(skipped_at), "skipped": dict(skipped)}
    assert ("seconds lie beyond catch-up" in told) == (away_s == 600)
