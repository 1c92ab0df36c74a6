"""`mainspring jobs`: one job at a time, by id or key, and the listing of many."""

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

import typer

from mainspring.engine.cli.definition_flags import refuse, takes_definition, warn
from mainspring.engine.cli.job_connection import connection_to_jobs, job_connection
from mainspring.engine.cli.job_table import JobTable
from mainspring.engine.cli.job_text import job_json, job_lines, printable
from mainspring.engine.cli.jobs_files import export_command, import_command
from mainspring.engine.cli.nats_connection import connected
from mainspring.engine.cli.options import NATS, POSTGRES, JsonOption, Target, run_async, takes_settings
from mainspring.engine.clock import SystemClock
from mainspring.engine.jobs.definition import Definition, DefinitionError, read_definition
from mainspring.engine.jobs.fields import INT4_MAX
from mainspring.engine.jobs.instants import iso_of_epoch, read_duration
from mainspring.engine.jobs.store import Job, JobStore
from mainspring.engine.jobs.triggering import Trigger, publish_trigger, trigger_of
from mainspring.engine.jobs.upcoming import upcoming
from mainspring.engine.jobs.warnings import warnings_of

app = typer.Typer(
    no_args_is_help=True,
    help="Add, change, look at, import and export jobs.",
    rich_markup_mode="rich",
    add_completion=False,
)
app.command("import")(import_command)
app.command("export")(export_command)

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Id or key of the job.")]
JobsArgument = Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids or keys of the jobs.")]


class Kind(StrEnum):
    """The kinds of schedule, as the listing filters by them."""

    INTERVAL = "interval"
    CRON = "cron"
    ONCE = "once"


