"""``mainspring run``: the node."""

import asyncio
import logging
from typing import Annotated

import typer

from mainspring.changelog_tailer import schema
from mainspring.engine.cli.logs import configure_logs
from mainspring.engine.cli.options import EVERY_SETTING, Target, run_async, takes_settings
from mainspring.engine.cli.signals import stop_on_signals
from mainspring.engine.config import Settings
from mainspring.engine.node import Node
from mainspring.engine.stopping import unless_stopped

log = logging.getLogger(__name__)


@takes_settings(*EVERY_SETTING)
def run_command(
    target: Target,
    no_lease: Annotated[
        bool, typer.Option("--no-lease", help="Publish regardless of other nodes; run ids still collapse.")
    ] = False,
) -> None:
    """Run the engine until Ctrl-C or SIGTERM.

    It loads the jobs from Postgres, follows every change of them, and publishes each run to JetStream at
    its second. One node of an instance is active; others wait as hot standbys, and one of them takes over.
    `db init` must have been run once, but for --embedded, where this command sees to it. Status and metrics
    are on http_host:http_port.

    \b
    mainspring run --embedded .mainspring
    mainspring run --postgres-dsn postgresql://engine@db/app --nats-url nats://n1:4222,nats://n2:4222
    MAINSPRING_LOG_FORMAT=json mainspring run --config /etc/mainspring.toml
    """
    run_async(_run(target, lease=not no_lease))


async def _run(target: Target, *, lease: bool) -> None:
    stop = stop_on_signals()
    configure_logs(target.load().settings.log_format)
    async with target.settings() as settings:
        if target.owns_postgres:
            await unless_stopped(schema.init(settings.postgres_dsn), stop)
        if not stop.is_set():
            await serve(settings, stop, lease=lease)


async def serve(settings: Settings, stop: asyncio.Event, *, lease: bool = True) -> None:
    """Run one node until ``stop``, from connecting to the orderly end."""
    node = Node(settings, lease=lease)
    try:
        await unless_stopped(node.start(), stop)
        if not stop.is_set():
            await node.run_until(stop)
    finally:
        await node.aclose()
