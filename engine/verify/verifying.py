"""Leads an audit: reads the definitions, then the stream, and makes the report."""

import asyncio
from collections.abc import Callable

import numpy as np
from nats.aio.client import Client
from nats.js.api import RetentionPolicy, StreamInfo
from nats.js.client import JetStreamContext
from nats.js.errors import NotFoundError
from numpy.typing import NDArray

from mainspring.changelog_tailer import NEVER, close, connect
from mainspring.engine.broker.bucket import find_bucket
from mainspring.engine.broker.stream_reader import StreamReader
from mainspring.engine.config import Settings
from mainspring.engine.failover.gaps import OWED_MAX_S
from mainspring.engine.jobs.instants import iso_of_epoch
from mainspring.engine.tls import postgres_tls
from mainspring.engine.verify.effect import Effect, Instants
from mainspring.engine.verify.gaps import Told, excuse, read_told
from mainspring.engine.verify.history import History, read_history
from mainspring.engine.verify.ledger import IDS_MAX, Ledger
from mainspring.engine.verify.owed import Owed
from mainspring.engine.verify.refusal import CannotJudge
from mainspring.engine.verify.report import Report

# Messages are stamped by the broker's clock.
_BROKER_CLOCK_S = 30

Tell = Callable[[str], None]


async def verify(
    settings: Settings, client: Client, first: int, stop: int, *, effect: Effect, tell: Tell
) -> Report:
    """Audit the instants in [first, stop), epoch seconds; `tell` hears what is being done.

    Raises CannotJudge, StreamUnreadable, and what `connect` raises.
    """
    jetstream = client.jetstream()
    info = await _fit_stream(jetstream, settings)
    told = await _told(jetstream, settings, stop)
    reader = StreamReader(settings, jetstream, info.config.name or "")
    await reader.fix_end()  # before the definitions are read: of what is stored by now all are known then
    begin = _earliest(info, first, stop)
    tell("reading the definitions")
    history = await _history(settings, begin, effect)
    ledger = Ledger(Owed(history, told.watermark), begin, stop)
    async for chunk in reader.chunks(begin - _BROKER_CLOCK_S):
        # Beside the reading: the server leaves a reader that takes nothing for ten seconds.
        await asyncio.to_thread(ledger.take, chunk.job_ids, chunk.at)
        tell(f"reading the stream: {reader.messages:,} messages")
    ledger.finish()
    if not ledger.owed:
        raise CannotJudge(
            "no run was owed in the span; verify another one, or look at `mainspring jobs list`"
        )
    return _Findings(ledger, history, reader, told).report(first, stop, _gone_until(reader, info))


async def _fit_stream(jetstream: JetStreamContext, settings: Settings) -> StreamInfo:
    name = settings.instance.upper()
    try:
        info = await jetstream.stream_info(name)
    except NotFoundError:
        raise CannotJudge(
            f"there is no stream {name}: `mainspring run` makes it; check nats_url and instance"
        ) from None
    if info.config.retention != RetentionPolicy.LIMITS:
        raise CannotJudge(
            f"stream {name} is of {info.config.retention} retention: runs vanish as they are consumed, so "
            "what was stored is not known; only a stream of limits retention can be verified"
        )
    if (info.config.max_msgs_per_subject or -1) > 0:
        raise CannotJudge(
            f"stream {name} keeps {info.config.max_msgs_per_subject} messages a subject: which runs it has "
            "dropped is not known"
        )
    return info


def _earliest(info: StreamInfo, first: int, stop: int) -> int:
    """The first instant of the span whose run can be in the stream: no run is owed for longer than a day."""
    earliest = max(first, _created(info) - OWED_MAX_S - _BROKER_CLOCK_S)
    if earliest >= stop:
        raise CannotJudge(
            f"the stream was made at {iso_of_epoch(_created(info))}, and holds nothing of the span; verify a "
            "later one"
        )
    return earliest


def _created(info: StreamInfo) -> int:
    return 0 if info.created is None else int(info.created.timestamp())


async def _told(jetstream: JetStreamContext, settings: Settings, stop: int) -> Told:
    """What the engine told of runs that it left out, once the span is over for the engine as well."""
    bucket = await find_bucket(jetstream, settings.instance)
    told = None if bucket is None else await read_told(bucket)
    if told is None:
        raise CannotJudge(
            f"no engine of the instance {settings.instance} has left a recovery point, so how far the runs "
            "are settled is not known"
        )
    if told.watermark < stop - 1:
        raise CannotJudge(
            f"runs are settled up to {iso_of_epoch(told.watermark)} only; verify a span that ends by then, "
            "or wait for the engine"
        )
    return told


async def _history(settings: Settings, first: int, effect: Effect) -> History:
    connection = await connect(settings.postgres_dsn, ssl_context=postgres_tls(settings))
    try:
        return await read_history(connection, first, effect)
    finally:
        await close(connection)


