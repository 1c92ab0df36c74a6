"""``mainspring tail``: the runs as they arrive in the stream."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError

from mainspring.engine.cli.nats_connection import connected
from mainspring.engine.cli.options import NATS, JsonOption, Target, run_async, takes_settings
from mainspring.engine.cli.signals import stop_on_signals
from mainspring.engine.stopping import unless_stopped

ROUTE_PATTERN = re.compile(r"(?:[A-Za-z0-9_-]+|\*)(?:\.(?:[A-Za-z0-9_-]+|\*))*(?:\.>)?|>")


class StreamMissing(Exception):
    """No engine has made the stream yet, or its address or instance is another."""


@dataclass(frozen=True)
class Arrival:
    """One run as the stream holds it; instants in epoch seconds."""

    id: str
    route: str
    subject: str
    scheduled_at: int
    stored_at: float
    data: Any

    def line(self) -> str:
        """The run on one line, for people."""
        late_ms = (self.stored_at - self.scheduled_at) * 1000
        due = datetime.fromtimestamp(self.scheduled_at, UTC).strftime("%H:%M:%SZ")
        return f"{due}  {late_ms:+8.0f} ms  {self.route:<20} {self.id:<28} {self.subject}"


@takes_settings(*NATS)
def tail_command(
    target: Target,
    route: Annotated[
        str, typer.Option(help="Only these: a route, or a pattern with * (one token) and > (the rest).")
    ] = ">",
    count: Annotated[int | None, typer.Option(min=1, help="End after this many runs.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Print runs as they are stored, from now on, until Ctrl-C.

    Each line has the scheduled instant, how much later the run was stored, route, run id and the job's
    key (or id). Looking takes nothing away: consumers get every run all the same.

    \b
    mainspring tail --embedded .mainspring
    mainspring tail --route 'checks.*' --count 10
    mainspring tail --json | jq .id
    """
    if not ROUTE_PATTERN.fullmatch(route):
        mend = "tokens of A-Z a-z 0-9 _ - joined by dots, * for any one token, > for all that follow"
        raise typer.BadParameter(f"{route!r}: {mend}", param_hint="--route")
    run_async(_tail(target, route, count, as_json))


async def _tail(target: Target, route: str, count: int | None, as_json: bool) -> None:
    # All of it ends with the signal: connecting and looking for the stream may take long as well.
    await unless_stopped(_print_runs(target, route, count, as_json), stop_on_signals())


async def _print_runs(target: Target, route: str, count: int | None, as_json: bool) -> None:
    async with target.settings() as settings, connected(settings, "tail") as client:
        arrivals = _arrivals(client, settings.instance, route)
        printed = 0
        while printed != count:
            arrival = await anext(arrivals)
            typer.echo(json.dumps(asdict(arrival)) if as_json else arrival.line())
            printed += 1


async def _arrivals(client: Client, instance: str, route: str) -> AsyncIterator[Arrival]:
    """The runs stored from now on, in the stream's order."""
    prefix = f"{instance}.run."
    newest = ConsumerConfig(deliver_policy=DeliverPolicy.NEW)
    try:
        subscription = await client.jetstream().subscribe(
            prefix + route, stream=instance.upper(), ordered_consumer=True, config=newest
        )
    except NotFoundError:
        raise StreamMissing(
            f"there is no stream {instance.upper()}: `mainspring run` makes it; check nats_url and instance"
        ) from None
    while True:
        try:
            yield _arrival(await subscription.next_msg(timeout=60), prefix)
        except TimeoutError:
            continue  # nothing was due


def _arrival(message: Msg, prefix: str) -> Arrival:
    event = json.loads(message.data)
    return Arrival(
        id=event["id"],
        route=message.subject.removeprefix(prefix),
        subject=event["subject"],
        scheduled_at=int(datetime.fromisoformat(event["time"]).timestamp()),
        stored_at=message.metadata.timestamp.timestamp(),
        data=event.get("data"),
    )
