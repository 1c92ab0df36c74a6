"""`mainspring loadtest ontime`: is every second drained on time while Python and a whole core are busy?

The real tick thread and conductor with a fleet in the wheel. The event loop beside them is never idle, and
another process spins on one of the cores. What counts is the tick thread's own stamp of each second: how long
after its edge it was drained out of all shards.
"""

import asyncio
import json
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Annotated, Final

import numpy as np
import typer
from numpy.typing import NDArray

from mainspring.changelog_tailer import Cursor
from mainspring.engine.cli.number_flags import finite
from mainspring.engine.clock import SystemClock
from mainspring.engine.conductor import LATE_S, Conductor
from mainspring.engine.intake.applier import Applier
from mainspring.engine.intake.changes import ChangeQueue
from mainspring.engine.intake.quarantine import Quarantine
from mainspring.engine.metrics import Metrics
from mainspring.engine.publishing.inflight import FRAMES_MAX
from mainspring.engine.publishing.settlement import Settlement
from mainspring.loadtest.draining import drain_next
from mainspring.loadtest.fleet import Fleet
from mainspring.loadtest.loading import PIECE_ROWS
from mainspring.wheel import Frames, Piece, Ticker, Wheel

LIMIT_MS: Final = 250.0
_TURN: Final = 20_000
"""Numbers summed in one turn of the loop: a fraction of a millisecond without letting go of the GIL."""

_NOTHING_READ: Final = Cursor(1, 1, "1:1:")


def ontime_command(
    *,
    jobs: Annotated[int, typer.Option("--jobs", min=1, metavar="N", help="How many jobs.")] = 1_000_000,
    seconds: Annotated[int, typer.Option("--seconds", min=1, help="For how long.")] = 300,
    limit_ms: Annotated[
        float, typer.Option("--limit-ms", callback=finite, min=0, help="How late a second may be drained.")
    ] = LIMIT_MS,
    json_wanted: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Drain on time beside an event loop that is never idle and a process that spins on a core.

    Exit status 1 when a second was drained later than --limit-ms after its edge.

    \b
    mainspring loadtest ontime
    mainspring loadtest ontime --jobs 5000000 --seconds 60
    """
    late_ms = np.array(asyncio.run(measure(jobs, seconds))) * 1e3
    figures = figures_of(late_ms, limit_ms)
    if json_wanted:
        typer.echo(json.dumps({"jobs": jobs} | figures))
    else:
        typer.echo(
            f"{jobs:,} jobs, {len(late_ms)} seconds, drained so many ms after their edge: "
            f"{figures['late_p50_ms']:.1f} at the median, {figures['late_p99_ms']:.1f} at the 99th one, "
            f"{figures['late_max_ms']:.1f} at worst; {figures['over_limit']} later than {limit_ms:g}"
        )
    if figures["over_limit"]:
        raise typer.Exit(1)


def figures_of(late_ms: NDArray[np.float64], limit_ms: float) -> dict[str, float]:
    """What one run comes to; late_ms: (seconds,)."""
    return {
        "seconds": len(late_ms),
        "late_p50_ms": float(np.percentile(late_ms, 50)),
        "late_p99_ms": float(np.percentile(late_ms, 99)),
        "late_max_ms": float(late_ms.max()),
        "over_limit": int(np.count_nonzero(late_ms > limit_ms)),
    }


async def measure(jobs: int, seconds: int) -> list[float]:
    """How late each second was, in seconds."""
    wheel = wheel_at_present(jobs)
    with ExitStack() as beside:
        threads = beside.enter_context(ThreadPoolExecutor(1))
        beside.callback(spinning_process().kill)
        chatter = Chatter()
        beside.callback(chatter.stop)
        taker = Taker(wheel.now, seconds)
        conductor = conductor_of(wheel, taker, threads)
        running = asyncio.create_task(conductor.run())
        await asyncio.wait((running, asyncio.ensure_future(taker.over.wait())), return_when="FIRST_COMPLETED")
        conductor.stop()
        await running
    return taker.late_s


def wheel_at_present(jobs: int) -> Wheel:
    """A wheel with the fleet, drained up to now."""
    fleet, clock = Fleet(jobs), SystemClock()
    wheel = Wheel(int(clock.now()))
    wheel.route("default")
    wheel.reserve(jobs)
    for first in range(0, jobs, PIECE_ROWS):
        wheel.apply(fleet.rows(first, min(first + PIECE_ROWS, jobs)), fleet.texts)
    frames = Frames()
    while wheel.now < int(clock.now()):
        drain_next(wheel, frames)
    return wheel


def conductor_of(wheel: Wheel, taker: "Taker", threads: ThreadPoolExecutor) -> Conductor:
    """As a node composes it, but for the broker and the change log."""
    metrics, ticker = Metrics(), Ticker(wheel, late_after_s=LATE_S, max_frames=FRAMES_MAX)
    return Conductor(
        wheel,
        ticker,
        taker,
        taker.settlement,
        ChangeQueue(_NOTHING_READ),
        applier=Applier(wheel, Quarantine(), metrics, threads),
        clock=SystemClock(),
        metrics=metrics,
        read_changes=_nothing_to_read,
    )


async def _nothing_to_read(_late_s: float) -> bool:
    """There is no change log here."""
    return True


class Taker:
    """In the publisher's place: copies the frames as it does, and calls them acknowledged."""

    def __init__(self, start: int, seconds: int) -> None:
        self.settlement: Settlement[Cursor] = Settlement(start, _NOTHING_READ)
        self.late_s: list[float] = []
        self.over = asyncio.Event()
        self._seconds = seconds

    async def submit(self, frames: Frames) -> None:
        """Called for every piece, in order."""
        bytes(frames.view())
        self.settlement.settle(frames.second, len(frames))
        if isinstance(frames, Piece) and frames.whole and not self.over.is_set():
            self.late_s.append(frames.late_s)
            if len(self.late_s) == self._seconds:
                self.over.set()


class Chatter:
    """Keeps the running loop from ever being idle, until `stop`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = False
        self._turn()

    def stop(self) -> None:
        self._stopped = True

    def _turn(self) -> None:
        sum(range(_TURN))
        if not self._stopped:
            self._loop.call_soon(self._turn)


def spinning_process() -> multiprocessing.process.BaseProcess:
    """Takes all it can get of the last core."""
    process = multiprocessing.get_context("spawn").Process(target=_spin, daemon=True)
    process.start()
    return process


def _spin() -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    while True:
        pass
