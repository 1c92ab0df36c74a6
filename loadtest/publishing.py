"""`mainspring loadtest publish`: the node's publisher beside a raw socket, on a server of its own.

Both publish the same runs in turn, a round each, through one stream as the engine makes it: file storage, one
replica, ids kept for two minutes. A round is what comes due in one second; its frames are drained before the
watch starts, so that what is measured is the way from frames to acknowledgements.
"""

import asyncio
import json
import math
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Annotated, Final

import typer
from nats.aio.client import Client
from nats.errors import Error as NatsError
from rich.console import Console
from rich.progress import Progress

from mainspring.engine.broker.connections import Broker
from mainspring.engine.cli.failures import explain
from mainspring.engine.clock import SystemClock
from mainspring.engine.config import Settings, load_settings
from mainspring.engine.embedded import EmbeddedError, EmbeddedNats
from mainspring.engine.metrics import Metrics
from mainspring.engine.publishing.publisher import REACH_MARGIN_S, Publisher
from mainspring.engine.stopping import cancelled
from mainspring.loadtest.cpu import cpu_s
from mainspring.loadtest.ending import run_to_its_end
from mainspring.loadtest.plan import Figures
from mainspring.loadtest.raw_publisher import RawFailed, RawPublisher
from mainspring.loadtest.rounds import ROUND_RUNS, Rounds, RunsLost
from mainspring.loadtest.wheel_figures import Figure, as_json, as_table

FIGURES: Final = (
    Figure("runs", "runs of the node's publisher, each acknowledged, and as many by the raw socket", 0),
    Figure("rounds", "in so many rounds each, in turn", 0),
    Figure("max_in_flight", "runs unanswered at most, for both", 0),
    Figure("frame_bytes", "protocol bytes a run, both headers and the envelope in them"),
    Figure("runs_per_s", "the node's publisher", 0),
    Figure("raw_runs_per_s", "the raw socket", 0),
    Figure("ratio", "the one in the other", 3),
    Figure("ratio_p50", "the same, median of the pairs of rounds", 3),
    Figure("client_us_per_run", "CPU time of this process a run, system calls included", 3),
    Figure("raw_us_per_run", "of the raw socket", 3),
    Figure("server_us_per_run", "of nats-server, while the node's publisher sent", 3),
    Figure("duplicates", "runs that the stream had already", 0),
    Figure("stored", "messages in the stream at the end", 0),
)


@dataclass
class Side:
    """What one of the two publishers has done so far."""

    runs: int = 0
    seconds: list[float] = field(default_factory=list)
    own_cpu_s: float = 0.0
    server_cpu_s: float = 0.0

    @property
    def runs_per_s(self) -> float:
        return self.runs / sum(self.seconds)


