"""`mainspring loadtest changes`: what the change log costs those who write jobs."""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

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
}


def changes_command(
    *,
    rows: Annotated[int, typer.Option("--rows", min=1000, metavar="N", help="Rows inserted.")] = 1_000_000,
    clients: Annotated[int, typer.Option("--clients", min=1, max=64, help="Clients that update.")] = 8,
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="How long they update, in all.")] = 30.0,
    embedded: Annotated[  # noqa: ARG001
        Path | None,
        typer.Option("--embedded", metavar="DIR", help="Taken as by every command; a server is made anew."),
    ] = None,
    json_wanted: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure what the change log costs: bulk inserts and single-row updates, with it and without it.

    Both run on an embedded Postgres that is made for it, in turn, so that a busy machine slows both.

    \b
    mainspring loadtest changes
    mainspring loadtest changes --rows 100000 --seconds 10 --json
    """
    with Console(stderr=True).status("starting Postgres") as status:
        figures = asyncio.run(write_costs(rows=rows, clients=clients, seconds=seconds, tell=status.update))
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
