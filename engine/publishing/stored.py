"""Which runs the stream holds already, read from the stream itself.

The duplicate window answers that for two minutes only. A resend beyond it, or a replacement that starts
later, has to look.
"""

import logging
from datetime import UTC, datetime

from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NatsTimeout
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.client import JetStreamContext

log = logging.getLogger(__name__)

# The broker stamps messages by its own clock.
CLOCK_MARGIN_S = 30
_FETCH = 4096
_FETCH_TIMEOUT_S = 2.0
_ID = "Nats-Msg-Id"


class StreamUnreadable(Exception):
    """The stream did not answer to the end; what it holds is still unknown."""


async def stored_ids(jetstream: JetStreamContext, stream: str, since: float) -> set[str]:
    """Run ids of all messages stored since `since` (epoch seconds) less a margin for the broker's clock.

    Raises `StreamUnreadable` where the stream could not be read up to its present end.
    """
    config = ConsumerConfig(
        deliver_policy=DeliverPolicy.BY_START_TIME,
        opt_start_time=datetime.fromtimestamp(since - CLOCK_MARGIN_S, UTC),
        ack_policy=AckPolicy.NONE,
        headers_only=True,
        inactive_threshold=30,
    )
    try:
        subscription = await jetstream.pull_subscribe("", stream=stream, config=config)
        try:
            left = (await subscription.consumer_info()).num_pending
            return await _read(subscription, left or 0)
        finally:
            await subscription.unsubscribe()
    except (TimeoutError, NatsError, OSError) as error:
        raise StreamUnreadable(f"stream {stream} could not be read: {error!r}") from error


async def _read(subscription: JetStreamContext.PullSubscription, left: int) -> set[str]:
    """Messages may expire while they are read, so the end is where the consumer says that nothing is left."""
    ids: set[str] = set()
    while left > 0:
        try:
            messages = await subscription.fetch(min(_FETCH, left), timeout=_FETCH_TIMEOUT_S)
        except NatsTimeout:
            messages = []
        ids.update(message.headers[_ID] for message in messages if message.headers and _ID in message.headers)
        remaining = (
            left - len(messages) if messages else (await subscription.consumer_info()).num_pending or 0
        )
        if not messages and remaining >= left:
            raise NatsTimeout
        left = remaining
    return ids
