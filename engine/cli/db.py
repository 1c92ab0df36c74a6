"""``mainspring db``: the schema in Postgres."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, Final

import typer
from nats.errors import Error as NatsError
from rich.console import Console

from mainspring.changelog_tailer import schema
from mainspring.changelog_tailer.pruning import Lag, lags, prune
from mainspring.engine.broker.live_cursors import Reader, live_readers
from mainspring.engine.broker.stream import MAX_AGE_S
from mainspring.engine.cli.nats_connection import BrokerUnreachable, connected
from mainspring.engine.cli.number_flags import finite
from mainspring.engine.cli.options import NATS, POSTGRES, JsonOption, Target, run_async, takes_settings
from mainspring.engine.clock import SystemClock
from mainspring.engine.config import Settings
from mainspring.engine.jobs.instants import iso
from mainspring.engine.tls import postgres_tls

# Every instance counts, whatever this one's name.
_NATS: Final = tuple(key for key in NATS if key != "instance")
_CLOCKS_DIFFER_S: Final = 60.0

app = typer.Typer(
    no_args_is_help=True,
    help="The schema in Postgres: create it, upgrade it, look at it, prune its log.",
    rich_markup_mode="rich",
    add_completion=False,
)


@app.command("init")
@takes_settings(*POSTGRES)
def init_command(target: Target, as_json: JsonOption = False) -> None:
    """Create the schema `mainspring`, or upgrade it; safe to repeat and beside a running engine.

    The role in postgres_dsn must be allowed to create a schema in that database.

    \b
    mainspring db init --postgres-dsn postgresql://owner@db/app
    mainspring db init --embedded .mainspring
    """
    applied = run_async(_init(target))
    if as_json:
        typer.echo(json.dumps({"applied": applied}))
    elif applied:
        typer.echo(f"schema mainspring: applied version {', '.join(map(str, applied))}")
    else:
        typer.echo("schema mainspring: up to date")


@app.command("status")
@takes_settings(*POSTGRES, *_NATS)
def status_command(target: Target, as_json: JsonOption = False) -> None:
    """Show the schema's version, what there is of jobs and change log, what was pruned, and who is behind.

    Every instance with a recovery point in NATS has a line: how much of the change log it has not read.

    \b
    mainspring db status --embedded .mainspring --json
    """
    status, lags = run_async(_status(target))
    if as_json:
        cursors = None if lags is None else [_lag_json(reader, lag) for reader, lag in lags]
        typer.echo(
            json.dumps(status.to_dict() | {"ready": status.ready, "cursors": cursors}, default=_in_json)
        )
    else:
        _print_status(status)
        for reader, lag in lags or []:
            typer.echo(f"{'cursor of ' + reader.instance:<20} {_lag_text(lag)}")
    if not status.ready:
        typer.echo("the schema is missing or old: run `mainspring db init`", err=True)
        raise typer.Exit(1)


@app.command("prune")
@takes_settings(*POSTGRES, *_NATS)
def prune_command(
    target: Target,
    keep_s: Annotated[
        float,
        typer.Option(
            "--keep-s", callback=finite, min=0, metavar="S", help="Keep at least what is younger, seconds."
        ),
    ] = MAX_AGE_S,
    as_json: JsonOption = False,
) -> None:
    """Remove from the change log what nobody needs any more; safe beside running engines and writers.

    What stays: what the cursor of any instance in NATS has not seen, what is younger than the oldest
    run that its stream may hold, and the last older row of each job. The role in postgres_dsn must own
    the schema. An engine whose cursor is nonetheless older than what was removed loads the jobs again.

    \b
    mainspring db prune
    mainspring db prune --keep-s 604800
    """
    removed, readers = run_async(_prune(target, keep_s))
    if as_json:
        typer.echo(json.dumps({"removed": removed, "instances": [reader.instance for reader in readers]}))
        return
    who = ", ".join(reader.instance for reader in readers) or "none: no engine has a recovery point in NATS"
    typer.echo(f"{removed:,} rows removed; instances allowed for: {who}")


def _print_status(status: schema.Status) -> None:
    for name, value in status.to_dict().items():
        shown = f"{value:,}" if isinstance(value, int) else "none" if value is None else str(value)
        typer.echo(f"{name.replace('_', ' '):<20} {shown}")


def _lag_text(lag: Lag) -> str:
    if lag.elsewhere:
        return "its jobs are in another database"
    if lag.void:
        return "void: of another log, or pruned past; that engine loads the jobs again"
    return f"{lag.rows:,} rows behind" + (f", the oldest of {lag.since}" if lag.since else "")


def _lag_json(reader: Reader, lag: Lag) -> dict[str, Any]:
    return {
        "instance": reader.instance,
        "watermark": reader.watermark,
        "void": lag.void,
        "elsewhere": lag.elsewhere,
        "rows_behind": lag.rows,
        "oldest_unread_at": lag.since,
    }


def _in_json(value: object) -> str:
    return iso(value) if isinstance(value, datetime) else str(value)


async def _init(target: Target) -> list[int]:
    async with target.settings() as settings:
        return await schema.init(settings.postgres_dsn, ssl_context=postgres_tls(settings))


async def _status(target: Target) -> tuple[schema.Status, list[tuple[Reader, Lag]] | None]:
    """The lags are None where NATS or the schema is missing: the rest of the status is worth seeing."""
    async with target.settings() as settings:
        tls = postgres_tls(settings)
        status = await schema.status(settings.postgres_dsn, ssl_context=tls)
        if not status.ready:
            return status, None
        try:
            readers = await _readers(settings)
        except (BrokerUnreachable, NatsError) as error:
            typer.echo(f"the cursors of the engines are not known: {error}", err=True)
            return status, None
        found = await lags(settings.postgres_dsn, [reader.cursor for reader in readers], ssl_context=tls)
        return status, list(zip(readers, found, strict=True))


async def _prune(target: Target, keep_s: float) -> tuple[int, list[Reader]]:
    async with target.settings() as settings:
        readers = await _readers(settings)
        with _pruning_progress() as tell:
            removed = await prune(
                settings.postgres_dsn,
                [reader.needs for reader in readers],
                keep_s=max([keep_s, *(reader.reach_s for reader in readers)]) + _CLOCKS_DIFFER_S,
                tell=tell,
                ssl_context=postgres_tls(settings),
            )
        return removed, readers


async def _readers(settings: Settings) -> list[Reader]:
    async with connected(settings, "db") as client:
        return await live_readers(client, SystemClock().now())


@contextmanager
def _pruning_progress() -> Iterator[Callable[[int], None]]:
    """A count on stderr where that is a terminal."""
    with Console(stderr=True).status("finding the last row of each job") as status:
        yield lambda removed: status.update(f"{removed:,} rows removed")
