"""`mainspring explain`: a job in the wheel, its runs, and why one did or did not come."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

import typer

from mainspring.engine.cli.job_connection import job_connection
from mainspring.engine.cli.job_text import printable
from mainspring.engine.cli.options import POSTGRES, JsonOption, Target, run_async, takes_settings
from mainspring.engine.clock import SystemClock
from mainspring.engine.jobs.explain import (
    Verdict,
    facts,
    first_run,
    local_of,
    runs_after,
    runs_before,
    unsure,
    verdict,
)
from mainspring.engine.jobs.instants import epoch_s, iso_of_epoch, read_instant
from mainspring.engine.jobs.store import Held, Job, JobStore


def _instant(text: str) -> datetime:
    try:
        return read_instant(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@takes_settings(*POSTGRES, "catch_up_window_s")
def explain_command(
    target: Target,
    job: Annotated[str, typer.Argument(metavar="JOB", help="Id or key of the job.")],
    at: Annotated[
        datetime | None,
        typer.Option("--at", parser=_instant, metavar="T", help="Why a run did or did not come at T."),
    ] = None,
    count: Annotated[
        int, typer.Option("--count", min=1, max=1000, help="How many runs before and after.")
    ] = 3,
    as_json: JsonOption = False,
) -> None:
    """Explain a job: its shard, phase and zone, its schedule in words, the runs before now and after.

    With --at, T being ISO 8601 with an offset or epoch seconds, also why a run did or did not come then, by
    the definition that held at T.

    \b
    mainspring explain report
    mainspring explain 42 --at 2026-03-29T02:30:00+02:00
    """
    found, held = run_async(_read(target, job, at))
    now = int(SystemClock().now())
    window_s = target.load().settings.catch_up_window_s
    judged = None if at is None else _judged(found, held, epoch_s(at), now, window_s)
    told = _told(found, now, count, judged)
    for line in [json.dumps(told, ensure_ascii=False)] if as_json else _lines(told):
        typer.echo(line)


async def _read(target: Target, name: str, at: datetime | None) -> tuple[Job, Held]:
    async with job_connection(target) as connection:
        store = JobStore(connection)
        found = await store.find(name)
        return found, Held(found.definition) if at is None else await store.held_at(found, at)


def _judged(job: Job, held: Held, at: int, now: int, window_s: int) -> Verdict:
    judged = verdict(held.definition, at, now, window_s)
    reasons = list(judged.reasons)
    if held.unsure_before is not None and held.pruned_at is not None:
        reasons.append(unsure(held.unsure_before, held.pruned_at))
    soon = None if held.definition is None else first_run(held.definition, at - epoch_s(job.created_at))
    if soon is not None:
        reasons.append(f"first run soon: a new job also runs {soon}")
    return replace(judged, reasons=reasons)


def _told(job: Job, now: int, count: int, judged: Verdict | None) -> dict[str, Any]:
    definition = job.definition
    quarantined = definition.quarantine_reason()
    told: dict[str, Any] = {"id": job.id, "key": definition.key, "kind": definition.kind}
    told["state"] = f"quarantined: {quarantined}" if quarantined else "on" if definition.enabled else "paused"
    past, coming = [], []
    if not quarantined:
        schedule, since = definition.schedule(), epoch_s(job.created_at)
        told |= {name.replace(" ", "_"): value for name, value in facts(definition).items()}
        past = runs_before(schedule, job.id, now, count, since)
        coming = runs_after(schedule, job.id, now, count) if definition.enabled else []
        # A creation amid this second is rounded up to the next.
        if (soon := first_run(definition, max(0, now - epoch_s(job.created_at)))) is not None:
            told["first_run"] = soon
    told["past"] = [_moment(definition.tz, run) for run in past]
    told["next"] = [_moment(definition.tz, run) for run in coming]
    if judged is not None:
        told["at"] = _moment(definition.tz, judged.at) | {"due": judged.due, "reasons": judged.reasons}
    return told


def _moment(tz: str, at: int) -> dict[str, Any]:
    return {"epoch": at, "utc": iso_of_epoch(at), "local": _local(tz, at)}


def _local(tz: str, at: int) -> str | None:
    try:
        return local_of(tz, at)
    except (ValueError, OverflowError):
        return None  # an unknown zone, or a year that no calendar of ours reaches


def _lines(told: dict[str, Any]) -> Iterator[str]:
    for name, value in told.items():
        if isinstance(value, list):
            yield from _run_lines(f"{name} runs", value)
        elif name == "at":
            yield f"{'at ' + value['utc']:<22} {'a run' if value['due'] else 'no run'}"
            yield from (f"{'':<15} {printable(reason)}" for reason in value["reasons"])
        elif value is not None:
            yield f"{name.replace('_', ' '):<15} {printable(str(value))}"


def _run_lines(title: str, runs: list[dict[str, Any]]) -> Iterator[str]:
    if not runs:
        yield f"{title:<15} none"
    for position, run in enumerate(runs):
        local = "" if run["local"] is None else f"  {run['local']}"
        yield f"{'' if position else title:<15} {run['utc']}{local}"
