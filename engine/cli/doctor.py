"""``mainspring doctor``: everything a node depends on, looked at once."""

import json

import typer

from mainspring.engine.cli.nats_connection import connected
from mainspring.engine.cli.options import NATS, POSTGRES, JsonOption, Target, run_async, takes_settings
from mainspring.engine.clock import SystemClock
from mainspring.engine.doctor import Finding, examine

DIFFERENCES = 3


@takes_settings(*POSTGRES, *NATS, "catch_up_window_s")
def doctor_command(target: Target, as_json: JsonOption = False) -> None:
    """Look at Postgres, NATS, the stream, the clocks, the recovery points and the quarantined jobs.

    Each is good, or has its mend beside it. The exit status is 3 where something is wrong; nothing is
    changed, and a running engine is not disturbed.

    \b
    mainspring doctor
    mainspring doctor --embedded .mainspring --json
    """
    findings: list[Finding] = run_async(_examine(target))
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


async def _examine(target: Target) -> list[Finding]:
    async with target.settings() as settings:
        return await examine(settings, SystemClock(), connected)
