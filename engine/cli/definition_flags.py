"""One flag a column of a job, for `jobs add` and `jobs edit`.

All of them take text, so that a bad value is judged by the same rules, and told in the same words, as
in a file.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, NoReturn, TypeVar

import typer

from mainspring.engine.cli.failures import WRONG_USAGE
from mainspring.engine.jobs.definition import Problem
from mainspring.engine.jobs.fields import CATCH_UP, value_of_text

Command = TypeVar("Command", bound=Callable[..., Any])


class Flag(NamedTuple):
    """How a column is written on the command line."""

    name: str
    metavar: str
    text: str


_FLAGS: Final = {
    "id": Flag("--id", "N", "An id of your own choice; the database draws one where there is none."),
    "key": Flag("--key", "NAME", "Your own name or UUID for the job, not all digits."),
    "every_s": Flag("--every", "S", "An interval: seconds, or 90s, 5m, 1h30m, 1d."),
    "cron": Flag("--cron", "EXPR", "A cron expression, such as '*/5 * * * *' or @daily."),
    "run_at": Flag("--run-at", "T", "One instant: ISO 8601 with an offset, or epoch seconds."),
    "tz": Flag("--tz", "ZONE", "The IANA zone of the cron expression."),
    "phase_s": Flag("--phase", "S", "Place in the interval, instead of the one hashed from the id."),
    "jitter_s": Flag("--jitter", "S", "Window that cron runs are spread over; 0 means exactly on time."),
    "starts_at": Flag("--starts-at", "T", "No run before this instant."),
    "ends_at": Flag("--ends-at", "T", "No run at or after this instant."),
    "boost_every_s": Flag("--boost-every", "S", "A faster interval, until --boost-until."),
    "boost_until": Flag("--boost-until", "T", "When the boost ends by itself."),
    "catch_up": Flag("--catch-up", "POLICY", f"What is owed after an outage: {', '.join(CATCH_UP)}."),
    "route": Flag("--route", "ROUTE", "Tail of the subject, such as checks.http."),
    "payload": Flag("--payload", "JSON", "Carried in every event as data; @FILE reads it from a file."),
}
_SOON_HELP: Final = "Also run once within seconds of being added."
_SOON: Final = Annotated[
    bool | None, typer.Option("--first-run-soon/--no-first-run-soon", help=_SOON_HELP, show_default=False)
]


def takes_definition(*, leaving_out: frozenset[str] = frozenset()) -> Callable[[Command], Command]:
    """Give a command the flags; it takes them as ``given``: field -> value as JSON has it."""
    flags = {name: flag for name, flag in _FLAGS.items() if name not in leaving_out}

    def decorate(command: Command) -> Command:
        def with_given(*args: Any, first_run_soon: bool | None, **named: Any) -> Any:
            texts = {name: text for name in flags if (text := named.pop(name)) is not None}
            given = _values(texts)
            if first_run_soon is not None:
                given["first_run_soon"] = first_run_soon
            return command(*args, given=given, **named)

        signature = inspect.signature(command, eval_str=True)
        own = [parameter for parameter in signature.parameters.values() if parameter.name != "given"]
        with_given.__signature__ = signature.replace(parameters=[*own, *_parameters(flags)])  # type: ignore[attr-defined]
        with_given.__name__, with_given.__doc__ = command.__name__, command.__doc__
        return with_given  # type: ignore[return-value]

    return decorate


def refuse(problems: tuple[Problem, ...]) -> NoReturn:
    """Tell what is wrong with the flags, a line each, and end with the status of wrong usage."""
    for problem in problems:
        typer.echo(f"error: {problem}", err=True)
    raise typer.Exit(WRONG_USAGE)


def warn(problems: Iterable[Problem]) -> None:
    """Tell what is allowed and yet hardly meant, a line each."""
    for problem in problems:
        typer.echo(f"warning: {problem}", err=True)


def _parameters(flags: Mapping[str, Flag]) -> Iterator[inspect.Parameter]:
    for name, flag in flags.items():
        option = typer.Option(flag.name, metavar=flag.metavar, help=flag.text, show_default=False)
        yield _parameter(name, Annotated[str | None, option])
    yield _parameter("first_run_soon", _SOON)


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _values(texts: Mapping[str, str]) -> dict[str, object]:
    values: dict[str, object] = {}
    problems = []
    for name, text in texts.items():
        try:
            values[name] = value_of_text(name, _from_file(text) if name == "payload" else text)
        except (ValueError, OSError) as error:
            problems.append(Problem(name, str(error)))
    if problems:
        refuse(tuple(problems))
    return values


def _from_file(text: str) -> str:
    return Path(text[1:]).read_text("utf-8") if text.startswith("@") else text
