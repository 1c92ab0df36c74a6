"""`mainspring run` as a process of its own, in a test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

from mainspring.loadtest.node_process import NodeProcess

_NUMBERS = count(1)


async def start_node(folder: Path, dsn: str, nats_url: str, *flags: str, **settings: str) -> NodeProcess:
    """A node that has just been started; whoever calls this ends it."""
    servers = {"postgres_dsn": dsn, "nats_url": nats_url}
    node = NodeProcess(folder / f"node-{next(_NUMBERS)}.log", servers | settings, *flags)
    await node.start()
    return node


@asynccontextmanager
async def running_node(
    folder: Path, dsn: str, nats_url: str, *flags: str, **settings: str
) -> AsyncIterator[NodeProcess]:
    """A node that is ready; ended with SIGTERM, and it must end well, unless the test ended it."""
    node = await start_node(folder, dsn, nats_url, *flags, **settings)
    try:
        await node.ready()
        yield node
        if node.running:
            await node.end()
    finally:
        await node.aclose()
