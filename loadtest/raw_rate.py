"""How many runs a second this server takes from a socket with nothing around it."""

from time import perf_counter
from typing import Final

from nats.aio.client import Client

from mainspring.engine.broker.connections import Broker
from mainspring.engine.config import load_settings
from mainspring.loadtest.raw_publisher import RawPublisher
from mainspring.loadtest.rounds import ROUND_RUNS, Rounds

_INSTANCE: Final = "raw"


async def raw_runs_per_s(url: str, runs: int) -> float:
    """Publish so many, in rounds, to a stream as the engine makes it; the stream is gone afterwards."""
    settings = load_settings({"nats_url": url, "instance": _INSTANCE})
    broker, client = Broker(settings), Client()
    await broker.connect()
    await client.connect(url)
    try:
        await broker.ensure_stream()
        return _race(url, f"{broker.inbox}raw", runs, settings.max_in_flight)
    finally:
        await client.jetstream().delete_stream(broker.stream.name)
        await client.close()
        await broker.aclose()


def _race(url: str, inbox: str, runs: int, max_in_flight: int) -> float:
    rounds, sent, took_s = Rounds(min(runs, ROUND_RUNS), _INSTANCE), 0, 0.0
    with RawPublisher(url, inbox) as raw:
        while sent < runs:
            batches = [(bytes(frames.view()), len(frames)) for frames in rounds.next(inbox, 0)]
            started = perf_counter()
            sent += raw.publish(batches, max_in_flight)
            took_s += perf_counter() - started
    return sent / took_s