# ------------------------------------------------------------------------------------------------- the report


class _Findings:
    """What the ledger and the reader have found, once both are done."""

    def __init__(self, ledger: Ledger, history: History, reader: StreamReader, told: Told) -> None:
        self._ledger, self._history, self._reader, self._told = ledger, history, reader, told

    def report(self, first: int, stop: int, gone_until: int) -> Report:
        """gone_until: runs due by this moment may have been stored and removed since."""
        ledger, history, reader = self._ledger, self._history, self._reader
        job, at = self._absent()
        evicted = at <= gone_until
        if evicted.sum() == ledger.owed:
            raise CannotJudge("the stream holds nothing of the span any more; verify a later one")
        job, at = job[~evicted], at[~evicted]
        dead = self._told.is_dead(history.ids[job], at)
        excused, skipped = excuse(self._told.gaps, *due_with_policies(history, job, at))
        missing = np.flatnonzero(~excused & ~dead)
        strangers = reader.strangers
        return Report(
            first,
            stop,
            jobs=len(history.ids),
            quarantined=history.quarantined,
            changes=int((history.rows["seq"] != 0).sum()),
            messages=reader.messages,
            owed=ledger.owed,
            stored=ledger.stored,
            either=ledger.either,
            skipped=dict(sorted(skipped.items())),
            dead_lettered=int(dead.sum()),
            evicted=int(evicted.sum()),
            judged_from=max(ledger.first, gone_until + 1) if evicted.any() else ledger.first,
            hands=sum(first <= instant < stop for instant in reader.hands),
            missing=len(missing),
            duplicate=ledger.duplicate.count,
            unexpected=ledger.unexpected.count + len(strangers),
            missing_ids=[f"{history.ids[job[i]]}@{at[i]}" for i in missing[:IDS_MAX].tolist()],
            duplicate_ids=ledger.duplicate.ids,
            unexpected_ids=(ledger.unexpected.ids + strangers)[:IDS_MAX],
        )

    def _absent(self) -> tuple[Instants, Instants]:
        """Job (index) and instant of each owed run that is not in the stream, oldest first."""
        jobs, ledger = max(1, len(self._history.ids)), self._ledger
        parts = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        for number, keys in sorted(ledger.absent.items()):
            parts.append((keys % jobs, ledger.first_of(number) + keys // jobs))
        return np.concatenate([job for job, _ in parts]), np.concatenate([at for _, at in parts])


def _gone_until(reader: StreamReader, info: StreamInfo) -> int:
    """Also an earlier stream of the name is gone, with all that it held."""
    return max(_created(info), reader.gone_until or 0)


def due_with_policies(
    history: History, job: Instants, at: Instants
) -> tuple[Instants, Instants, NDArray[np.uint8], NDArray[np.uint8]]:
    """The first and the last second in which each run may have been due, and its policy, by the last version
    that may have given it and by the first: a change of policy leaves open which of them held.

    A one-shot that was committed after its instant was due in the second after it was applied.
    """
    rows, version = history.rows, _version_of(history, job, at, history.may_after)
    first = _version_of(history, job, at, history.sure_after)
    brought = _brought(history, version)
    changed_at = rows["changed_at"][brought]
    was_late = (rows["run_at"][version] == at) & (rows["seq"][brought] != 0) & (changed_at >= at * 1_000_000)
    due = np.where(was_late, changed_at // 1_000_000 + 1, at)
    due_until = np.where(was_late, history.sure_after[brought] + 1, at)
    return due, due_until, rows["catch_up"][version], rows["catch_up"][first]


def _version_of(history: History, job: Instants, at: Instants, after: Instants) -> Instants:
    """The last of its versions that holds at each run, if each holds `after` so many seconds."""
    begin, rows = history.first_version(), history.rows
    edited = _edited(history)
    version: Instants = begin[job + 1] - 1
    while True:
        later = (after[version] >= at) & ((rows["run_at"][version] != at) | edited[version])
        wrong = np.flatnonzero((later | ~history.alive[version]) & (version > begin[job]))
        if not len(wrong):
            return version
        version[wrong] -= 1


def _brought(history: History, version: Instants) -> Instants:
    """The version that brought the instant of a one-shot, which edits of all else leave as it was."""
    edited, version = _edited(history), version.copy()
    while (again := edited[version]).any():
        version[again] -= 1
    return version


def _edited(history: History) -> NDArray[np.bool_]:
    """Versions of a one-shot whose instant stood in the version before, which would have run it."""
    once, job = history.rows["run_at"], history.job
    edited = np.zeros(len(once), np.bool_)
    edited[1:] = (once[1:] == once[:-1]) & (once[1:] != NEVER) & (job[1:] == job[:-1]) & history.alive[:-1]
    return edited
