"""Reads what JetStream really stored, with nats-py alone."""

import json
from collections import Counter
from datetime import UTC, datetime

import nats
from nats.aio.msg import Msg
from nats.errors import TimeoutError as NatsTimeout
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from acceptance.oracle import Run


async def stored_runs(nats_url: str, stream: str) -> Counter[Run]:
    """How often each (job id, scheduled instant) stands in the stream, read from start to end.

    Each message is checked on the way: header, id, subject and time of the envelope agree.
    """
    client = await nats.connect(nats_url)
    try:
        jetstream = client.jetstream()
        total = (await jetstream.stream_info(stream)).state.messages
        config = ConsumerConfig(deliver_policy=DeliverPolicy.ALL, ack_policy=AckPolicy.NONE)
        subscription = await jetstream.pull_subscribe("", stream=stream, config=config)
        runs: Counter[Run] = Counter()
        while runs.total() < total:
            try:
                messages = await subscription.fetch(1000, timeout=10)
            except NatsTimeout:
                raise AssertionError(f"read {runs.total()} of {total} messages") from None
            runs.update(run_of(message) for message in messages)
        return runs
    finally:
        await client.close()


def run_of(message: Msg) -> Run:
    """The run that a message stands for."""
    event = json.loads(message.data)
    assert message.headers is not None
    assert event["id"] == message.headers["Nats-Msg-Id"]
    assert event["specversion"] == "1.0"
    assert event["type"] == "mainspring.run"
    job_id, instant = event["id"].split("@")
    assert event["time"] == datetime.fromtimestamp(int(instant), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return int(job_id), int(instant)
