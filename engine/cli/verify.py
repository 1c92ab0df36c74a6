"""`mainspring verify`: what was owed in a span, held against what the stream holds."""

import json
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console

from mainspring.engine.cli.failures import FAILED
from mainspring.engine.cli.nats_connection import connected
from mainspring.engine.cli.number_flags import finite
from mainspring.engine.cli.options import NATS, POSTGRES, JsonOption, Target, run_async, takes_settings
from mainspring.engine.clock import SystemClock
from mainspring.engine.jobs.instants import epoch_s, iso_of_epoch, read_instant
from mainspring.engine.verify.effect import SLACK_DEFAULT_S, Effect
from mainspring.engine.verify.report import Report
from mainspring.engine.verify.verifying import verify

DIFFERENCES = 3
SHOWN = 10
_FURTHER = {
    "dead_lettered": "dead letters, which can never be stored",
    "evicted": "evicted: older than what the stream still holds",
    "hands": "run by hand, beside these",
}


def _second(text: str) -> int:
    try:
        return epoch_s(read_instant(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@takes_settings(*POSTGRES, *NATS)
def verify_command(
    target: Target,
    *,
    first: Annotated[int, typer.Option("--from", parser=_second, metavar="T", help="The first instant.")],
    stop: Annotated[
        int, typer.Option("--to", parser=_second, metavar="T", help="The instant after the last.")
    ],
    slack_s: Annotated[
        float,
        typer.Option(
            "--slack-s",
            callback=finite,
            min=0,
            max=86_400,
            help="How long after its commit a change may take effect.",
        ),
    ] = SLACK_DEFAULT_S,
    away: Annotated[
        list[str] | None,
        typer.Option("--away", metavar="T/T", help="Postgres was away from an engine then; may be repeated."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Recompute the runs owed in a span, read the stream, and tell what is missing, doubled, or unexpected.

    T is ISO 8601 with an offset, or epoch seconds. The definitions are those that the change log shows, with
    code that is not the engine's. The exit status is 3 where something is wrong, 1 where the span, or its
    beginning, cannot be judged. Around each change a few seconds are left open, in which the old or the new
    definition may hold.

    \b
    mainspring verify --from 2026-03-01T09:00:00Z --to 2026-03-01T09:30:00Z
    mainspring verify --from 1764500000 --to 1764503600 --json
    """
    if first >= stop:
        raise typer.BadParameter("the span is empty: --to is not after --from", param_hint="--to")
    if stop > SystemClock().now():
        raise typer.BadParameter("the span is not over yet", param_hint="--to")
    effect = Effect(slack_s, [_away(text) for text in away or []])
    report: Report = run_async(_verify(target, first, stop, effect))
    if as_json:
        typer.echo(json.dumps(report.to_dict()))
    else:
        for line in _lines(report):
            typer.echo(line)
    if not report.clean:
        raise typer.Exit(DIFFERENCES)
    if report.judged_from > report.first:
        since = iso_of_epoch(report.judged_from)
        typer.echo(
            f"error: the stream holds nothing from before {since}, so the span was judged from there on; "
            f"--from {since} asks for no more than that",
            err=True,
        )
        raise typer.Exit(FAILED)


def _away(text: str) -> tuple[float, float]:
    first, _, last = text.partition("/")
    try:
        span = float(_second(first)), float(_second(last))
    except typer.BadParameter as error:
        raise typer.BadParameter(f"{text}: {error.message}", param_hint="--away") from None
    if span[0] > span[1]:
        raise typer.BadParameter(f"{text} ends before it begins", param_hint="--away")
    return span


async def _verify(target: Target, first: int, stop: int, effect: Effect) -> Report:
    console = Console(stderr=True)
    async with target.settings() as settings, connected(settings, "verify") as client:
        with console.status("connecting") as status:
            return await verify(settings, client, first, stop, effect=effect, tell=status.update)


def _lines(report: Report) -> Iterator[str]:
    yield f"{iso_of_epoch(report.first)} to {iso_of_epoch(report.stop)}, {report.jobs:,} jobs"
    yield f"{report.owed:>14,}  owed"
    yield f"{report.stored:>14,}  stored, {report.either:,} of them beside a change that left them open"
    for reason, count in report.skipped.items():
        yield f"{count:>14,}  skipped by catch-up: {reason}"
    for name, says in _FURTHER.items():
        if count := getattr(report, name):
            yield f"{count:>14,}  {says}"
    for name in ("missing", "duplicate", "unexpected"):
        count, ids = getattr(report, name), getattr(report, f"{name}_ids")
        yield f"{count:>14,}  {name}{': ' + ', '.join(ids[:SHOWN]) if ids else ''}"
        if count > SHOWN:
            yield f"{'':>14}  and {count - SHOWN:,} more"
