"""`mainspring loadtest changes`: what the change log costs those who write jobs, and how soon it is read."""

import json
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from mainspring.engine.cli.number_flags import finite
from mainspring.loadtest.ending import run_to_its_end
from mainspring.loadtest.plan import Figures
from mainspring.loadtest.writing import write_costs

_SAYS: Final = {
    "rows": "rows of the bulk insert",
    "clients": "that update single rows",
    "bulk_insert_s": "one insert of all rows, with the change log",
    "bulk_insert_plain_s": "without it",
    "bulk_insert_ratio": "by what factor the log makes it longer",
    "updates_per_s": "single-row updates, each a transaction, with the change log",
    "updates_plain_per_s": "without it",
    "updates_ratio": "the part of the throughput that the log leaves; median of the rounds",
    "commits_per_s": "single-row updates, steadily, each a transaction",
    "armed_p50_ms": "from the commit to the wheel, the median of them",
    "armed_p99_ms": "and the 99th of a hundred",
    "armed_max_ms": "and the slowest",
    "bulk_change_s": "from the commit of one insert of all rows to the last of them in the wheel",
    "bulk_tick_late_max_ms": "how late a second was drained meanwhile, at worst",
}


def changes_command(
    *,
    rows: Annotated[int, typer.Option("--rows", min=1000, metavar="N", help="Rows inserted.")] = 1_000_000,
    clients: Annotated[int, typer.Option("--clients", min=1, max=64, help="Clients that update.")] = 8,
    seconds: Annotated[
        float, typer.Option("--seconds", callback=finite, min=1, help="How long they update, in all.")
    ] = 30.0,
    tail_jobs: Annotated[
        int, typer.Option("--tail-jobs", min=0, help="Jobs in the wheel for the tail's figures; 0: none.")
    ] = 100_000,
    tail_s: Annotated[
        float, typer.Option("--tail-s", callback=finite, min=1, help="How long single commits go on.")
    ] = 20.0,
    embedded: Annotated[  # noqa: ARG001
        Path | None,
        typer.Option("--embedded", metavar="DIR", help="Taken as by every command; a server is made anew."),
    ] = None,
    json_wanted: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure what the change log costs those who write, and how soon a node has what they wrote.

    First bulk inserts and single-row updates, with the log and without it, in turn, so that a busy machine
    slows both. Then a node's tail beside a process that commits: the time from a commit to the wheel, and
    that of one commit of all rows. All of it runs on an embedded Postgres that is made for it.

    \b
    mainspring loadtest changes
    mainspring loadtest changes --rows 100000 --seconds 10 --json
    """
    with Console(stderr=True).status("starting Postgres") as status:
        figures = run_to_its_end(
            write_costs(
                rows=rows,
                clients=clients,
                seconds=seconds,
                tail_jobs=tail_jobs,
                tail_s=tail_s,
                tell=status.update,
            )
        )
    if json_wanted:
        typer.echo(json.dumps(figures))
    else:
        Console().print(_as_table(figures))


def _as_table(figures: Figures) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("is", style="dim")
    for name, value in figures.items():
        shown = f"{value:,.3f}" if isinstance(value, float) else f"{value:,}"
        table.add_row(name, shown, _SAYS[name])
    return table
