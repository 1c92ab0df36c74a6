"""The KV bucket of an instance, as much of it as the engine needs: values that may vanish after a time.

Somebody may delete it under a running node, and a broker may come back with an empty store: whoever meets
that calls `mend`, and the bucket is made again. Two that do so at once make one bucket.
"""

import json
import logging
import uuid
from collections.abc import Mapping
from datetime import datetime

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.api import DiscardPolicy, PubAck, RawStreamMsg, StorageType, StreamConfig
from nats.js.client import JetStreamContext
from nats.js.errors import (
    APIError,
    BucketNotFoundError,
    NoKeysError,
    NoStreamResponseError,
    NotFoundError,
    ServiceUnavailableError,
)

log = logging.getLogger(__name__)

MISSING = (NoStreamResponseError, BucketNotFoundError)
"""What reading and writing raise where there is no bucket."""

DELETED = "KV-Operation"
"""The header of a message that says its key has no value any more."""

_NO_STREAM = 10059
_MADE_ALREADY = 10058


class BucketUnfit(NatsError):
    """The bucket cannot be made, or not be made fit; the text has the mend."""


class Bucket:
    """Reads like nats-py's `KeyValue`, and writes with a time to live where one is given: nats-py's `put` has
    none, and its `update` drops the one that a key was made with. It is a name: it holds whether the
    bucket is there or not.
    """

    def __init__(self, jetstream: JetStreamContext, name: str) -> None:
        self._jetstream = jetstream
        self.name = name
        self.stream = stream_of(name)

    def __repr__(self) -> str:
        return f"Bucket({self.name!r})"

    async def get(self, key: str) -> bytes | None:
        """The last value, None where there is none. Raises nats-py's errors."""
        try:
            message = await self.last(key)
        except BucketNotFoundError:
            return None
        if message is None or (message.headers and DELETED in message.headers):
            return None
        return message.data or b""

    async def last(self, key: str) -> RawStreamMsg | None:
        """The last message of a key, one that says it was deleted too. Raises `MISSING`, nats-py's errors."""
        try:
            return await self._jetstream.get_last_msg(self.stream, self.subject(key))
        except NotFoundError as error:
            if error.err_code == _NO_STREAM:
                raise BucketNotFoundError from error
            return None

    async def names(self, prefix: str = "") -> list[str]:
        """The keys that begin so. Raises nats-py's errors."""
        try:
            values = await self._jetstream.key_value(self.name)
            return [name for name in await values.keys() if name.startswith(prefix)]
        except (NoKeysError, BucketNotFoundError):
            return []

    async def put(self, key: str, value: bytes, ttl_s: int | None = None) -> None:
        """Write, into a bucket made again where it is gone; the value vanishes after `ttl_s` seconds.

        Raises `BucketUnfit` and nats-py's errors.
        """
        try:
            await self.write(key, value, ttl_s)
        except NoStreamResponseError:
            await self.mend()
            await self.write(key, value, ttl_s)

    async def write(
        self, key: str, value: bytes, ttl_s: int | None = None, headers: Mapping[str, str] | None = None
    ) -> PubAck:
        """Write into the bucket that is there. Raises `MISSING`, nats-py's errors."""
        return await self._jetstream.publish(
            self.subject(key), value, headers=dict(headers or {}), msg_ttl=ttl_s
        )

    def subject(self, key: str) -> str:
        """Where a key's messages go."""
        return f"$KV.{self.name}.{key}"

    async def mend(self) -> None:
        """Make it again if it is gone, and tell so. Raises `BucketUnfit`, nats-py's errors."""
        if await self.ensure():
            log.warning(
                "KV bucket %s was gone and has been made again: lease and recovery point are written anew; "
                "the gap records and notes of dead letters that it held are lost",
                self.name,
            )

    async def ensure(self) -> bool:
        """Make it where it is missing, and fit for values that vanish where it is not; whether it was made.

        Raises `BucketUnfit`, and nats-py's errors where JetStream does not answer.
        """
        try:
            config = (await self._jetstream.stream_info(self.stream)).config
        except NotFoundError:
            return await self._make()
        if not config.allow_msg_ttl:  # made by hand, or by an older client
            await self._allow_ttl(config)
        return False

    async def _make(self) -> bool:
        try:
            await self._jetstream.add_stream(self.config())
        except ServiceUnavailableError:
            raise
        except APIError as error:
            if error.err_code == _MADE_ALREADY:
                return False
            raise BucketUnfit(
                f"KV bucket {self.name} cannot be made: {error.description}. Lease and recovery point are "
                "kept there. Mend: raise JetStream's max_file_store or the account's limits, or lower what "
                "other streams reserve (max_bytes)"
            ) from error
        return True

    async def _allow_ttl(self, config: StreamConfig) -> None:
        try:
            await self._jetstream.update_stream(config, allow_msg_ttl=True)
        except ServiceUnavailableError:
            raise
        except APIError as error:
            raise BucketUnfit(
                f"KV bucket {self.name} keeps no values that vanish, and cannot be changed: "
                f"{error.description}. Mend: {mend_ttl(self.name)}"
            ) from error

    def config(self) -> StreamConfig:
        """What is created where there is none: what every client of NATS makes for a bucket, with the name of
        its maker, so that the broker refuses the second of two at once.
        """
        return StreamConfig(
            name=self.stream,
            subjects=[self.subject(">")],
            storage=StorageType.FILE,
            discard=DiscardPolicy.NEW,
            max_msgs_per_subject=1,
            duplicate_window=120,
            allow_rollup_hdrs=True,
            deny_delete=True,
            allow_msg_ttl=True,
            num_replicas=1,
            metadata={"mainspring.maker": uuid.uuid4().hex},
        )


def stream_of(name: str) -> str:
    """The stream that keeps a bucket."""
    return f"KV_{name}"


def mend_ttl(name: str) -> str:
    """For a bucket whose values do not vanish."""
    return f"nats stream edit {stream_of(name)} --allow-msg-ttl"


async def find_bucket(jetstream: JetStreamContext, name: str) -> Bucket | None:
    """The bucket to read from, None where no engine has made it. Raises nats-py's errors."""
    try:
        await jetstream.stream_info(stream_of(name))
    except NotFoundError:
        return None
    return Bucket(jetstream, name)


async def open_bucket(jetstream: JetStreamContext, name: str) -> Bucket:
    """The bucket, made where it is missing. Raises as `Bucket.ensure` does."""
    bucket = Bucket(jetstream, name)
    if await bucket.ensure():
        log.info("created KV bucket %s", name)
    return bucket


async def age(client: Client, name: str, timeout_s: float) -> tuple[str, float]:
    """When the broker made the bucket, and how long ago that is by the broker's clock, seconds.

    Two made after each other differ in the first. Raises `MISSING`, nats-py's errors.
    """
    subject = f"$JS.API.STREAM.INFO.{stream_of(name)}"
    answer = json.loads((await client.request(subject, b"", timeout=timeout_s)).data)
    if answer.get("error", {}).get("err_code") == _NO_STREAM:
        raise BucketNotFoundError
    try:
        made, now = datetime.fromisoformat(answer["created"]), datetime.fromisoformat(answer["ts"])
    except (LookupError, ValueError) as error:
        raise NatsError(f"the answer about the stream of KV bucket {name} has no time") from error
    return str(answer["created"]), (now - made).total_seconds()
