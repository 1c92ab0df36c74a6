"""``mainspring demo``: everything on this machine, from nothing, until Ctrl-C."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mainspring.changelog_tailer import schema
from mainspring.changelog_tailer.connection import open_session
from mainspring.engine.cli.demo_fleet import sow
from mainspring.engine.cli.demo_view import DemoWatch, LiveView, PlainView, View, summary
from mainspring.engine.cli.logs import configure_logs
from mainspring.engine.cli.number_flags import finite
from mainspring.engine.cli.options import Target, run_async, takes_settings
from mainspring.engine.cli.signals import stop_on_signals
from mainspring.engine.clock import SystemClock
from mainspring.engine.config import Settings
from mainspring.engine.embedded.ports import free_port, is_free
from mainspring.engine.node import Node
from mainspring.engine.stopping import unless_stopped

FOLDER = Path(".mainspring")
JOBS_MAX = 5_000_000


@takes_settings("http_host", "http_port", "log_format")
def demo_command(
    target: Target,
    jobs: Annotated[int, typer.Option(min=1, max=JOBS_MAX, help="How many sample jobs.")] = 1000,
    seconds: Annotated[
        float | None,
        typer.Option(callback=finite, min=0.1, help="End by itself after so many seconds; else on Ctrl-C."),
    ] = None,
) -> None:
    """See it work: Postgres, NATS, sample jobs and the engine, all in this folder's .mainspring/.

    Needs nothing installed and nothing set up. Every run that is shown has been acknowledged by
    JetStream. Jobs of your own in the same database run as well; the next demo leaves them alone.

    \b
    mainspring demo
    mainspring demo --jobs 100000
    mainspring demo --seconds 30 | tail -1
    """
    folder = target.embedded or FOLDER
    run_async(_demo(replace(target, embedded=folder), jobs, seconds))


async def _demo(target: Target, jobs: int, seconds: float | None) -> None:
    stop, console = stop_on_signals(), Console(highlight=False)
    configure_logs(target.load().settings.log_format, logging.ERROR)  # the view tells of troubles itself
    console.print(f"starting Postgres and NATS in {target.embedded} ...")
    async with target.settings() as found:
        console.print(f"making the schema and {jobs:,} sample jobs ...")
        await unless_stopped(_prepare(found, jobs), stop)
        settings = _with_http_port(found, target)
        # What a demo of yesterday owes would hide what this one shows; and two of them each show their own.
        node = Node(settings, resume=False, lease=False)
        try:
            await unless_stopped(node.start(), stop)
            if not stop.is_set():
                await _show(node, _view(console, settings, target), stop, seconds)
        finally:
            await node.aclose()
            console.print(summary(node.status()), soft_wrap=True)


async def _prepare(settings: Settings, jobs: int) -> None:
    await schema.init(settings.postgres_dsn)
    connection = await open_session(settings.postgres_dsn)
    try:
        await sow(connection, jobs, int(SystemClock().now()))
    finally:
        connection.terminate()


async def _show(node: Node, view: View, stop: asyncio.Event, seconds: float | None) -> None:
    """Run the node and look at it until ``stop`` or for ``seconds``."""
    timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, stop.set)
    async with _watched(DemoWatch(node.status, view)):
        await node.run_until(stop)
    if timer is not None:
        timer.cancel()


@asynccontextmanager
async def _watched(watch: DemoWatch) -> AsyncIterator[None]:
    task = asyncio.create_task(watch.run())
    try:
        yield
    finally:
        await watch.aclose()
        await task


def _view(console: Console, settings: Settings, target: Target) -> View:
    """Live where somebody looks, one line a second where a file or a pipe does."""
    if not console.is_terminal:
        return PlainView(console)
    return LiveView(console, _further(settings, str(target.embedded)))


def _further(settings: Settings, folder: str) -> tuple[tuple[str, str], ...]:
    """Where to go from here: what, and the command or address."""
    return (
        ("runs", f"mainspring tail --embedded {folder}"),
        ("jobs", f"mainspring jobs list --embedded {folder}"),
        ("yours", f"mainspring jobs add --embedded {folder} --every 5 --route hello"),
        ("SQL", f"psql {settings.postgres_dsn}"),
        ("NATS", settings.nats_url),
        ("metrics", f"http://{settings.http_host}:{settings.http_port}/metrics"),
    )


def _with_http_port(settings: Settings, target: Target) -> Settings:
    """Give way to another program on the default port; a port that was asked for is insisted on."""
    if "http_port" in target.load().origins or is_free(settings.http_port):
        return settings
    return settings.model_copy(update={"http_port": free_port()})
