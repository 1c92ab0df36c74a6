"""Node and Postgres are killed at random moments: seconds later the wheel is the table again.

MAINSPRING_NODE_KILLS and MAINSPRING_POSTGRES_KILLS say how often.
"""

import asyncio
import os
import random
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from conftest import execute
from stubborn_writer import StubbornWriter

from acceptance.equality import equal_after_s
from acceptance.node_process import running_node, start_node
from mainspring.changelog_tailer import schema
from mainspring.engine.config import Settings, load_settings
from mainspring.engine.embedded import EmbeddedPostgres

NODE_KILLS = int(os.environ.get("MAINSPRING_NODE_KILLS", "2"))
POSTGRES_KILLS = int(os.environ.get("MAINSPRING_POSTGRES_KILLS", "1"))
JOBS = 20_000
WRITERS = 4
EQUAL_WITHIN_S = 5.0
"""Once both are up, to the beginning of the reading that found them so."""

pytestmark = pytest.mark.slow


@asynccontextmanager
async def writing(dsn: str) -> AsyncIterator[list[StubbornWriter]]:
    """Writers that go on through every outage."""
    writers = [StubbornWriter(dsn, seed) for seed in range(WRITERS)]
    tasks = [asyncio.create_task(writer.run()) for writer in writers]
    yield writers
    for writer in writers:
        writer.stopping = True
    await asyncio.gather(*tasks)


async def filled(postgres: EmbeddedPostgres) -> str:
    await schema.init(postgres.dsn)
    await execute(
        postgres.dsn,
        f"insert into mainspring.jobs (every_s) select 60 + n % 600 from generate_series(1, {JOBS}) as n",
    )
    return postgres.dsn


def settings_of(dsn: str, nats_url: str, instance: str) -> Settings:
    return load_settings({"postgres_dsn": dsn, "nats_url": nats_url, "instance": instance})


def told(what: str, took_s: list[float]) -> str:
    return (
        f"\n{len(took_s)} {what}: equal after {statistics.median(took_s):.2f} s, at most {max(took_s):.2f} s"
    )


async def test_after_each_kill_of_the_node_its_wheel_is_the_table(
    own_postgres: EmbeddedPostgres, nats_url: str, server_folder: Path
) -> None:
    """Some fall into its start, some into its reading of the log."""
    dsn = await filled(own_postgres)
    settings = settings_of(dsn, nats_url, "nodekills")
    draw = random.Random(5)
    took_s: list[float] = []
    async with writing(dsn) as writers:
        for _ in range(NODE_KILLS):
            node = await start_node(server_folder, dsn, nats_url, instance="nodekills")
            await asyncio.sleep(draw.uniform(0.5, 4))
            await node.kill()
            async with running_node(server_folder, dsn, nats_url, instance="nodekills") as node:
                took_s.append(await equal_after_s(settings, node))
                await asyncio.sleep(draw.uniform(0, 1))
                await node.kill()
    print(told("kills of the node", took_s))
    assert sum(writer.committed for writer in writers) > NODE_KILLS
    assert max(took_s) <= EQUAL_WITHIN_S


async def test_after_each_kill_of_postgres_the_wheel_is_the_table(
    own_postgres: EmbeddedPostgres, nats_url: str, server_folder: Path
) -> None:
    dsn = await filled(own_postgres)
    settings = settings_of(dsn, nats_url, "postgreskills")
    draw = random.Random(6)
    took_s: list[float] = []
    async with writing(dsn), running_node(server_folder, dsn, nats_url, instance="postgreskills") as node:
        for _ in range(POSTGRES_KILLS):
            await asyncio.sleep(draw.uniform(0.2, 3))
            await own_postgres.kill()
            await asyncio.sleep(draw.uniform(0, 4))
            await own_postgres.start()
            took_s.append(await equal_after_s(settings, node))
    print(told("kills of Postgres", took_s))
    assert max(took_s) <= EQUAL_WITHIN_S
