"""Looks at everything a node depends on, and says of each whether it is good, or how to mend it.

    for finding in await examine(settings, SystemClock(), connected):
        print(finding.name, finding.good, finding.says, finding.mend)

Nothing is changed, and what is away hides nothing but what depends on it.
"""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Final

import asyncpg
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.client import JetStreamContext
from nats.js.errors import NotFoundError

from mainspring.changelog_tailer import LOST, ChangeLogError, close, connect
from mainspring.changelog_tailer.pruning import Lag, lags
from mainspring.engine.broker.bucket import Bucket, mend_ttl
from mainspring.engine.broker.live_cursors import live_readers
from mainspring.engine.broker.stream import RunStream, StreamUnfit, require_fit, weaknesses
from mainspring.engine.checks.findings import Finding
from mainspring.engine.clock import Clock
from mainspring.engine.config import Settings, SettingsError
from mainspring.engine.failover.lease import seen_in, stuck_text
from mainspring.engine.failover.recovery import RecoveryPointDamaged
from mainspring.engine.jobs.exporting import unfit_crons
from mainspring.engine.tls import postgres_tls

CLOCK_OFF_MAX_S: Final = 1.0
"""Runs are due by this machine's clock, changes are dated by that of Postgres."""

_TIMEOUT_S = 5.0
_POSTGRES_NOW = "select extract(epoch from clock_timestamp())::float8"

Dial = Callable[[Settings, str], AbstractAsyncContextManager[Client]]
"""Opens a NATS connection for a purpose; raises an OSError or a SettingsError that says why it cannot."""


async def examine(settings: Settings, clock: Clock, dial: Dial) -> list[Finding]:
    """Every finding, Postgres first; nothing that is away or wrong is raised."""
    return await _examine_postgres(settings, clock) + await _examine_nats(settings, clock, dial)


async def _examine_postgres(settings: Settings, clock: Clock) -> list[Finding]:
    try:
        connection = await connect(settings.postgres_dsn, ssl_context=postgres_tls(settings))
    except (*LOST, ChangeLogError) as error:
        return [Finding("postgres", False, _text(error), "mend postgres_dsn, or what the line names")]
    try:
        return [
            Finding("postgres", True, f"answers, PostgreSQL {_version(connection)}"),
            await _postgres_clock(connection, clock),
            await _quarantined(connection),
        ]
    except LOST as error:
        return [Finding("postgres", False, _text(error), "see the log of Postgres")]
    finally:
        await close(connection)


def _version(connection: asyncpg.Connection) -> str:
    version = connection.get_server_version()
    return f"{version.major}.{version.minor}"


async def _postgres_clock(connection: asyncpg.Connection, clock: Clock) -> Finding:
    asked_at = clock.now()
    there = await connection.fetchval(_POSTGRES_NOW, timeout=_TIMEOUT_S)
    return clock_finding("clock against Postgres", there, asked_at, clock.now())


async def _quarantined(connection: asyncpg.Connection) -> Finding:
    unfit = await unfit_crons(connection)
    if not unfit:
        return Finding("jobs", True, "every cron expression and zone can be read")
    told = "; ".join(f"{jobs} such as job {example}: {reason}" for jobs, example, reason in unfit[:5])
    count = sum(jobs for jobs, _, _ in unfit)
    mend = "edit them: mainspring jobs edit ID --cron ... --tz ..."
    return Finding("jobs", False, f"{count} quarantined and not firing: {told}", mend)


async def _examine_nats(settings: Settings, clock: Clock, dial: Dial) -> list[Finding]:
    try:
        async with dial(settings, "doctor") as client:
            jetstream = client.jetstream(timeout=_TIMEOUT_S)
            return [
                Finding("nats", True, f"answers, {client.connected_server_version}"),
                await _stream(jetstream, settings),
                *await _bucket(jetstream, settings.instance),
                await _nats_clock(client, settings, clock),
                *await _cursors(client, settings, clock),
            ]
    except (NatsError, OSError, SettingsError) as error:
        return [Finding("nats", False, _text(error), "mend nats_url or nats_creds, or start NATS with -js")]


