"""All commands under one roof, and the way an error leaves the program."""

from importlib.metadata import version
from typing import Annotated

import typer

from mainspring.engine.cli.config import config_command
from mainspring.engine.cli.db import app as db_app
from mainspring.engine.cli.demo import demo_command
from mainspring.engine.cli.failures import explain, status_of
from mainspring.engine.cli.help_text import prepare_help
from mainspring.engine.cli.jobs import app as jobs_app
from mainspring.engine.cli.next import next_command
from mainspring.engine.cli.run import run_command
from mainspring.engine.cli.tail import tail_command

app = typer.Typer(
    name="mainspring",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with `mainspring demo`. Every command explains itself: `mainspring jobs add --help`.",
)
app.command("demo")(demo_command)
app.command("run")(run_command)
app.add_typer(jobs_app, name="jobs")
app.command("next")(next_command)
app.command("tail")(tail_command)
app.add_typer(db_app, name="db")
app.command("config")(config_command)
prepare_help(app)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; gives the exit status: 0 done, 1 failed, 2 wrong usage, 3 differences found."""
    try:
        app(args=arguments, prog_name="mainspring")
    except SystemExit as ended:
        return _status(ended.code)
    except Exception as error:
        status = status_of(error)
        if status is None:
            raise
        typer.echo(explain(error), err=True)
        return status
    return 0


def _status(code: object) -> int:
    """What an exit with ``code`` means to the shell: a text is a message, nothing is success."""
    if isinstance(code, str):
        typer.echo(code, err=True)
        return 1
    return code if isinstance(code, int) else 0


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"mainspring {version('mainspring')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Millions of recurring jobs: defined in Postgres, run as messages in NATS JetStream."""
