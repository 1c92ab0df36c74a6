"""``mainspring doctor``: everything a node depends on, looked at once."""

import json
from typing import Annotated

import typer
from rich.console import Console

from mainspring.engine.checks.deep_check import compare
from mainspring.engine.checks.doctor import examine
from mainspring.engine.checks.findings import Finding
from mainspring.engine.cli.nats_connection import connected
from mainspring.engine.cli.options import NATS, POSTGRES, JsonOption, Target, run_async, takes_settings
from mainspring.engine.clock import SystemClock

DIFFERENCES = 3


@takes_settings(*POSTGRES, *NATS, "catch_up_window_s", "http_host", "http_port")
def doctor_command(
    target: Target,
    deep: Annotated[
        bool, typer.Option("--deep", help="Hold every job in a node's wheel against the table as well.")
    ] = False,
    node: Annotated[
        str,
        typer.Option("--node", metavar="URL", help="The node; that of http_host and http_port unless said."),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Look at Postgres, NATS, the stream, the clocks, the recovery points and the quarantined jobs.

    Each is good, or has its mend beside it. The exit status is 3 where something is wrong; nothing is
    changed, and a running engine is not disturbed.

    With --deep a running node adds up a digest of every definition in its wheel, and so does this command of
    the table as it was at the same cursor of the change log: shards that differ are named, with ids. The node
    may go on firing and being edited; it spends some seconds of one core for each 25 million jobs.

    \b
    mainspring doctor
    mainspring doctor --deep --node http://10.0.0.7:8088
    mainspring doctor --embedded .mainspring --json
    """
    findings: list[Finding] = run_async(_examine(target, deep, node))
    if as_json:
        typer.echo(json.dumps([finding.to_dict() for finding in findings]))
    else:
        for finding in findings:
            _print(finding)
    if not all(finding.good for finding in findings):
        raise typer.Exit(DIFFERENCES)


def _print(finding: Finding) -> None:
    typer.echo(f"{'good ' if finding.good else 'WRONG'}  {finding.name:<24} {finding.says}")
    if finding.mend:
        typer.echo(f"{'':<7}{'':<24} mend: {finding.mend}")


async def _examine(target: Target, deep: bool, node: str) -> list[Finding]:
    async with target.settings() as settings:
        findings = await examine(settings, SystemClock(), connected)
        if deep:
            with Console(stderr=True).status("adding up every job in the wheel and in the table"):
                node = node or f"http://{settings.http_host}:{settings.http_port}"
                findings.append(await compare(settings, node))
        return findings