async def _stream(jetstream: JetStreamContext, settings: Settings) -> Finding:
    stream = RunStream(settings.instance, settings.catch_up_window_s)
    try:
        config = (await jetstream.stream_info(stream.name)).config
    except NotFoundError:
        return Finding("stream", True, f"{stream.name} is not there yet; the engine makes it")
    try:
        require_fit(config, subjects=stream.subjects, window_min_s=stream.window_min_s)
    except StreamUnfit as unfit:
        says, _, mend = str(unfit).partition(" Mend: ")
        return Finding("stream", False, says, mend)
    if found := weaknesses(config):
        return Finding("stream", False, "; ".join(found), f"nats stream edit {stream.name}")
    return Finding("stream", True, f"{stream.name} will do")


async def _bucket(jetstream: JetStreamContext, name: str) -> list[Finding]:
    """The bucket, and the lease in it."""
    bucket = Bucket(jetstream, name)
    try:
        config = (await jetstream.stream_info(bucket.stream)).config
    except NotFoundError:
        return [Finding("bucket", True, f"{name} is not there yet; the engine makes it")]
    if not config.allow_msg_ttl:
        return [Finding("bucket", False, f"{name} keeps no values that vanish: no lease", mend_ttl(name))]
    return [Finding("bucket", True, f"{name} will do"), await _lease(bucket)]


async def _lease(bucket: Bucket) -> Finding:
    seen = await seen_in(bucket)
    if seen.lasts:
        says, _, mend = stuck_text(seen, bucket.name).partition(" Mend: ")
        return Finding("lease", False, says, mend)
    return Finding("lease", True, f"{seen.holder} is active" if seen.holder else "no node is active")


async def _nats_clock(client: Client, settings: Settings, clock: Clock) -> Finding:
    """Only an answer about a stream carries the broker's time; nats-py leaves it out."""
    asked_at = clock.now()
    subject = f"$JS.API.STREAM.INFO.{settings.instance.upper()}"
    answer = json.loads((await client.request(subject, b"", timeout=_TIMEOUT_S)).data)
    if "ts" not in answer:
        return Finding("clock against NATS", True, "not known before the engine has made its stream")
    there = datetime.fromisoformat(answer["ts"]).timestamp()
    return clock_finding("clock against NATS", there, asked_at, clock.now())


async def _cursors(client: Client, settings: Settings, clock: Clock) -> list[Finding]:
    try:
        readers = await live_readers(client, clock.now())
        found = await lags(
            settings.postgres_dsn, [reader.cursor for reader in readers], ssl_context=postgres_tls(settings)
        )
    except RecoveryPointDamaged as damaged:
        says, _, mend = str(damaged).partition(" Mend: ")
        return [Finding("recovery point", False, says, mend)]
    except (*LOST, ChangeLogError):  # told as a finding of Postgres already
        return []
    return [
        _cursor(reader.instance, lag, own=reader.instance == settings.instance)
        for reader, lag in zip(readers, found, strict=True)
    ]


def _cursor(instance: str, lag: Lag, *, own: bool) -> Finding:
    name = f"recovery point of {instance}"
    if lag.elsewhere and not own:  # one NATS may serve the engines of several databases
        return Finding(name, True, "its jobs are in another database")
    if lag.void:
        mend = "start that engine: it loads the jobs again"
        return Finding(name, False, "void: of another log, or pruned past", mend)
    return Finding(name, True, f"{lag.rows} changes are not applied yet")


def clock_finding(name: str, there: float, asked_at: float, answered_at: float) -> Finding:
    """Compares a server's time with ours when it was asked and when it answered; all in epoch seconds."""
    off_s = min(there - asked_at, 0.0) or max(there - answered_at, 0.0)
    if abs(off_s) <= CLOCK_OFF_MAX_S:
        return Finding(name, True, f"within {CLOCK_OFF_MAX_S:g} s")
    side = "ahead of" if off_s > 0 else "behind"
    return Finding(
        name, False, f"it is {abs(off_s):.1f} s {side} this machine", "let one NTP service set all clocks"
    )


def _text(error: BaseException) -> str:
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else repr(error))
