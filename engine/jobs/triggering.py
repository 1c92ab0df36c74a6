"""A run by hand: published beside the schedule, under an id that no scheduled run has."""

import asyncio
import json
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NatsTimeout
from nats.js.api import Header
from nats.js.client import JetStreamContext
from nats.js.errors import APIError, NoStreamResponseError

from mainspring.engine.broker.frame_client import BrokerClient
from mainspring.engine.broker.stream import SUBJECT_MEND
from mainspring.engine.jobs.definition import Definition
from mainspring.engine.jobs.errors import JobsError
from mainspring.engine.jobs.instants import iso_of_epoch
from mainspring.engine.stopping import unless_stopped

# The same id collapses in the stream, so what was not answered can be sent again.
_ATTEMPTS: Final = 3
_NONCE_BYTES: Final = 4
_ASK_S: Final = 2.0


class NotTriggered(JobsError):
    """The stream did not acknowledge the run."""


@dataclass(frozen=True)
class Trigger:
    """One run by hand, as a message."""

    job_id: int
    id: str
    subject: str
    stream: str
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        return {
            Header.MSG_ID.value: self.id,
            "Content-Type": "application/cloudevents+json",
        }

    @property
    def size(self) -> int:
        """Headers included, bytes."""
        lines = ["NATS/1.0", *(f"{name}: {value}" for name, value in self.headers.items()), "", ""]
        return len("\r\n".join(lines).encode()) + len(self.body)


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
    subject = f"{instance}.run.{job.route}"
    return Trigger(int(job.id or 0), run_id, subject, instance.upper(), envelope.encode())


async def publish_trigger(client: BrokerClient, trigger: Trigger) -> None:
    """Returns once the stream of the instance holds the run. Raises NotTriggered, which says why."""
    if trigger.size > client.max_payload:
        raise NotTriggered(
            f"the run of job {trigger.job_id} has {trigger.size} bytes, and the server takes "
            f"{client.max_payload}. Mend: a smaller payload, or raise max_payload of the server"
        )
    denied = asyncio.Event()
    client.on_denied = lambda subject: denied.set() if subject == trigger.subject.lower() else None
    if not await unless_stopped(_stored(client.jetstream(), trigger), denied):
        raise NotTriggered(
            f"the login may not publish to {trigger.subject}, so the run was not stored. Mend: permit it in "
            "the NATS server, or log in as another user (nats_url, nats_creds)"
        )


async def _stored(jetstream: JetStreamContext, trigger: Trigger) -> bool:
    await _require_no_other(jetstream, trigger)
    for _ in range(_ATTEMPTS):
        try:
            await jetstream.publish(trigger.subject, trigger.body, headers=trigger.headers)
        except NatsTimeout:
            continue
        except NoStreamResponseError:
            raise NotTriggered(
                f"no stream takes {trigger.subject}: `mainspring run` makes it; check nats_url and instance"
            ) from None
        except APIError as error:
            raise NotTriggered(f"the stream refuses {trigger.id}: {error.description}") from error
        return True
    raise NotTriggered(f"no answer for {trigger.id}: it may be stored or not; see `mainspring tail`")


async def _require_no_other(jetstream: JetStreamContext, trigger: Trigger) -> None:
    """Raises NotTriggered where another stream takes the subject. A login may not be permitted to ask."""
    taker = trigger.stream
    with suppress(NatsError, TimeoutError):
        async with asyncio.timeout(_ASK_S):
            taker = await jetstream.find_stream_name_by_subject(trigger.subject)
    if taker != trigger.stream:
        raise NotTriggered(
            f"stream {taker} takes {trigger.subject}, and not {trigger.stream}: nothing was stored. "
            f"Mend: {SUBJECT_MEND}"
        )
