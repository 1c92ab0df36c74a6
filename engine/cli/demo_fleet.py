"""The sample jobs of the demo: what a team that watches a few thousand machines would schedule."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import accumulate, islice
from pathlib import Path
from typing import NamedTuple

import asyncpg

KEY_PREFIX = "demo/"
COLUMNS = ("key", "every_s", "cron", "tz", "run_at", "route", "payload")
DEADLINE_S = 300.0

# (share of the checks in percent, interval in seconds): 48 runs a second for each thousand jobs.
MIX = ((5, 5), (10, 10), (15, 15), (40, 30), (30, 60))
KINDS = ("http", "tcp", "dns", "tls", "ping")
REGIONS = ("fra", "iad", "nrt", "gru")
CRONS = (
    ("every-minute-rollup", "* * * * *", "UTC", "reports.rollup"),
    ("five-minute-slo", "*/5 * * * *", "UTC", "reports.slo"),
    ("hourly-digest", "@hourly", "UTC", "reports.digest"),
    ("office-hours-canary", "*/2 8-18 * * MON-FRI", "America/New_York", "checks.canary"),
    ("nightly-backup", "30 2 * * *", "Europe/Berlin", "maintenance.backup"),
    ("weekly-certificates", "0 6 * * MON", "Asia/Tokyo", "maintenance.certificates"),
)
# Seconds from the start of the demo at which the one-shots run.
ONE_SHOTS = (("deploy-announcement", 10), ("canary-promotion", 20), ("cache-warm-up", 30))


class Sample(NamedTuple):
    """One sample job, in the order of COLUMNS."""

    key: str
    every_s: int | None
    cron: str | None
    tz: str
    run_at: datetime | None
    route: str
    payload: str


def fleet(jobs: int, now: int) -> list[Sample]:
    """Exactly ``jobs`` sample jobs; the same for the same number, but for the one-shots after ``now``."""
    specials = [*_cron_jobs(), *_one_shots(now)]
    extra = specials if jobs >= 10 * len(specials) else []
    return [*islice(_checks(), jobs - len(extra)), *extra]


async def sow(connection: asyncpg.Connection, jobs: int, now: int) -> None:
    """Make the sample jobs in the table exactly ``fleet(jobs, now)``, in one transaction.

    What is there already is not written again, so that a second demo starts without a new change.
    """
    statements = _statements()
    async with connection.transaction():
        await connection.execute(statements["stage"], timeout=DEADLINE_S)
        await connection.copy_records_to_table(
            "demo_fleet", records=fleet(jobs, now), columns=COLUMNS, timeout=DEADLINE_S
        )
        await connection.execute(statements["trim"], timeout=DEADLINE_S)
        await connection.execute(statements["upsert"], timeout=DEADLINE_S)


def _checks() -> Iterator[Sample]:
    """Checks without end; every hundred of them has the intervals of MIX in their shares."""
    bounds = list(accumulate(share for share, _ in MIX))
    for number in range(1 << 31):
        # 37 has no factor in common with 100, so neighbours differ and the shares stay exact.
        slot = number * 37 % 100
        every_s = next(seconds for bound, (_, seconds) in zip(bounds, MIX, strict=True) if slot < bound)
        yield _check(number, every_s)


def _check(number: int, every_s: int) -> Sample:
    kind, region = KINDS[number % len(KINDS)], REGIONS[number // len(KINDS) % len(REGIONS)]
    host = f"web-{number // len(KINDS):06d}.{region}.example.net"
    payload = json.dumps({"check": kind, "target": host, "timeout_ms": 2000})
    return Sample(f"{KEY_PREFIX}{kind}/{host}", every_s, None, "UTC", None, f"checks.{kind}", payload)


def _cron_jobs() -> Iterator[Sample]:
    for name, cron, tz, route in CRONS:
        yield Sample(KEY_PREFIX + name, None, cron, tz, None, route, json.dumps({"task": name}))


def _one_shots(now: int) -> Iterator[Sample]:
    for name, after_s in ONE_SHOTS:
        run_at = datetime.fromtimestamp(now + after_s, UTC)
        yield Sample(KEY_PREFIX + name, None, None, "UTC", run_at, "release", json.dumps({"task": name}))


def _statements() -> dict[str, str]:
    """The statements of demo_fleet.sql by name."""
    parts = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8").split("-- name: ")[1:]
    return {name.strip(): body.strip() for name, _, body in (part.partition("\n") for part in parts)}
