"""Which runs the stream holds already, read from the stream itself.

The duplicate window answers that for two minutes only. A resend beyond it, or a replacement that starts
later, has to look.
"""

from nats.errors import Error as NatsError
from nats.js.client import JetStreamContext

from mainspring.engine.broker.stream_reader import StreamReader, StreamUnreadable
from mainspring.engine.config import Settings, SettingsError

# The broker stamps messages by its own clock.
CLOCK_MARGIN_S = 30


async def stored_ids(settings: Settings, jetstream: JetStreamContext, stream: str, since: float) -> set[str]:
    """Run ids of all messages stored since `since` (epoch seconds) less a margin for the broker's clock.

    Raises `StreamUnreadable` where the stream could not be read up to its present end.
    """
    reader = StreamReader(settings, jetstream, stream)
    ids: set[str] = set()
    try:
        await reader.fix_end()
        async for chunk in reader.chunks(int(since) - CLOCK_MARGIN_S):
            runs = zip(chunk.job_ids.tolist(), chunk.at.tolist(), strict=True)
            ids.update(f"{job_id}@{at}" for job_id, at in runs)
    except (NatsError, OSError, SettingsError) as error:
        raise StreamUnreadable(f"stream {stream} could not be read: {str(error) or error!r}") from error
    return ids
