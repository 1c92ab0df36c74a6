"""The KV bucket of an instance, as much of it as the engine needs: values that may vanish after a time."""

from nats.js.client import JetStreamContext
from nats.js.errors import BucketNotFoundError, KeyNotFoundError, NoKeysError
from nats.js.kv import KeyValue


class Bucket:
    """Reads like nats-py's `KeyValue`, and writes with a time to live where one is given: nats-py's `put` has
    none, and its `update` drops the one that a key was made with.
    """

    def __init__(self, jetstream: JetStreamContext, name: str, values: KeyValue) -> None:
        self._jetstream = jetstream
        self._name = name
        self._values = values

    def __repr__(self) -> str:
        return f"Bucket({self._name!r})"

    async def get(self, key: str) -> bytes | None:
        """The last value, None where there is none. Raises nats-py's errors."""
        try:
            entry = await self._values.get(key)
        except KeyNotFoundError:
            return None
        return entry.value or b""

    async def names(self, prefix: str = "") -> list[str]:
        """The keys that begin so. Raises nats-py's errors."""
        try:
            return [name for name in await self._values.keys() if name.startswith(prefix)]
        except NoKeysError:
            return []

    async def put(self, key: str, value: bytes, ttl_s: int | None = None) -> None:
        """Write; the value vanishes after `ttl_s` seconds. Raises nats-py's errors."""
        await self._jetstream.publish(f"$KV.{self._name}.{key}", value, msg_ttl=ttl_s)


async def find_bucket(jetstream: JetStreamContext, name: str) -> Bucket | None:
    """The bucket to read from, None where no engine has made it. Raises nats-py's errors."""
    try:
        return Bucket(jetstream, name, await jetstream.key_value(name))
    except BucketNotFoundError:
        return None


async def open_bucket(jetstream: JetStreamContext, name: str) -> Bucket:
    """The bucket, made where it is missing, and made fit for values that vanish where it is not."""
    try:
        values = await jetstream.key_value(name)
    except BucketNotFoundError:
        return Bucket(jetstream, name, await jetstream.create_key_value(bucket=name))
    config = (await values.status()).stream_info.config
    if not config.allow_msg_ttl:  # made by hand, or by an older client
        await jetstream.update_stream(config, allow_msg_ttl=True)
    return Bucket(jetstream, name, values)
