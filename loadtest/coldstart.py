"""`mainspring loadtest coldstart`: from a table to a wheel that is ready, beside a COPY that is thrown away.

Each round copies the same columns of the same table twice, once into nothing and once into a wheel by the
node's own loader, each in a fresh process, so that a slow minute of the machine is a slow minute of both.
"""

import asyncio
import json
import multiprocessing
from collections.abc import Callable, Coroutine
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, process_time
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import Progress

from mainspring.changelog_tailer import close, connect
from mainspring.changelog_tailer.copy_stream import copying
from mainspring.changelog_tailer.copying import STALL_TIMEOUT_S
from mainspring.changelog_tailer.reading import JOBS
from mainspring.engine.clock import SystemClock
from mainspring.engine.intake.loading import Loader
from mainspring.loadtest.ending import run_to_its_end
from mainspring.loadtest.plan import Figures
from mainspring.loadtest.resident import peak_bytes, resident_bytes
from mainspring.loadtest.stocking import stocked
from mainspring.loadtest.wheel_figures import Figure, as_json, as_table
from mainspring.wheel import Wheel

FIGURES: Final = (
    Figure("jobs", "interval jobs, the mix of a product that monitors, payloads of 40 bytes", 0),
    Figure("rounds", "so many loads, and as many copies that are thrown away, in turn", 0),
    Figure("ready_s", "from nothing to a wheel that is ready, connecting included; mean of the rounds", 2),
    Figure("copy_discard_s", "the same columns copied and thrown away as they come", 2),
    Figure("driver_discard_s", "the same through asyncpg's own copy_from_table", 2),
    Figure("ratio", "ready_s in copy_discard_s", 3),
    Figure("loader_cpu_s", "CPU time of the process that loads, all its threads", 2),
    Figure("discard_cpu_s", "of the one that throws away", 2),
    Figure("driver_cpu_s", "of the one that throws away through asyncpg", 2),
    Figure("steady_bytes", "resident once the wheel is ready, interpreter and all", 0),
    Figure("peak_bytes", "the most on the way there", 0),
    Figure("peak_ratio", "the one in the other", 3),
)

Measured = dict[str, float]


def coldstart_command(
    *,
    jobs: Annotated[int, typer.Option("--jobs", min=1, metavar="N", help="How many.")] = 1_000_000,
    rounds: Annotated[int, typer.Option("--rounds", min=1, metavar="N", help="Loads.")] = 1,
    embedded: Annotated[
        Path | None,
        typer.Option("--embedded", metavar="DIR", help="Keeps the stocked Postgres there for another time."),
    ] = None,
    json_wanted: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure a cold start: the time from a stocked table to a wheel that is ready.

    Stocking the table takes much longer than loading it: some minutes for 25 million jobs, and 5 GB of disk.

    \b
    mainspring loadtest coldstart
    mainspring loadtest coldstart --jobs 25000000 --embedded /var/tmp/coldstart --json
    """
    figures = run_to_its_end(measure(jobs, rounds, embedded))
    if json_wanted:
        typer.echo(json.dumps(as_json(figures, FIGURES)))
    else:
        Console().print(as_table(figures, FIGURES))


async def measure(jobs: int, rounds: int, folder: Path | None) -> Figures:
    """Stock a table, then throw it away and load it in turn."""
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("stocking the table", total=jobs)
        async with stocked(jobs, folder, lambda written: bar.update(task, completed=written)) as dsn:
            bar.update(task, description="measuring", total=3 * rounds, completed=0)
            sides: dict[str, list[Measured]] = {"discard": [], "driver": [], "load": []}
            for _ in range(rounds):
                for side, work in (("driver", _driver), ("discard", _discard), ("load", _load)):
                    sides[side].append(await _apart(work, dsn))
                    bar.advance(task)
    return _figures(jobs, sides)


def _figures(jobs: int, sides: dict[str, list[Measured]]) -> Figures:
    def mean(side: str, name: str) -> float:
        return sum(measured[name] for measured in sides[side]) / len(sides[side])

    if {measured["jobs"] for measured in sides["load"]} != {jobs}:
        raise RuntimeError(f"not every load gave {jobs} jobs: {sides['load']}")
    steady, peak = mean("load", "steady_bytes"), mean("load", "peak_bytes")
    return {
        "jobs": jobs,
        "rounds": len(sides["load"]),
        "ready_s": mean("load", "took_s"),
        "copy_discard_s": mean("discard", "took_s"),
        "driver_discard_s": mean("driver", "took_s"),
        "ratio": mean("load", "took_s") / mean("discard", "took_s"),
        "loader_cpu_s": mean("load", "cpu_s"),
        "discard_cpu_s": mean("discard", "cpu_s"),
        "driver_cpu_s": mean("driver", "cpu_s"),
        "steady_bytes": steady,
        "peak_bytes": peak,
        "peak_ratio": peak / steady,
    }


async def _apart(work: Callable[[str], Coroutine[Any, Any, Measured]], dsn: str) -> Measured:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return await asyncio.get_running_loop().run_in_executor(process, _timed, work, dsn)


def _timed(work: Callable[[str], Coroutine[Any, Any, Measured]], dsn: str) -> Measured:
    began_at, cpu_before = perf_counter(), process_time()
    measured = run_to_its_end(work(dsn))
    return {"took_s": perf_counter() - began_at, "cpu_s": process_time() - cpu_before} | measured


async def _load(dsn: str) -> Measured:
    wheel = Wheel(int(SystemClock().now()))
    connection = await connect(dsn)
    with ThreadPoolExecutor(2) as threads:
        loaded = await Loader(connection, wheel, threads).load(None)
    await close(connection)
    return {"jobs": len(loaded.wheel), "steady_bytes": resident_bytes(), "peak_bytes": peak_bytes()}


async def _discard(dsn: str) -> Measured:
    connection = await connect(dsn)
    async with copying(connection, JOBS) as stream:
        while await stream.next_page(STALL_TIMEOUT_S) is not None:
            pass
    await close(connection)
    return {}


async def _driver(dsn: str) -> Measured:
    async def nowhere(_chunk: bytes) -> None:
        pass

    connection = await connect(dsn)
    await connection.copy_from_table(
        JOBS.name, schema_name=JOBS.schema, columns=JOBS.columns, output=nowhere, format="binary"
    )
    await close(connection)
    return {}