class Race:
    """Both publishers on one server."""

    def __init__(self, server: EmbeddedNats, settings: Settings, runs: int, rounds: int) -> None:
        self._server = server
        self._settings = settings
        self._rounds = Rounds(math.ceil(runs / rounds), settings.instance)
        self._broker = Broker(settings)
        self._unsettled = 0
        self._all_settled = asyncio.Event()
        self._client, self._raw = Side(), Side()
        self._frame_bytes = 0.0

    async def run(self, rounds: int, told: Callable[[], None]) -> Figures:
        """All rounds, and their figures. Raises RunsLost."""
        async with AsyncExitStack() as last_to_first:
            await self._broker.connect()
            last_to_first.push_async_callback(self._broker.aclose)
            publisher = await self._open_publisher()
            resending = asyncio.ensure_future(publisher.run())
            last_to_first.push_async_callback(cancelled, resending)
            inbox = f"{self._broker.inbox}raw"
            raw = last_to_first.enter_context(RawPublisher(self._server.url, inbox))
            for turn in range(rounds):
                if turn % 2:
                    await self._raw_round(raw, inbox)
                await self._client_round(publisher)
                if not turn % 2:
                    await self._raw_round(raw, inbox)
                told()
            return self._figures(publisher, await self._stored())

    async def _open_publisher(self) -> Publisher:
        window_s = await self._broker.ensure_stream()
        publisher = Publisher(
            self._broker,
            Metrics(),
            SystemClock(),
            max_in_flight=self._settings.max_in_flight,
            reach_s=window_s - REACH_MARGIN_S,
            on_settled=self._on_settled,
            on_dead=lambda second, _run, _reason: self._on_settled(second, 1),
        )
        await publisher.start()
        return publisher

    def _on_settled(self, _second: int, runs: int) -> None:
        self._unsettled -= runs
        if self._unsettled == 0:
            self._all_settled.set()

    async def _client_round(self, publisher: Publisher) -> None:
        batches = self._rounds.next(self._broker.inbox, publisher.next_number())
        self._frame_bytes = sum(frames.nbytes for frames in batches) / sum(map(len, batches))
        before = publisher.acknowledged.count
        self._unsettled = sum(map(len, batches))
        self._all_settled.clear()

        async def publish() -> int:
            for frames in batches:
                await publisher.submit(frames)
            await self._all_settled.wait()
            return publisher.acknowledged.count - before

        await self._timed(self._client, publish)

    async def _raw_round(self, raw: RawPublisher, inbox: str) -> None:
        batches = [(bytes(frames.view()), len(frames)) for frames in self._rounds.next(inbox, 0)]

        async def publish() -> int:
            return raw.publish(batches, self._settings.max_in_flight)

        await self._timed(self._raw, publish)

    async def _timed(self, side: Side, publish: Callable[[], Awaitable[int]]) -> None:
        own, servers, started = process_time(), cpu_s(self._server.pid), perf_counter()
        side.runs += await publish()
        side.seconds.append(perf_counter() - started)
        side.own_cpu_s += process_time() - own
        side.server_cpu_s += cpu_s(self._server.pid) - servers

    async def _stored(self) -> int:
        client = Client()
        await client.connect(self._server.url)
        info = await client.jetstream().stream_info(self._broker.stream.name)
        await client.close()
        return int(info.state.messages)

    def _figures(self, publisher: Publisher, stored: int) -> Figures:
        client, raw = self._client, self._raw
        if not client.runs == raw.runs == stored - raw.runs:
            raise RunsLost(f"{stored} runs are stored; {client.runs} and {raw.runs} were acknowledged")
        pairs = zip(client.seconds, raw.seconds, strict=True)
        return {
            "runs": client.runs,
            "rounds": len(client.seconds),
            "max_in_flight": self._settings.max_in_flight,
            "frame_bytes": self._frame_bytes,
            "runs_per_s": client.runs_per_s,
            "raw_runs_per_s": raw.runs_per_s,
            "ratio": client.runs_per_s / raw.runs_per_s,
            "ratio_p50": median(raw_s / client_s for client_s, raw_s in pairs),
            "client_us_per_run": client.own_cpu_s / client.runs * 1e6,
            "raw_us_per_run": raw.own_cpu_s / raw.runs * 1e6,
            "server_us_per_run": client.server_cpu_s / client.runs * 1e6,
            "duplicates": publisher.acknowledged.duplicates,
            "stored": stored,
        }


def publish_command(
    *,
    runs: Annotated[
        int, typer.Option("--runs", min=1000, metavar="N", help="How many, by each of the two.")
    ] = 2_000_000,
    max_in_flight: Annotated[
        int, typer.Option("--max-in-flight", min=1, help="Runs unanswered at most.")
    ] = 16_384,
    embedded: Annotated[
        Path | None,
        typer.Option(
            "--embedded",
            metavar="DIR",
            help="Where the server, always a fresh one, keeps its files meanwhile.",
        ),
    ] = None,
    json_wanted: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure the publisher beside a raw socket that sends the same frames to the same stream, in turn.

    Two million runs by each take about a minute and 1.5 GB of disk, which are given back at the end.

    \b
    mainspring loadtest publish --runs 2000000
    mainspring loadtest publish --runs 500000 --max-in-flight 4096 --json
    """
    if embedded is not None:
        embedded.mkdir(parents=True, exist_ok=True)
    try:
        figures = run_to_its_end(measure(runs, max_in_flight, embedded))
    except (RunsLost, RawFailed, EmbeddedError, NatsError, OSError) as failed:
        typer.echo(explain(failed), err=True)
        raise typer.Exit(1) from None
    if json_wanted:
        typer.echo(json.dumps(as_json(figures, FIGURES)))
    else:
        Console().print(as_table(figures, FIGURES))


async def measure(runs: int, max_in_flight: int, folder: Path | None) -> Figures:
    """Race on a server that is there for this alone."""
    rounds = max(1, round(runs / ROUND_RUNS))
    console = Console(stderr=True)
    with (
        tempfile.TemporaryDirectory(prefix="mainspring-publish-", dir=folder) as place,
        Progress(console=console, disable=not console.is_terminal, transient=True) as bar,
    ):
        task = bar.add_task("publishing", total=rounds)
        server = EmbeddedNats(Path(place))
        await server.start()
        try:
            flags = {"nats_url": server.url, "instance": "loadtest", "max_in_flight": max_in_flight}
            race = Race(server, load_settings(flags), runs, rounds)
            return await race.run(rounds, lambda: bar.advance(task))
        finally:
            await server.kill()