@app.command("add")
@takes_settings(*POSTGRES)
@takes_definition()
def add_command(
    target: Target,
    given: dict[str, object],
    paused: Annotated[bool, typer.Option("--paused", help="Add it paused.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Add a job: exactly one of --every, --cron and --run-at, and what else it needs.

    A new interval or cron job also runs once within seconds, so that you see it work;
    --no-first-run-soon leaves that out.

    \b
    mainspring jobs add --every 30s --key web-1 --route checks.http --payload '{"url": "https://example.org"}'
    mainspring jobs add --cron "0 9 * * MON-FRI" --tz Europe/Vienna --key report
    mainspring jobs add --run-at 2030-01-01T00:00:00Z --payload @party.json
    """
    given.setdefault("first_run_soon", "run_at" not in given)
    definition = _checked(given | {"enabled": not paused})

    async def add() -> Job:
        async with job_connection(target) as connection:
            return await JobStore(connection).add(definition)

    added: Job = run_async(add())
    _tell(added, "added", as_json=as_json)
    warn(warnings_of(added.definition, given, _now()))


@app.command("edit")
@takes_settings(*POSTGRES)
@takes_definition(leaving_out=frozenset({"id"}))
def edit_command(
    target: Target,
    job: JobArgument,
    given: dict[str, object],
    clear: Annotated[
        list[str] | None,
        typer.Option("--clear", metavar="FIELD", help="Set a column back to its default; may be repeated."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Change the given columns of a job and no others.

    A schedule of another kind replaces the old one, with what only made sense for that.

    \b
    mainspring jobs edit web-1 --every 1m
    mainspring jobs edit report --cron "0 8 * * *" --clear tz
    mainspring jobs edit 42 --clear payload --clear ends_at
    """
    if not given and not clear:
        raise typer.BadParameter("give at least one column to change", param_hint="edit")

    async def edit() -> Job:
        async with job_connection(target) as connection:
            return await JobStore(connection).edit(job, given, clear or ())

    try:
        edited = run_async(edit())
    except DefinitionError as error:
        refuse(error.problems)
    _tell(edited, "edited", as_json=as_json)
    warn(warnings_of(edited.definition, given, _now()))


@app.command("pause")
@takes_settings(*POSTGRES)
def pause_command(target: Target, jobs: JobsArgument) -> None:
    """Stop jobs from running, until they are resumed; all of those named, or none if one is unknown."""
    _switch(target, jobs, enabled=False)


@app.command("resume")
@takes_settings(*POSTGRES)
def resume_command(target: Target, jobs: JobsArgument) -> None:
    """Let paused jobs run again; all of those named, or none if one is unknown."""
    _switch(target, jobs, enabled=True)


@app.command("boost")
@takes_settings(*POSTGRES)
def boost_command(
    target: Target,
    job: JobArgument,
    every: Annotated[str, typer.Option("--every", metavar="S", help="The faster interval: 5, 5s, 1m.")],
    duration: Annotated[str, typer.Option("--for", metavar="D", help="How long from now: 90s, 30m, 2h, 1d.")],
    as_json: JsonOption = False,
) -> None:
    """Run a job faster for a while; it falls back to its own schedule by itself.

    \b
    mainspring jobs boost web-1 --every 5s --for 30m
    mainspring jobs edit web-1 --clear boost_every_s --clear boost_until    # ends it at once
    """
    until = _now() + _duration("--for", duration)
    changes: dict[str, object] = {"boost_every_s": _duration("--every", every), "boost_until": until}

    async def boost() -> Job:
        async with job_connection(target) as connection:
            return await JobStore(connection).edit(job, changes)

    try:
        boosted = run_async(boost())
    except DefinitionError as error:
        refuse(error.problems)
    _tell(boosted, f"boosted until {iso_of_epoch(until)}:", as_json=as_json)


@app.command("remove")
@takes_settings(*POSTGRES)
def remove_command(target: Target, jobs: JobsArgument) -> None:
    """Delete jobs; all of those named, or none if one is unknown."""

    async def remove() -> list[int]:
        async with job_connection(target) as connection:
            return await JobStore(connection).remove(jobs)

    for job_id in run_async(remove()):
        typer.echo(f"removed {job_id}")


@app.command("trigger")
@takes_settings(*POSTGRES, *NATS)
def trigger_command(target: Target, job: JobArgument, as_json: JsonOption = False) -> None:
    """Run a job now, whatever its schedule says; paused ones too.

    The run has an id of its own and the type mainspring.trigger. The command ends when the stream holds it.

    \b
    mainspring jobs trigger web-1
    mainspring jobs trigger 42 --json | jq -r .id
    """

    async def trigger() -> Trigger:
        async with target.settings() as settings:
            async with connection_to_jobs(settings) as connection:
                found = await JobStore(connection).find(job)
            message = trigger_of(found.definition, settings.instance, _now())
            async with connected(settings, "trigger") as client:
                await publish_trigger(client, message)
        return message

    done: Trigger = run_async(trigger())
    typer.echo(json.dumps({"id": done.id, "subject": done.subject}) if as_json else f"triggered {done.id}")


@app.command("show")
@takes_settings(*POSTGRES)
def show_command(
    target: Target,
    job: JobArgument,
    count: Annotated[int, typer.Option("--count", min=0, max=1000, help="How many of the next runs.")] = 5,
    as_json: JsonOption = False,
) -> None:
    """Show a job and its next runs, or why it has none."""

    async def find() -> Job:
        async with job_connection(target) as connection:
            return await JobStore(connection).find(job)

    found: Job = run_async(find())
    coming = upcoming(found.definition, _now(), count)
    _print([job_json(found, coming)] if as_json else job_lines(found, coming))


@app.command("list")
@takes_settings(*POSTGRES)
def list_command(
    target: Target,
    *,
    route: Annotated[str | None, typer.Option("--route", help="Only jobs of this route.")] = None,
    kind: Annotated[Kind | None, typer.Option("--kind", help="Only jobs of this kind of schedule.")] = None,
    paused: Annotated[
        bool | None,
        typer.Option("--paused/--active", help="Only paused jobs, or only others.", show_default=False),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List jobs in the order of their ids, each with its next run. Streams: the table may hold millions.

    \b
    mainspring jobs list --route checks.http --limit 20
    mainspring jobs list --kind cron --json | jq .cron
    """
    enabled = None if paused is None else not paused
    filters = {"route": route, "kind": kind, "enabled": enabled, "limit": limit}
    run_async(_list(target, filters, as_json=as_json))


async def _list(target: Target, filters: dict[str, Any], *, as_json: bool) -> None:
    now = _now()
    table = JobTable(typer.echo)
    async with job_connection(target) as connection:
        async for job in JobStore(connection).list(**filters):
            coming = upcoming(job.definition, now, 1)
            if as_json:
                typer.echo(job_json(job, coming))
            else:
                table.add(job, coming)
    if not as_json:
        table.flush()


def _switch(target: Target, names: list[str], *, enabled: bool) -> None:
    async def switch() -> dict[str, bool]:
        async with job_connection(target) as connection:
            return await JobStore(connection).set_enabled(names, enabled=enabled)

    done = "resumed" if enabled else "paused"
    for name, changed in run_async(switch()).items():
        typer.echo(f"{done} {printable(name)}" if changed else f"{printable(name)} was {done} already")


def _duration(flag: str, text: str) -> int:
    try:
        seconds = read_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=flag) from None
    if not 1 <= seconds <= INT4_MAX:
        raise typer.BadParameter(f"{text}: give 1 to {INT4_MAX} seconds", param_hint=flag)
    return seconds


def _checked(given: dict[str, object]) -> Definition:
    try:
        return read_definition(given)
    except DefinitionError as error:
        refuse(error.problems)


def _tell(job: Job, done: str, *, as_json: bool) -> None:
    name = f" ({printable(job.definition.key)})" if job.definition.key else ""
    typer.echo(job_json(job) if as_json else f"{done} job {job.id}{name}")


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)


def _now() -> int:
    return int(SystemClock().now())
