"""`mainspring loadtest lateness`: how long after its instant a run is acknowledged, at a steady rate.

A whole node with a fleet that gives the rate, on an embedded Postgres and NATS. Lateness is what the node
itself counts, acknowledged minus scheduled, from when the stream's memory of ids is full. What the same
server takes from a raw socket, before the node starts and after it has ended, says what there is to be had:
all runs of a second come due at its edge, so to acknowledge the last takes the rate over the raw rate.
"""

import asyncio
import json
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Final

import typer
from nats.errors import Error as NatsError
from rich.console import Console
from rich.progress import Progress

from mainspring.engine.broker.stream import DUPLICATE_WINDOW_S
from mainspring.engine.cli.failures import explain
from mainspring.engine.cli.number_flags import finite
from mainspring.engine.clock import SystemClock
from mainspring.engine.embedded import EmbeddedError
from mainspring.loadtest.ending import run_to_its_end
from mainspring.loadtest.fleet import MIX
from mainspring.loadtest.node_process import NodeFailed
from mainspring.loadtest.plan import Figures
from mainspring.loadtest.raw_publisher import RawFailed
from mainspring.loadtest.raw_rate import raw_runs_per_s
from mainspring.loadtest.rounds import RunsLost
from mainspring.loadtest.steady import Look, SteadyNode, steady_node
from mainspring.loadtest.wheel_figures import Figure, as_json, as_table

P99_MS: Final = 250.0
P999_MS: Final = 600.0
BURSTS: Final = 1.5
MARGIN_MS: Final = 30.0
RAW_RUNS: Final = 500_000
WINDOW_S: Final = 10
"""The looks at the node are so far apart, at a moment when the runs of a second should be acknowledged."""

_LOOK_AT_S: Final = 0.8
_FAILED: Final = (EmbeddedError, NatsError, NodeFailed, RawFailed, RunsLost, OSError)

FIGURES: Final = (
    Figure("jobs", "interval jobs, the mix of a product that monitors", 0),
    Figure("seconds", "measured, from when the node had published for --warm-up-s", 0),
    Figure("runs", "acknowledged in them, which are all that came due", 0),
    Figure("runs_per_s", "of the node", 0),
    Figure(
        "raw_runs_per_s", "of a raw socket, to another stream of the same server; mean of before and after", 0
    ),
    Figure("burst_ms", "the one in the other: so long a raw socket would take for each second", 0),
    Figure("p50_ms", "lateness, acknowledged minus scheduled: median", 0),
    Figure("p99_ms", "99th percentile", 0),
    Figure("p999_ms", "99.9th percentile", 0),
    Figure("p99_limit_ms", f"what the former may be: --p99-ms, or {BURSTS} bursts and {MARGIN_MS:.0f} ms", 0),
    Figure("p999_limit_ms", "and the latter: --p999-ms", 0),
    Figure("worst_window_p99_ms", f"the 99th percentile of the worst {WINDOW_S} s", 0),
    Figure("publish_errors", "sendings without success", 0),
    Figure("node_cores", "CPU time of the node, seconds a second", 3),
    Figure("server_cores", "of nats-server", 3),
    Figure("others_cores", "of all else on this machine, Postgres included", 3),
    Figure("holds", "both percentiles are within their limits"),
)


@dataclass(frozen=True, slots=True)
class Course:
    """Runs a second, for how long, and how many the raw socket publishes before."""

    rate: float
    warm_up_s: float
    measured_s: float
    raw_runs: int


@dataclass(frozen=True, slots=True)
class Limits:
    """How late runs may be, milliseconds."""

    p99_ms: float = P99_MS
    p999_ms: float = P999_MS


