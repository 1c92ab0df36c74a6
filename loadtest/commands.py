"""`mainspring loadtest`: the figures of the project, measured on this machine."""

from typing import ClassVar

import typer

from mainspring.engine.cli.lazy import LazyGroup


class LoadTests(LazyGroup):
    """One command a part of the system."""

    commands_at: ClassVar[dict[str, str]] = {
        "wheel": "mainspring.loadtest.wheel:wheel_command",
        "ontime": "mainspring.loadtest.ontime:ontime_command",
        "publish": "mainspring.loadtest.publishing:publish_command",
        "lateness": "mainspring.loadtest.lateness:lateness_command",
        "changes": "mainspring.loadtest.changes:changes_command",
        "coldstart": "mainspring.loadtest.coldstart:coldstart_command",
        "failover": "mainspring.loadtest.failover:failover_command",
        "broker": "mainspring.loadtest.broker:broker_command",
    }


app = typer.Typer(
    cls=LoadTests,
    no_args_is_help=True,
    help="Measure a part of the system on this machine, against the figures it is to hold.",
    rich_markup_mode="rich",
    add_completion=False,
)


@app.callback()
def _group() -> None:
    """What holds for all of them: nothing yet."""
