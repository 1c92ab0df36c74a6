"""``mainspring db``: the schema in Postgres."""

import json

import typer

from mainspring.changelog_tailer import schema
from mainspring.engine.cli.options import POSTGRES, JsonOption, Target, run_async, takes_settings
from mainspring.engine.tls import postgres_tls

app = typer.Typer(
    no_args_is_help=True,
    help="The schema in Postgres: create it, upgrade it, look at it.",
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
@takes_settings(*POSTGRES)
def status_command(target: Target, as_json: JsonOption = False) -> None:
    """Show the schema's version, and how many jobs and change-log rows there are and what they weigh.

    \b
    mainspring db status --embedded .mainspring --json
    """
    status = run_async(_status(target))
    if as_json:
        typer.echo(json.dumps(status.to_dict() | {"ready": status.ready}, default=str))
    else:
        _print_status(status)
    if not status.ready:
        typer.echo("the schema is missing or old: run `mainspring db init`", err=True)
        raise typer.Exit(1)


def _print_status(status: schema.Status) -> None:
    for name, value in status.to_dict().items():
        shown = f"{value:,}" if isinstance(value, int) else "none" if value is None else str(value)
        typer.echo(f"{name.replace('_', ' '):<20} {shown}")


async def _init(target: Target) -> list[int]:
    async with target.settings() as settings:
        return await schema.init(settings.postgres_dsn, ssl_context=postgres_tls(settings))


async def _status(target: Target) -> schema.Status:
    async with target.settings() as settings:
        return await schema.status(settings.postgres_dsn, ssl_context=postgres_tls(settings))
