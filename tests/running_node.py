"""A whole node in the test's process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mainspring.engine.config import Settings
from mainspring.engine.node import Node


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Node]:
    """Started, at work, and closed at the end of the block; an error that ends it comes out there."""
    node, stop = Node(settings), asyncio.Event()
    try:
        await node.start()
        task = asyncio.create_task(node.run_until(stop))
        yield node
        stop.set()
        await task
    finally:
        await node.aclose()
