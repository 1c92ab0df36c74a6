"""`mainspring next`: evaluates a schedule offline, without Postgres and without the engine."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import typer

from mainspring.engine.cli.next_batch import (
    COUNT_MAX,
    EVERY_S_MAX,
    INSTANT_MAX,
    answers,
    cron_fires,
    interval_fires,
)
from mainspring.engine.clock import SystemClock
from mainspring.engine.jobs.fields import INT8_MAX, INT8_MIN, shown
from mainspring.engine.jobs.instants import EPOCH, iso_of_epoch, read_duration, read_instant

_ANSWERS_A_WRITE: Final = 512


def _duration(text: str) -> int:
    try:
        seconds = read_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if not 0 <= seconds <= EVERY_S_MAX:
        raise typer.BadParameter(f"{text} is out of range: give seconds from 0 to {EVERY_S_MAX}")
    return seconds


def _instant(text: str) -> int:
    """Epoch seconds; a part of a second is cut off, which changes no "next instant after"."""
    if text.lstrip("+-").isdigit():
        return _anchor(text)
    try:
        return (read_instant(text) - EPOCH) // timedelta(seconds=1)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _job_id(text: str) -> int:
    return _between(text, INT8_MIN, INT8_MAX, "a signed 64-bit integer")


def _anchor(text: str) -> int:
    return _between(text, -INSTANT_MAX, INSTANT_MAX, "epoch seconds from -2^53 to 2^53")


def _between(text: str, low: int, high: int, mend: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = high + 1
    if not low <= number <= high:
        raise typer.BadParameter(f"{shown(text)} will not do: give {mend}")
    return number


def next_command(
    *,
    every: Annotated[
        int | None,
        typer.Option(
            "--every", parser=_duration, metavar="S", help="An interval: seconds, or 90s, 5m, 1h30m."
        ),
    ] = None,
    cron: Annotated[str | None, typer.Option("--cron", metavar="EXPR", help="A cron expression.")] = None,
    tz: Annotated[
        str, typer.Option("--tz", metavar="ZONE", help="The IANA zone of the cron expression.")
    ] = "UTC",
    job_id: Annotated[
        int | None,
        typer.Option(
            "--id",
            metavar="N",
            parser=_job_id,
            help="The job's id: gives an interval its phase, spreads a cron.",
        ),
    ] = None,
    phase: Annotated[
        int | None,
        typer.Option(
            "--phase", parser=_duration, metavar="S", help="A phase of your own, not the hashed one."
        ),
    ] = None,
    anchor: Annotated[
        int,
        typer.Option(
            "--anchor",
            metavar="T",
            parser=_anchor,
            help="Where the grid begins, in epoch seconds.",
        ),
    ] = 0,
    jitter: Annotated[
        int | None,
        typer.Option(
            "--jitter", parser=_duration, metavar="S", help="The window that --id spreads a cron over."
        ),
    ] = None,
    start: Annotated[
        int | None,
        typer.Option(
            "--from",
            parser=_instant,
            metavar="T",
            help="ISO 8601 with offset, or epoch seconds. Default: now.",
        ),
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, max=COUNT_MAX, help="How many instants.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help='Print {"next":[...]} in epoch seconds.')] = False,
    batch: Annotated[
        str | None,
        typer.Option("--batch", metavar="FILE", help="Answer each JSON line of the file, or of - (stdin)."),
    ] = None,
    embedded: Annotated[  # noqa: ARG001
        Path | None,
        typer.Option("--embedded", metavar="DIR", help="Taken as by every command; no server is needed."),
    ] = None,
) -> None:
    """Print the next instants of a schedule, without a database.

    \b
    mainspring next --every 5m --id 42
    mainspring next --cron "0 9 * * MON-FRI" --tz Europe/Vienna --from 2026-03-27T00:00:00Z
    echo '{"every_s":60,"id":42,"from":0,"count":3}' | mainspring next --batch -

    Each line of a batch has every_s with id (and phase_s, anchor), or cron with tz (and id, jitter_s);
    both take from and count. It is answered by {"next":[...]} or {"error":"..."}, in the same order.
    """
    if batch is not None:
        if every is not None or cron is not None:
            raise typer.BadParameter(
                "stands beside --every or --cron: give one of the three", param_hint="--batch"
            )
        _answer_batch(batch)
        return
    after = int(SystemClock().now()) if start is None else start
    asked = {"job_id": job_id, "jitter_s": jitter, "after": after, "count": count}
    try:
        fires = _single(every, cron, tz=tz, phase_s=phase, anchor=anchor, **asked)
    except ValueError as error:
        hint = "--every" if every is not None else "--cron"
        raise typer.BadParameter(str(error), param_hint=hint) from None
    if as_json:
        typer.echo(json.dumps({"next": list(fires)}, separators=(",", ":")))
        return
    for due in fires:
        typer.echo(f"{iso_of_epoch(due)}  {due}")
    if not fires:
        typer.echo("no instant left after --from", err=True)


def _single(
    every: int | None, cron: str | None, *, tz: str, phase_s: int | None, anchor: int, **asked: Any
) -> Sequence[int]:
    """The instants of the one schedule that the flags give; `asked`: job_id, jitter_s, after and count."""
    jitter_s = asked.pop("jitter_s")
    if every is not None and cron is None:
        return interval_fires(every, phase_s=phase_s, anchor=anchor, **asked)
    if cron is not None and every is None:
        return cron_fires(cron, tz=tz, jitter_s=jitter_s, **asked)
    raise typer.BadParameter("give exactly one of --every, --cron and --batch", param_hint="SCHEDULE")


def _answer_batch(name: str) -> None:
    out = sys.stdout.buffer
    with _opened(name) as stream:
        for block in _blocks(answers(stream)):
            out.write(block)
    out.flush()


def _blocks(lines: Iterable[str]) -> Iterator[bytes]:
    """Answers joined into writes, for a write a line costs more than the answer."""
    remaining = iter(lines)
    while block := list(islice(remaining, _ANSWERS_A_WRITE)):
        block.append("")
        yield "\n".join(block).encode()


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        yield sys.stdin.buffer
        return
    with Path(name).open("rb") as stream:
        yield stream
