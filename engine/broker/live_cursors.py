"""Who still needs the change log: the cursor of every instance, and how far back its stream reaches.

Each engine writes its recovery point into the KV bucket of its instance. All instances of one database use
one NATS; one that is elsewhere has to be allowed for by hand (`db prune --keep-s`).
"""

from dataclasses import dataclass

from nats.aio.client import Client
from nats.js.api import StreamInfo
from nats.js.client import JetStreamContext
from nats.js.errors import KeyNotFoundError, NotFoundError

from mainspring.changelog_tailer import Cursor
from mainspring.engine.broker.stream import MAX_AGE_S
from mainspring.engine.failover.recovery import KEY, RecoveryPoint

_BUCKET = "KV_"
_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Reader:
    """One instance. needs: the oldest cursor that its next node reads on from. reach_s: the age of the oldest
    run its stream may hold, which `verify` can ask about.
    """

    instance: str
    watermark: int
    cursor: Cursor
    needs: Cursor
    reach_s: float


async def live_readers(client: Client, now: float) -> list[Reader]:
    """Every instance that has a recovery point, by name; `now` in epoch seconds.

    Raises RecoveryPointDamaged and nats-py's errors.
    """
    jetstream = client.jetstream(timeout=_TIMEOUT_S)
    names = [info.config.name or "" for info in await _streams(jetstream)]
    buckets = sorted(name.removeprefix(_BUCKET) for name in names if name.startswith(_BUCKET))
    found = [await _reader(jetstream, bucket, now) for bucket in buckets]
    return [reader for reader in found if reader is not None]


async def _streams(jetstream: JetStreamContext) -> list[StreamInfo]:
    found: list[StreamInfo] = []
    while page := await jetstream.streams_info(offset=len(found)):
        found += page
    return found


async def _reader(jetstream: JetStreamContext, bucket: str, now: float) -> Reader | None:
    try:
        entry = await (await jetstream.key_value(bucket)).get(KEY)
    except KeyNotFoundError:  # a bucket of somebody else
        return None
    point = RecoveryPoint.decode(entry.value or b"")
    reach_s = await _reach_s(jetstream, bucket.upper(), now)
    return Reader(bucket, point.watermark, point.cursor, point.earlier or point.cursor, reach_s)


async def _reach_s(jetstream: JetStreamContext, stream: str, now: float) -> float:
    try:
        info = await jetstream.stream_info(stream)
    except NotFoundError:
        return MAX_AGE_S  # as the engine would make it
    if info.config.max_age or not info.state.messages:
        return float(info.config.max_age or 0)
    oldest = await jetstream.get_msg(stream, seq=info.state.first_seq)
    return 0.0 if oldest.time is None else now - oldest.time.timestamp()
