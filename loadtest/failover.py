"""`mainspring loadtest failover`: nodes die, freeze and go blind while jobs change; verify is the judge."""

import json
import shutil
import tempfile
from collections.abc import Iterator
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
from mainspring.loadtest.ending import run_to_its_end
from mainspring.loadtest.failover_fleet import POLICIES
from mainspring.loadtest.failover_rounds import Drill, Mode, Plan, Round
from mainspring.loadtest.judging import lines, quantile, sums, told
from mainspring.loadtest.node_process import NodeFailed

DIFFERENCES: Final = 3
_GAP_S: Final = {
    Mode.KILL: (0.0, 20.0),
    Mode.TERM: (0.0, 20.0),
    Mode.STOP: (5.0, 150.0),
    Mode.BOTH: (5.0, 20.0),
    Mode.STANDBY: (0.0, 0.0),
}
_FAILED: Final = (NodeFailed, CannotJudge, StreamUnreadable, EmbeddedError, NatsError, OSError)


def failover_command(
    *,
    jobs: Annotated[int, typer.Option("--jobs", min=100, metavar="N", help="Jobs to begin with.")] = 20_000,
    rate: Annotated[
        float,
        typer.Option(
            "--rate",
            callback=finite,
            min=1,
            metavar="N",
            help="Runs a second at most; the other jobs are slow.",
        ),
    ] = 15_000.0,
    rounds: Annotated[int, typer.Option("--rounds", min=1, metavar="R", help="How many rounds.")] = 10,
    mode: Annotated[Mode, typer.Option("--mode", help="What happens in each.")] = Mode.KILL,
    gap_s: Annotated[
        tuple[float, float] | None,
        typer.Option(
            "--gap-s", callback=span, metavar="MIN MAX", help="How long nobody fires, or one node is blind."
        ),
    ] = None,
    changes_per_s: Annotated[
        float,
        typer.Option(
            "--changes-per-s", callback=finite, min=0.1, help="Changes of jobs, each a transaction."
        ),
    ] = 20.0,
    catch_up: Annotated[
        list[str] | None, typer.Option("--catch-up", help="Only this policy; all three unless said.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=1, help="Of the first round; one more each.")] = 1,
    embedded: Annotated[
        Path | None,
        typer.Option("--embedded", metavar="DIR", help="Where the servers keep files; they stay."),
    ] = None,
    json_wanted: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Let nodes fail, round after round, and judge by `verify` whether every run is in the stream, once.

    kill and term: the node ends, another takes its place after the gap. stop: it stands still meanwhile.
    both: two nodes fire, and one hears nothing of Postgres meanwhile. standby: the active one is killed, the
    waiting one takes over. Inserts, edits, pauses and deletes go on all the time. The exit status is 3 where
    something is wrong.

    \b
    mainspring loadtest failover --jobs 20000 --rounds 20
    mainspring loadtest failover --mode stop --gap-s 80 125 --rounds 5 --json
    mainspring loadtest failover --seed 17 --rounds 1        # the round of that seed once more
    """
    if unknown := set(catch_up or ()) - set(POLICIES):
        raise typer.BadParameter(f"{unknown.pop()} is none of {', '.join(POLICIES)}", param_hint="--catch-up")
    folder = embedded or Path(tempfile.mkdtemp(prefix="mainspring-failover-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)  # Postgres runs as another user where this one is root
    plan = Plan(jobs, rate, mode, gap_s or _GAP_S[mode], changes_per_s, tuple(catch_up or POLICIES))
    try:
        played = run_to_its_end(_play(folder, plan, seed, rounds))
    except (*_FAILED, asyncpg.PostgresError) as failed:
        typer.echo(f"{explain(failed)} (files in {folder})", err=True)
        raise typer.Exit(1) from None
    clean = all(one.report.clean for one in played)
    if embedded is None and clean:
        shutil.rmtree(folder, ignore_errors=True)
    typer.echo(json.dumps(figures(played)) if json_wanted else _summary(figures(played)))
    if not clean:
        typer.echo(f"files in {folder}", err=True)
        raise typer.Exit(DIFFERENCES)


async def _play(folder: Path, plan: Plan, seed: int, rounds: int) -> list[Round]:
    console = Console(stderr=True, highlight=False)

    def played(one: Round) -> None:
        for line in _lines(one):
            console.print(line, soft_wrap=True)

    with console.status("starting servers") as status:
        return await Drill(folder, plan, status.update, played).run(seed, rounds)


def figures(played: list[Round]) -> dict[str, Any]:
    """The sums of all rounds, and each round with its seed."""
    times = [one.first_run_s for one in played if one.first_run_s is not None]
    return {
        "rounds": len(played),
        **sums(one.report for one in played),
        "first_run_s_p50": quantile(times, 50),
        "first_run_s_p95": quantile(times, 95),
        "played": [_told(one) for one in played],
    }


def _told(one: Round) -> dict[str, Any]:
    head = {"seed": one.seed, "gap_s": round(one.gap_s, 2), "first_run_s": one.first_run_s}
    return head | told(one.report)


def _lines(one: Round) -> Iterator[str]:
    first = "" if one.first_run_s is None else f", first run after {one.first_run_s:.2f} s"
    return lines(f"seed {one.seed}: gap {one.gap_s:.1f} s{first}", one.report)


def _summary(found: dict[str, Any]) -> str:
    return "\n".join(f"{value!s:>14}  {name}" for name, value in found.items() if name != "played")
