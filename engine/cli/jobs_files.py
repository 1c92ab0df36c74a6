"""`mainspring jobs import` and `jobs export`: all jobs as a file, and back."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from mainspring.engine.cli.destination import Destination
from mainspring.engine.cli.failures import FAILED
from mainspring.engine.cli.file_progress import export_progress, import_progress
from mainspring.engine.cli.job_connection import job_connection
from mainspring.engine.cli.options import POSTGRES, JsonOption, Target, run_async, takes_settings
from mainspring.engine.cli.signals import interrupt_reads
from mainspring.engine.jobs.exporting import export_jobs, unfit_crons
from mainspring.engine.jobs.importing import Import, ImportReport
from mainspring.engine.jobs.plain_rows import csv_row, json_row
from mainspring.engine.jobs.records import read_csv, read_json_lines


class Format(StrEnum):
    """How jobs are written in a file."""

    JSONL = "jsonl"
    CSV = "csv"


FormatOption = Annotated[
    Format | None, typer.Option("--format", help="By the file's suffix where it has one; jsonl otherwise.")
]


@takes_settings(*POSTGRES)
def import_command(
    target: Target,
    *,
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON lines or CSV; - is stdin.")],
    fmt: FormatOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check all and count, write nothing.")] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Write the good rows although others are bad.")
    ] = False,
    errors: Annotated[
        int, typer.Option("--errors", min=0, help="How many bad rows to name; all are counted.")
    ] = 100,
    as_json: JsonOption = False,
) -> None:
    """Write the jobs of a file: those with a known id, or else a known key, are updated, the others inserted.

    A row is the whole definition: what it leaves out takes its default, except that a job which is
    paused stays paused unless the row says enabled. All rows are written in one transaction or,
    where one of them is bad, none; each bad row is named with its line and the reason.

    \b
    {"key": "web-1", "every_s": 30, "route": "checks.http", "payload": {"url": "https://example.org"}}
    {"key": "report", "cron": "0 9 * * MON-FRI", "tz": "Europe/Vienna"}

    Columns as in the table mainspring.jobs; times in ISO 8601 with an offset, or in epoch seconds.
    """
    csv = _format_of(file, fmt) == Format.CSV

    async def write() -> ImportReport:
        interrupt_reads()
        with _source(file) as stream, import_progress(stream) as progress:
            async with job_connection(target) as connection:
                work = Import(
                    connection, skip_bad=skip_bad, dry_run=dry_run, problems_max=errors, progress=progress
                )
                return await work.run(read_csv(stream, csv_row) if csv else read_json_lines(stream, json_row))

    report: ImportReport = run_async(write())
    _tell_problems(report)
    if as_json:
        typer.echo(_report_json(report))
    else:
        _tell_result(report, dry_run=dry_run)
    if report.refused:
        raise typer.Exit(FAILED)


@takes_settings(*POSTGRES)
def export_command(
    target: Target,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to; - is stdout.")] = "-",
    fmt: FormatOption = None,
) -> None:
    """Write all jobs, at one moment, to a file that `jobs import` takes unchanged, ids included.

    \b
    mainspring jobs export jobs.jsonl
    mainspring jobs export --format csv > jobs.csv
    """

    async def read(destination: Destination) -> tuple[int, list[tuple[int, int, str]]]:
        async with job_connection(target) as connection:
            with export_progress() as progress:

                async def sink(chunk: bytes) -> None:
                    destination.write(chunk)
                    progress(len(chunk))

                count = await export_jobs(connection, sink, fmt=_format_of(file, fmt))
            return count, await unfit_crons(connection)

    # Opened out here: opening a fifo waits for its reader, and Ctrl-C has to end that too.
    with Destination(file) as destination:
        count, unfit = run_async(read(destination))
    for jobs, example, reason in unfit:
        who = f"job {example}" if jobs == 1 else f"{jobs} jobs, such as {example},"
        typer.echo(f"warning: {who} cannot be imported again: {reason}", err=True)
    typer.echo(f"{count} jobs exported", err=True)


def _format_of(file: str, fmt: Format | None) -> str:
    if fmt is not None:
        return fmt.value
    return "csv" if file.lower().endswith(".csv") else "jsonl"


@contextmanager
def _source(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
        return
    with Path(file).open("rb") as stream:
        yield stream


def _tell_problems(report: ImportReport) -> None:
    for line, problem in report.problems:
        typer.echo(f"line {line}: {problem}", err=True)
    if report.bad > (shown := len({line for line, _ in report.problems})):
        typer.echo(f"... and {report.bad - shown} more bad rows", err=True)


def _tell_result(report: ImportReport, *, dry_run: bool) -> None:
    if report.refused:
        mend = "mend them, or write the others with --skip-bad"
        typer.echo(
            f"error: {report.bad} of {report.read} rows are bad, nothing was written: {mend}", err=True
        )
        return
    left_out = f", {report.bad} bad left out" if report.bad else ""
    counts = f"{report.inserted} inserted, {report.updated} updated, {report.unchanged} unchanged{left_out}"
    typer.echo(f"dry run, nothing written; would be {counts}" if dry_run else counts)


def _report_json(report: ImportReport) -> str:
    names = ("read", "bad", "inserted", "updated", "unchanged", "written")
    problems = [
        {"line": line, "field": problem.field or None, "message": problem.message}
        for line, problem in report.problems
    ]
    return json.dumps({name: getattr(report, name) for name in names} | {"problems": problems})