def lateness_command(
    *,
    rate: Annotated[
        float, typer.Option("--rate", callback=finite, min=1, metavar="N", help="Runs a second.")
    ] = 20_000.0,
    minutes: Annotated[
        float, typer.Option("--minutes", callback=finite, min=0.01, help="How long to measure.")
    ] = 10.0,
    warm_up_s: Annotated[
        float,
        typer.Option(
            "--warm-up-s",
            callback=finite,
            min=0,
            help="How long to publish before; the stream's duplicate window.",
        ),
    ] = DUPLICATE_WINDOW_S,
    raw_runs: Annotated[
        int, typer.Option("--raw-runs", min=2000, metavar="N", help="How many by the raw socket.")
    ] = RAW_RUNS,
    p99_ms: Annotated[
        float, typer.Option("--p99-ms", callback=finite, min=0, help="How late one run in 100 may be.")
    ] = P99_MS,
    p999_ms: Annotated[
        float, typer.Option("--p999-ms", callback=finite, min=0, help="How late one run in 1000 may be.")
    ] = P999_MS,
    embedded: Annotated[
        Path | None,
        typer.Option(
            "--embedded",
            metavar="DIR",
            help="Where the servers, always fresh ones, keep their files meanwhile.",
        ),
    ] = None,
    json_wanted: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure how late runs are acknowledged by a whole node at a steady rate.

    Exit status 1 where more runs than allowed are later than the limits. 20,000 runs a second for ten minutes
    and the two before them leave 5 GB in the stream, which are gone afterwards.

    \b
    mainspring loadtest lateness
    mainspring loadtest lateness --rate 5000 --minutes 2 --json
    """
    course = Course(rate, warm_up_s, minutes * 60, raw_runs)
    try:
        figures = run_to_its_end(measure(course, Limits(p99_ms, p999_ms), embedded))
    except _FAILED as failed:
        typer.echo(explain(failed), err=True)
        raise typer.Exit(1) from None
    if json_wanted:
        typer.echo(json.dumps(as_json(figures, FIGURES)))
    else:
        Console().print(as_table(figures, FIGURES))
    if not figures["holds"]:
        raise typer.Exit(1)


def jobs_for(rate: float) -> int:
    """How many of the mix come to so many runs a second."""
    return math.ceil(rate / sum(share / every_s for every_s, share in MIX))


async def measure(course: Course, limits: Limits, folder: Path | None) -> Figures:
    """On servers that are there for this alone, in a folder of their own below `folder`."""
    jobs, console = jobs_for(course.rate), Console(stderr=True)
    with (
        tempfile.TemporaryDirectory(prefix="mainspring-lateness-", dir=folder) as place,
        Progress(console=console, disable=not console.is_terminal, transient=True) as bar,
    ):
        task = bar.add_task("stocking the table", total=jobs)

        def tell(done: float) -> None:
            bar.update(task, completed=done)

        async with steady_node(jobs, Path(place), tell) as node:
            bar.update(task, description="a raw socket", total=None)
            raw_before = await raw_runs_per_s(node.server.url, course.raw_runs // 2)
            bar.update(task, description="the node", total=course.warm_up_s + course.measured_s, completed=0)
            await node.begin()
            looks = await _looks(node, course, tell)
            await node.end()
            bar.update(task, description="a raw socket", total=None)
            raw_after = await raw_runs_per_s(node.server.url, course.raw_runs // 2)
    return {"jobs": jobs} | figures_of(looks, (raw_before + raw_after) / 2, limits)


async def _looks(node: SteadyNode, course: Course, tell: Callable[[float], None]) -> list[Look]:
    """From the end of the warm-up on, about WINDOW_S apart, the last one `measured_s` after the first."""
    clock = SystemClock()
    begin_at = math.ceil(clock.now() + course.warm_up_s) + _LOOK_AT_S
    steps = _steps(course.measured_s)
    looks = []
    for after_s in steps:
        while (left_s := begin_at + after_s - clock.now()) > 0:
            await asyncio.sleep(min(left_s, 1.0))
            tell(course.warm_up_s + clock.now() - begin_at)
        looks.append(await (node.look_settled() if after_s == steps[-1] else node.look()))
    return looks


def _steps(measured_s: float) -> list[float]:
    """Seconds after the first look, itself included."""
    windows = max(1, round(measured_s / WINDOW_S))
    return [measured_s * step / windows for step in range(windows + 1)]


def figures_of(looks: list[Look], raw_per_s: float, limits: Limits) -> Figures:
    """What the looks come to."""
    first, last = looks[0], looks[-1]
    seconds, lateness = last.at - first.at, last.lateness.since(first.lateness)
    runs = last.acknowledged - first.acknowledged
    burst_ms = runs / seconds / raw_per_s * 1e3
    p99_ms, p999_ms = lateness.quantile(0.99) * 1e3, lateness.quantile(0.999) * 1e3
    p99_limit_ms = min(limits.p99_ms, BURSTS * burst_ms + MARGIN_MS)
    windows = [later.lateness.since(earlier.lateness) for earlier, later in pairwise(looks)]
    return {
        "seconds": seconds,
        "runs": runs,
        "runs_per_s": runs / seconds,
        "raw_runs_per_s": raw_per_s,
        "burst_ms": burst_ms,
        "p50_ms": lateness.quantile(0.5) * 1e3,
        "p99_ms": p99_ms,
        "p999_ms": p999_ms,
        "p99_limit_ms": p99_limit_ms,
        "p999_limit_ms": limits.p999_ms,
        "worst_window_p99_ms": max(window.quantile(0.99) for window in windows) * 1e3,
        "publish_errors": last.errors - first.errors,
        "node_cores": (last.node_cpu_s - first.node_cpu_s) / seconds,
        "server_cores": (last.server_cpu_s - first.server_cpu_s) / seconds,
        "others_cores": (last.others_cpu_s - first.others_cpu_s) / seconds,
        "holds": p99_ms <= p99_limit_ms and p999_ms <= limits.p999_ms,
    }
