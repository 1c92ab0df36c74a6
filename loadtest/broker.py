"""`mainspring loadtest broker`: NATS dies, freezes, fills, and the way to it breaks; verify is the judge."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any, Final

import asyncpg
import typer
from nats.errors import Error as NatsError
from rich.console import Console

from mainspring.engine.broker.stream_reader import StreamUnreadable
from mainspring.engine.cli.failures import explain
from mainspring.engine.cli.number_flags import finite, span
from mainspring.engine.embedded import EmbeddedError
from mainspring.engine.verify.refusal import CannotJudge
from mainspring.loadtest.broker_rounds import Drill, Kind, Memory, Plan, Round
from mainspring.loadtest.ending import run_to_its_end
from mainspring.loadtest.failover_fleet import POLICIES
from mainspring.loadtest.judging import lines, quantile, sums, told
from mainspring.loadtest.node_process import NodeFailed

DIFFERENCES: Final = 3
# With less nothing is told of memory: buffers that fill once, and stay, are a part of it.
WEIGHT_MIN: Final = 128_000_000
_SPAN_S: Final = {
    Kind.KILL: (0.0, 20.0),
    Kind.FREEZE: (5.0, 150.0),
    Kind.CUT: (0.5, 6.0),
    Kind.DELAY: (5.0, 20.0),
    Kind.DROP: (5.0, 30.0),
    Kind.FULL: (60.0, 60.0),
    Kind.LOSE: (0.0, 0.0),
}
_SHORT_S: Final = {
    Kind.KILL: 1.0,
    Kind.FREEZE: 5.0,
    Kind.CUT: 1.0,
    Kind.DELAY: 3.0,
    Kind.DROP: 3.0,
    Kind.FULL: 10.0,
    Kind.LOSE: 0.0,
}
# So that an outage of seconds is more than the node holds, and is caught up with.
_SHORT_IN_FLIGHT: Final = 4096
_FAILED: Final = (NodeFailed, CannotJudge, StreamUnreadable, EmbeddedError, NatsError, OSError)


def broker_command(
    *,
    jobs: Annotated[int, typer.Option("--jobs", min=100, metavar="N", help="Jobs to begin with.")] = 30_000,
    rounds: Annotated[int, typer.Option("--rounds", min=1, metavar="R", help="How many of each kind.")] = 1,
    kind: Annotated[
        list[Kind] | None, typer.Option("--kind", help="Only this; all unless said, may be repeated.")
    ] = None,
    span_s: Annotated[
        tuple[float, float] | None,
        typer.Option("--span-s", callback=span, metavar="MIN MAX", help="For how long it is so."),
    ] = None,
    short: Annotated[bool, typer.Option("--short", help="Each only as long as it shows anything.")] = False,
    payload_bytes: Annotated[
        int, typer.Option("--payload-bytes", min=1, max=60_000, help="Payload of a job.")
    ] = 600,
    changes_per_s: Annotated[
        float,
        typer.Option(
            "--changes-per-s", callback=finite, min=0.1, help="Changes of jobs, each a transaction."
        ),
    ] = 10.0,
    seed: Annotated[int, typer.Option("--seed", min=1, help="Of the first round; one more each.")] = 1,
    embedded: Annotated[
        Path | None,
        typer.Option("--embedded", metavar="DIR", help="Where the servers keep files; they stay."),
    ] = None,
    json_wanted: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Let NATS fail, or the way to it, and judge by `verify` whether every run is in the stream, once.

    kill: SIGKILL, and a start on the same store. freeze: SIGSTOP. cut: the connection ends amid a frame.
    delay, drop: acknowledgements come late, or not at all. lose: one run of a second is not acknowledged, the
    next second is complete, and the node is killed and replaced. full: the stream refuses runs. Jobs are
    changed all the time. The exit status is 3 where a run is wrong, or the node's memory grows with its runs.

    \b
    mainspring loadtest broker --rounds 20
    mainspring loadtest broker --kind freeze --span-s 120 150 --rounds 5 --json
    mainspring loadtest broker --short
    """
    folder = embedded or Path(tempfile.mkdtemp(prefix="mainspring-broker-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)  # Postgres runs as another user where this one is root
    in_flight = {"max_in_flight": str(_SHORT_IN_FLIGHT)} if short else {}
    plan = Plan(jobs, payload_bytes, _spans(span_s, short=short), changes_per_s, POLICIES, in_flight)
    try:
        played, lives = run_to_its_end(_play(folder, plan, kind or list(Kind), seed, rounds))
    except (*_FAILED, asyncpg.PostgresError) as failed:
        typer.echo(f"{explain(failed)} (files in {folder})", err=True)
        raise typer.Exit(1) from None
    found = figures(played, lives)
    clean = all(one.report.clean for one in played) and found["memory_flat"] is not False
    if embedded is None and clean:
        shutil.rmtree(folder, ignore_errors=True)
    typer.echo(json.dumps(found) if json_wanted else _summary(found))
    if not clean:
        typer.echo(f"files in {folder}", err=True)
        raise typer.Exit(DIFFERENCES)


def _spans(span_s: tuple[float, float] | None, *, short: bool) -> dict[Kind, tuple[float, float]]:
    if span_s is not None:
        return dict.fromkeys(Kind, span_s)
    return {kind: (length_s, length_s) for kind, length_s in _SHORT_S.items()} if short else _SPAN_S


async def _play(
    folder: Path, plan: Plan, kinds: list[Kind], seed: int, rounds: int
) -> tuple[list[Round], list[Memory]]:
    console = Console(stderr=True, highlight=False)

    def played(one: Round) -> None:
        head = f"{one.kind}, seed {one.seed}: {one.span_s:.1f} s, settled {one.settled_s:.1f} s after it"
        for line in lines(head, one.report):
            console.print(line, soft_wrap=True)

    with console.status("starting servers") as status:
        return await Drill(folder, plan, status.update, played).run(kinds, seed, rounds)


def figures(played: list[Round], lives: list[Memory]) -> dict[str, Any]:
    """The sums of all rounds, the memory of the node that published most, and each round with its seed."""
    times = [one.settled_s for one in played]
    heaviest = max(lives, key=lambda life: life.frames, default=Memory(0))
    return {
        "rounds": len(played),
        **sums(one.report for one in played),
        "settled_s_p50": quantile(times, 50),
        "settled_s_max": max(times, default=None),
        "memory_before_bytes": heaviest.before,
        "memory_after_bytes": heaviest.after,
        "memory_bound_bytes": heaviest.before + heaviest.frames // 2,
        "memory_flat": heaviest.flat if heaviest.frames >= WEIGHT_MIN else None,
        "played": [
            {"kind": one.kind, "seed": one.seed, "span_s": round(one.span_s, 2)}
            | {"settled_s": round(one.settled_s, 2), "memory_bytes": one.resident_bytes}
            | told(one.report)
            for one in played
        ],
    }


def _summary(found: dict[str, Any]) -> str:
    return "\n".join(f"{value!s:>14}  {name}" for name, value in found.items() if name != "played")
