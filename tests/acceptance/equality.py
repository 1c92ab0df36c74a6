"""Whether the wheel of a node is the table, by `doctor --deep`, and all that was committed is in it."""

import asyncio

import aiohttp

from mainspring.changelog_tailer import LOST, Cursor, close, connect, cursor_now
from mainspring.engine.checks.deep_check import compare
from mainspring.engine.config import Settings
from mainspring.loadtest.node_process import NodeProcess

PATIENCE_S = 60.0


async def equal_after_s(settings: Settings, node: NodeProcess) -> float:
    """For how long from now on the node lacked what is committed now, or differed from the table."""
    loop = asyncio.get_running_loop()
    called_at = loop.time()
    async with asyncio.timeout(PATIENCE_S):
        connection = await connect(settings.postgres_dsn)
        upto = await cursor_now(connection)
        await close(connection)
        while True:
            asked_at = loop.time()
            if await _has_read(node, upto) and (await compare(settings, node.url)).good:
                return asked_at - called_at
            await asyncio.sleep(0.02)


async def _has_read(node: NodeProcess, upto: Cursor) -> bool:
    """Whether the wheel is at a cursor that sees all that was committed, or open, at the other."""
    try:
        async with aiohttp.ClientSession() as session, session.get(f"{node.url}/api/digest") as answer:
            if answer.status != 200:
                return False
            cursor = Cursor.from_dict((await answer.json())["cursor"])
    except (*LOST, aiohttp.ClientError):
        return False
    return cursor.same_log(upto) and cursor.xmin >= upto.xmax
