"""``mainspring run``: the node."""

import asyncio
import logging

from mainspring.changelog_tailer import schema
from mainspring.engine.cli.logs import configure_logs
from mainspring.engine.cli.options import EVERY_SETTING, Target, run_async, takes_settings
from mainspring.engine.cli.signals import stop_on_signals
from mainspring.engine.config import Settings
from mainspring.engine.node import Node
from mainspring.engine.stopping import unless_stopped

log = logging.getLogger(__name__)


@takes_settings(*EVERY_SETTING)
def run_command(target: Target) -> None:
    """Run the engine until Ctrl-C or SIGTERM.

    It loads the jobs from Postgres, follows every change of them, and publishes each run to JetStream at
    its second. `db init` must have been run once, but for --embedded, where this command sees to it.
    Status and metrics are on http_host:http_port.

    \b
    mainspring run --embedded .mainspring
    mainspring run --postgres-dsn postgresql://engine@db/app --nats-url nats://n1:4222,nats://n2:4222
    MAINSPRING_LOG_FORMAT=json mainspring run --config /etc/mainspring.toml
    """
    run_async(_run(target))


async def _run(target: Target) -> None:
    stop = stop_on_signals()
    configure_logs(target.load().settings.log_format)
    async with target.settings() as settings:
        if target.owns_postgres:
            await unless_stopped(schema.init(settings.postgres_dsn), stop)
        if not stop.is_set():
            await serve(settings, stop)


async def serve(settings: Settings, stop: asyncio.Event) -> None:
    """Run one node until ``stop``, from connecting to the orderly end."""
    node = Node(settings)
    try:
        await unless_stopped(node.start(), stop)
        if not stop.is_set():
            await node.run_until(stop)
    finally:
        await node.aclose()
