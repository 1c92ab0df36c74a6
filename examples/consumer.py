"""A complete consumer: takes runs off the stream, does something once for each, and acknowledges.

    python examples/consumer.py nats://127.0.0.1:4222 checks.http

JetStream may hand out a message again, so the effect is keyed by the run id.
"""

import asyncio
import json
import sys
from contextlib import suppress

import nats
from nats.errors import TimeoutError as NothingNew


async def consume(url: str, route: str) -> None:
    client = await nats.connect(url)
    jetstream = client.jetstream()
    # A durable consumer: start it on several machines, and they share the work.
    subscription = await jetstream.pull_subscribe(f"mainspring.run.{route}", durable="example")
    done: set[str] = set()  # in a real consumer: a unique key in your own store
    while not interrupted():
        try:
            messages = await subscription.fetch(100, timeout=5)
        except NothingNew:
            continue
        for message in messages:
            run = json.loads(message.data)
            if run["id"] not in done:
                print(run["time"], run["subject"], run.get("data"))
                done.add(run["id"])
            await message.ack()


def interrupted() -> bool:
    """Ctrl-C cancels the task, which some waiting of Python 3.11 does not pass on."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # Ctrl-C: what is not acknowledged comes again
        asyncio.run(consume(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "default"))
