"""A run by hand: published beside the schedule, under an id that no scheduled run has."""

import json
import secrets
from dataclasses import dataclass
from typing import Final

from nats.errors import TimeoutError as NatsTimeout
from nats.js.client import JetStreamContext
from nats.js.errors import APIError, NoStreamResponseError

from mainspring.engine.jobs.definition import Definition
from mainspring.engine.jobs.errors import JobsError
from mainspring.engine.jobs.instants import iso_of_epoch

# The same id collapses in the stream, so what was not answered can be sent again.
_ATTEMPTS: Final = 3
_NONCE_BYTES: Final = 4


class NotTriggered(JobsError):
    """The stream did not acknowledge the run."""


@dataclass(frozen=True)
class Trigger:
    """One run by hand, as a message."""

    id: str
    subject: str
    body: bytes


def trigger_of(job: Definition, instance: str, now: int) -> Trigger:
    """The message. now: epoch seconds, which stand in its id and are its time."""
    run_id = f"{job.id}@{now}!{secrets.token_hex(_NONCE_BYTES)}"
    event = {
        "specversion": "1.0",
        "type": "mainspring.trigger",
        "source": instance,
        "id": run_id,
        "subject": job.key or str(job.id),
        "time": iso_of_epoch(now),
    }
    envelope = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    if job.payload is not None:  # as Postgres spells it: read and written again it could lose digits
        envelope = f'{envelope[:-1]},"data":{job.payload}}}'
    return Trigger(run_id, f"{instance}.run.{job.route}", envelope.encode())


async def publish_trigger(jetstream: JetStreamContext, trigger: Trigger) -> None:
    """Returns once the stream holds the run. Raises NotTriggered, which says why."""
    headers = {"Nats-Msg-Id": trigger.id, "Content-Type": "application/cloudevents+json"}
    for _ in range(_ATTEMPTS):
        try:
            await jetstream.publish(trigger.subject, trigger.body, headers=headers)
        except NatsTimeout:
            continue
        except NoStreamResponseError:
            raise NotTriggered(
                f"no stream takes {trigger.subject}: `mainspring run` makes it; check nats_url and instance"
            ) from None
        except APIError as error:
            raise NotTriggered(f"the stream refuses {trigger.id}: {error.description}") from error
        return
    raise NotTriggered(f"no answer for {trigger.id}: it may be stored or not; see `mainspring tail`")
