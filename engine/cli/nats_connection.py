"""The connection of the commands that only look at NATS: it gives up soon and says why."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from nats.errors import Error as NatsError

from mainspring.engine.broker.frame_client import BrokerClient, TlsUnavailable
from mainspring.engine.broker.login import nats_login
from mainspring.engine.config import Settings, mask_address

TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 1.0
_RETRY_WAIT_S = 1


class BrokerUnreachable(ConnectionError):
    """No server of nats_url answers, or none lets us in; the message names them, and the setting to mend."""


@asynccontextmanager
async def connected(settings: Settings, purpose: str) -> AsyncIterator[BrokerClient]:
    """A client for the length of a block; raises BrokerUnreachable within TIMEOUT_S."""
    client, told, login = BrokerClient(), _Told(), nats_login(settings)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await _connect(client, f"{settings.instance} {purpose}", login, told)
    except (NatsError, OSError) as error:
        raise BrokerUnreachable(_explain(settings, told.last or error)) from error
    try:
        yield client
    finally:
        # A frozen server would hang the driver's own close.
        with suppress(NatsError, OSError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await client.close()


class _Told:
    """Keeps what the driver reports on the way; it raises no more than that no server is left."""

    def __init__(self) -> None:
        self.last: Exception | None = None

    async def tell(self, error: Exception) -> None:
        self.last = error


async def _connect(client: BrokerClient, name: str, login: dict[str, Any], told: _Told) -> None:
    await client.connect(
        **login,
        name=name,
        connect_timeout=2,
        reconnect_time_wait=_RETRY_WAIT_S,
        max_reconnect_attempts=1,
        allow_reconnect=False,
        error_cb=told.tell,
    )


def _explain(settings: Settings, error: Exception) -> str:
    where = mask_address(settings.nats_url)
    if isinstance(error, TlsUnavailable):
        return f"NATS: {error}"
    if "authorization" in str(error).lower() or "authentication" in str(error).lower():
        mend = "mend user and password or token in nats_url, or nats_creds"
        return f"NATS at {where} refuses these credentials; {mend}"
    return f"NATS at {where} cannot be reached: {_in_words(error)} (nats_url)"


def _in_words(error: Exception) -> str:
    if isinstance(error, TimeoutError) and not error.strerror:
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return "Connection refused" if isinstance(error, ConnectionRefusedError) else error.strerror
    return str(error).removeprefix("nats: ") or type(error).__name__
