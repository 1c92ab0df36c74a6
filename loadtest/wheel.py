"""`mainspring loadtest wheel`: memory, loads, drains, edits and sweeps, each in a fresh process."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from mainspring.loadtest.apart import PhaseFailed, run_apart
from mainspring.loadtest.crons import cron_phase
from mainspring.loadtest.draining import firing_phase, herd_phase
from mainspring.loadtest.editing import edits_phase, watchdog_phase
from mainspring.loadtest.lasting import compared, edited_load_phase, lasting_phase
from mainspring.loadtest.loading import load_2_threads_phase, load_phase
from mainspring.loadtest.machine import machine_phase
from mainspring.loadtest.plan import Figures, Phase, Plan, Tell
from mainspring.loadtest.ticking import ticks_phase
from mainspring.loadtest.wheel_figures import as_json, as_table

JOBS_MAX: Final = 50_000_000
"""The texts of more would not fit the 32-bit offsets of one batch."""

PHASES: Final[dict[str, Sequence[Phase]]] = {
    "machine": (machine_phase,),
    "load": (load_phase, load_2_threads_phase),
    "firing": (firing_phase,),
    "ticks": (ticks_phase,),
    "herd": (herd_phase,),
    "edits": (edits_phase,),
    "watchdog": (watchdog_phase,),
    "cron": (cron_phase,),
    "lasting": (edited_load_phase, lasting_phase),
}


def _phase(name: str) -> str:
    if name not in PHASES:
        raise typer.BadParameter(f"{name} is no phase: give one of {', '.join(PHASES)}")
    return name


def wheel_command(
    *,
    jobs: Annotated[
        int, typer.Option("--jobs", min=1000, max=JOBS_MAX, metavar="N", help="How many jobs.")
    ] = 1_000_000,
    uuid_keys: Annotated[bool, typer.Option("--uuid-keys", help="Give each job a UUID for its key.")] = False,
    small_pages: Annotated[
        bool, typer.Option("--small-pages", help="Have the kernel back everything with 4 kB pages.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="PHASE", parser=_phase, help=f"Of {', '.join(PHASES)}; may be repeated."
        ),
    ] = None,
    ticks: Annotated[int, typer.Option("--ticks", min=1, help="Ticks to take while edits come in.")] = 2000,
    edits_per_s: Annotated[
        int, typer.Option("--edits-per-s", min=1, help="Edits a second while ticking.")
    ] = 50_000,
    simulated_s: Annotated[
        int, typer.Option("--simulated-s", min=1, help="Seconds to tick after the edits, for memory.")
    ] = 7200,
    embedded: Annotated[  # noqa: ARG001
        Path | None,
        typer.Option("--embedded", metavar="DIR", help="Taken as by every command; no server is needed."),
    ] = None,
    json_wanted: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure the wheel: bytes a job, loads, re-arms, ticks, a herd, edits, the watchdog's sweep.

    Each phase runs in a process of its own. 25 million jobs take about 7 GB of memory and twenty minutes.

    \b
    mainspring loadtest wheel --jobs 1000000
    mainspring loadtest wheel --jobs 25000000 --json > wheel-25m.json
    mainspring loadtest wheel --jobs 5000000 --only firing --small-pages
    """
    plan = Plan(jobs, uuid_keys, small_pages, ticks, edits_per_s, simulated_s)
    try:
        figures = measure(plan, only or list(PHASES))
    except PhaseFailed as failed:
        typer.echo(str(failed), err=True)
        raise typer.Exit(1) from None
    if json_wanted:
        typer.echo(json.dumps(as_json(figures)))
    else:
        Console().print(as_table(figures))


def measure(plan: Plan, names: Sequence[str]) -> Figures:
    """Run these of the `PHASES`, in their order, and give all their figures."""
    phases = [phase for name in PHASES if name in names for phase in PHASES[name]]
    figures: Figures = {"jobs": plan.jobs, "uuid_keys": plan.uuid_keys}
    with _progress(len(phases)) as telling:
        for phase in phases:
            figures |= run_apart(phase, plan, telling(phase))
    return figures | compared(figures)


@contextmanager
def _progress(phases: int) -> Iterator[Callable[[Phase], Tell]]:
    """A bar on stderr where that is a terminal; what it yields makes the `Tell` of the next phase."""
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("", total=phases)
        begun = -1

        def tell(before: int, share: float) -> None:
            bar.update(task, completed=before + share)

        def telling(phase: Phase) -> Tell:
            nonlocal begun
            begun += 1
            bar.update(
                task, completed=begun, description=phase.__name__.removesuffix("_phase").replace("_", " ")
            )
            return partial(tell, begun)

        yield telling
