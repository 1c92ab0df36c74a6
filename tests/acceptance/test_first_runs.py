"""A first run soon comes exactly once, wherever within its seconds the node ends, and verify can tell.

MAINSPRING_FIRST_RUN_ENDS says how often a node ends.
"""

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import nats
import pytest
from command_line import mainspring

from acceptance.node_process import running_node
from acceptance.oracle import Run, phase
from acceptance.stream_reader import stored_runs
from mainspring.changelog_tailer import schema
from mainspring.loadtest.node_process import NodeProcess

ENDS = int(os.environ.get("MAINSPRING_FIRST_RUN_ENDS", "3"))
SLOW_S = 10_000_000
"""Between two runs of a job by its schedule."""

SPREAD_S = 5
AT_ONCE = 5

pytestmark = pytest.mark.slow


async def insert(dsn: str, until: float) -> None:
    """New jobs all the time, each of which waits for its first run."""
    connection = await asyncpg.connect(dsn)
    while time.time() < until:
        await connection.execute(
            "insert into mainspring.jobs (every_s, first_run_soon) "
            f"select {SLOW_S}, true from generate_series(1, {AT_ONCE})"
        )
        await asyncio.sleep(0.1)
    await connection.close()


async def owed(dsn: str) -> set[Run]:
    connection = await asyncpg.connect(dsn)
    rows = await connection.fetch(
        "select job_id, floor(extract(epoch from changed_at))::bigint as second from mainspring.job_changes"
    )
    await connection.close()
    return {(row["job_id"], row["second"] + 1 + phase(row["job_id"], SPREAD_S)) for row in rows}


async def ended(node: NodeProcess, how: str) -> None:
    if how == "ended":
        await node.end()
    else:
        await node.kill()


async def play(dsn: str, start: Callable[[], Awaitable[NodeProcess]], how: str) -> None:
    """Node after node; the last one is there until all jobs have had their runs."""
    draw = random.Random(how)
    active = await start()
    for _ in range(ENDS):
        standby = await start() if how == "standby" else None
        inserting = asyncio.create_task(insert(dsn, time.time() + 7))
        await asyncio.sleep(draw.uniform(1.5, 3.5))
        await ended(active, how)
        if standby is None:
            await asyncio.sleep(draw.uniform(0, 3))
            standby = await start()
        active = standby
        await active.until_metric("mainspring_active", 1)
        await inserting
    await active.until_metric("mainspring_watermark_timestamp_seconds", time.time() + SPREAD_S + 2)


async def remove(nats_url: str, stream: str, run: Run) -> None:
    client = await nats.connect(nats_url)
    jetstream = client.jetstream()
    last = (await jetstream.stream_info(stream)).state.last_seq
    for seq in range(1, last + 1):
        message = await jetstream.get_msg(stream, seq)
        if message.headers and message.headers["Nats-Msg-Id"] == f"{run[0]}@{run[1]}":
            assert await jetstream.delete_msg(stream, seq)
            break
    await client.close()


@pytest.mark.parametrize("how", ["killed", "ended", "standby"])
async def test_each_comes_once_whenever_the_node_ends(
    how: str, database: str, nats_url: str, server_folder: Path
) -> None:
    await schema.init(database)
    instance = f"first{how}"
    first = int(time.time()) + 1
    async with AsyncExitStack() as stack:

        async def start() -> NodeProcess:
            node = running_node(server_folder, database, nats_url, instance=instance)
            return await stack.enter_async_context(node)

        await play(database, start, how)
    expected, stored = await owed(database), await stored_runs(nats_url, instance.upper())
    assert len(expected) > ENDS * AT_ONCE * 30
    assert set(stored) == expected
    assert set(stored.values()) == {1}
    span = ("--from", str(first), "--to", str(max(at for _, at in expected) + 1))
    servers = ("--postgres-dsn", database, "--nats-url", nats_url, "--instance", instance)
    verified = await asyncio.to_thread(mainspring, "verify", *servers, *span, "--json")
    (report,) = verified.json_lines()
    assert (verified.status, report["missing"], report["unexpected"]) == (0, 0, 0), report
    assert report["owed"] == len(expected)
    lost = min(expected)
    await remove(nats_url, instance.upper(), lost)
    verified = await asyncio.to_thread(mainspring, "verify", *servers, *span, "--json")
    (report,) = verified.json_lines()
    assert (verified.status, report["missing_ids"]) == (3, [f"{lost[0]}@{lost[1]}"])
