"""A node with nothing to do costs next to nothing."""

import asyncio
import os
from pathlib import Path

import asyncpg
import pytest

from acceptance.node_process import running_node
from mainspring.changelog_tailer import schema
from mainspring.loadtest.node_process import NodeProcess

CORE_SHARE_MAX = 0.03
MEASURED_S = 20
HOURLY_JOBS = 1_000_000

pytestmark = pytest.mark.slow


def cpu_s(pid: int) -> float:
    """Processor time that the process has used, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def core_share(node: NodeProcess) -> float:
    """Of one core, over MEASURED_S seconds."""
    await asyncio.sleep(5)
    before = cpu_s(node.pid)
    await asyncio.sleep(MEASURED_S)
    share = (cpu_s(node.pid) - before) / MEASURED_S
    print(f"\n{share:.2%} of a core")
    return share


async def test_a_node_without_jobs_rests(database: str, nats_url: str, server_folder: Path) -> None:
    await schema.init(database)
    async with running_node(server_folder, database, nats_url, instance="idle") as node:
        assert await core_share(node) < CORE_SHARE_MAX


async def test_a_million_hourly_jobs_rest_between_their_runs(
    database: str, nats_url: str, server_folder: Path
) -> None:
    await schema.init(database)
    connection = await asyncpg.connect(database)
    await connection.execute(
        f"insert into mainspring.jobs (every_s) select 3600 from generate_series(1, {HOURLY_JOBS})",
        timeout=300,
    )
    await connection.close()
    async with running_node(server_folder, database, nats_url, instance="hourly") as node:
        assert await node.metric('mainspring_jobs{kind="interval"}') == HOURLY_JOBS
        assert await core_share(node) < CORE_SHARE_MAX
        assert await node.metric("mainspring_runs_acknowledged_total") > 0
