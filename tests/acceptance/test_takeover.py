"""Two nodes of one instance: one publishes, the other takes over, whatever becomes of the first."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from acceptance.node_process import running_node
from acceptance.sql_writer import SqlWriter
from acceptance.test_faults import assert_exact, fleet, settled
from mainspring.loadtest.node_process import NodeProcess

pytestmark = pytest.mark.slow


@pytest.fixture
async def writer(database: str) -> AsyncIterator[SqlWriter]:
    """A fleet of interval jobs, with its history."""
    async for written in fleet(database):
        yield written


class Pair:
    """An active node and its standby, of an instance named after the test."""

    def __init__(self, active: NodeProcess, standby: NodeProcess) -> None:
        self.active = active
        self.standby = standby
        self.start = int(time.time()) + 1

    async def taken_over(self) -> None:
        await self.standby.until_metric("mainspring_active", 1, timeout_s=20)
        self.active, self.standby = self.standby, self.active

    async def settled(self, seconds: int) -> int:
        """A second so far from now, once it is settled."""
        stop = int(time.time()) + seconds
        await settled(self.active, stop)
        return stop


async def pair(stack: AsyncExitStack, folder: Path, dsn: str, nats_url: str, instance: str) -> Pair:
    nodes = [
        await stack.enter_async_context(running_node(folder, dsn, nats_url, instance=instance))
        for _ in range(2)
    ]
    await nodes[0].until_metric("mainspring_active", 1)
    made = Pair(*nodes)
    await asyncio.sleep(3)
    assert await made.standby.metric("mainspring_active") == 0
    assert await made.standby.metric("mainspring_runs_acknowledged_total") == 0
    return made


async def test_a_standby_takes_over_from_a_killed_node_and_no_run_is_lost_or_doubled(
    writer: SqlWriter, database: str, nats_url: str, server_folder: Path
) -> None:
    async with AsyncExitStack() as stack:
        nodes = await pair(stack, server_folder, database, nats_url, "taken")
        for _ in range(20):
            await writer.random_change()
        await nodes.active.kill()
        await nodes.taken_over()
        for _ in range(20):
            await writer.random_change()
        stop = await nodes.settled(4)
        assert await nodes.active.metric('mainspring_runs_skipped_total{reason="window"}') == 0
    await assert_exact(writer, nats_url, "TAKEN", nodes.start, stop)


@pytest.mark.parametrize("frozen_s", [5, 12])
async def test_a_frozen_node_that_wakes_up_deposed_sends_nothing_and_is_the_next_standby(
    writer: SqlWriter, database: str, nats_url: str, server_folder: Path, frozen_s: int
) -> None:
    instance = f"thawed{frozen_s}"
    async with AsyncExitStack() as stack:
        nodes = await pair(stack, server_folder, database, nats_url, instance)
        before = await nodes.active.metric("mainspring_runs_acknowledged_total")
        due = await nodes.active.metric("mainspring_runs_due_total")
        nodes.active.freeze()
        await nodes.taken_over()
        await asyncio.sleep(frozen_s)
        nodes.standby.thaw()
        await asyncio.sleep(3)
        assert await nodes.standby.metric("mainspring_active") == 0
        after = await nodes.standby.metric("mainspring_runs_acknowledged_total")
        await asyncio.sleep(2)
        assert await nodes.standby.metric("mainspring_runs_acknowledged_total") == after
        assert after - before < 800  # what it had sent and counted by the time that it froze
        due_since = await nodes.standby.metric("mainspring_runs_due_total") - due
        assert due_since < 600  # what was due meanwhile is the other's, to give and to count
        await nodes.standby.ready()
        await nodes.active.kill()
        await nodes.taken_over()
        stop = await nodes.settled(3)
    await assert_exact(writer, nats_url, instance.upper(), nodes.start, stop)


async def test_a_clean_stop_hands_over(
    writer: SqlWriter, database: str, nats_url: str, server_folder: Path
) -> None:
    async with AsyncExitStack() as stack:
        nodes = await pair(stack, server_folder, database, nats_url, "handed")
        ending = asyncio.create_task(nodes.active.end())
        await nodes.taken_over()
        await ending
        stop = await nodes.settled(3)
    await assert_exact(writer, nats_url, "HANDED", nodes.start, stop)
