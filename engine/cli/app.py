"""All commands under one roof, and the way an error leaves the program."""

import sys
from importlib.metadata import version
from typing import Annotated, ClassVar

import typer

from mainspring.engine.cli.lazy import LazyGroup
from mainspring.engine.cli.stdout import name_stdout

_HERE = "mainspring.engine.cli"


class Commands(LazyGroup):
    """Everything that `mainspring` can do."""

    commands_at: ClassVar[dict[str, str]] = {
        "demo": f"{_HERE}.demo:demo_command",
        "run": f"{_HERE}.run:run_command",
        "jobs": f"{_HERE}.jobs:app",
        "next": f"{_HERE}.next:next_command",
        "explain": f"{_HERE}.explain:explain_command",
        "tail": f"{_HERE}.tail:tail_command",
        "verify": f"{_HERE}.verify:verify_command",
        "db": f"{_HERE}.db:app",
        "doctor": f"{_HERE}.doctor:doctor_command",
        "config": f"{_HERE}.config:config_command",
        "loadtest": "mainspring.loadtest.commands:app",
    }


app = typer.Typer(
    name="mainspring",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with `mainspring demo`. Every command explains itself: `mainspring jobs add --help`.",
)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; gives the exit status: 0 done, 1 failed, 2 wrong usage, 3 differences found."""
    name_stdout()
    try:
        status = _run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except Exception as error:
        from mainspring.engine.cli.failures import explain, status_of  # noqa: PLC0415 (it imports every driver)

        failed = status_of(error)
        if failed is None:
            raise
        typer.echo(explain(error), err=True)
        return failed
    return status


def _run(arguments: list[str] | None) -> int:
    try:
        app(args=arguments, prog_name="mainspring")
    except SystemExit as ended:
        return _status(ended.code)
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
