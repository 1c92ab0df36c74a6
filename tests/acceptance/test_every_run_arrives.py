"""The promise, judged from outside: what the rules owe is in the stream, once, and nothing else is."""

import asyncio
import random
import time
from pathlib import Path

import asyncpg
import pytest

from acceptance.node_process import running_node
from acceptance.oracle import judge
from acceptance.sql_writer import SqlWriter
from acceptance.stream_reader import stored_runs
from mainspring.changelog_tailer import schema

JOBS = 10_000
DURATION_S = 180
CHANGES_PER_S = 20
# A change may take this long to be sure of its effect before a run counts as wrong.
HARD_SLACK_S = 5.0
# From this long after its commit on, 99 of 100 changes have taken effect.
GOAL_SLACK_S = 1.0


@pytest.mark.slow
async def test_ten_thousand_jobs_run_exactly_when_due_while_they_are_being_changed(
    database: str, nats_url: str, server_folder: Path
) -> None:
    await schema.init(database)
    connection = await asyncpg.connect(database)
    writer = SqlWriter(connection, seed=11)
    await writer.insert([random.Random(7).randint(5, 60) for _ in range(JOBS)])
    async with running_node(server_folder, database, nats_url, instance="exact") as node:
        start = int(time.time()) + 2
        await change_at_random(writer, until=start + DURATION_S)
        stop = int(time.time())
        await node.until_metric("mainspring_watermark_timestamp_seconds", stop + HARD_SLACK_S)
    await connection.close()
    arrived = await stored_runs(nats_url, "EXACT")

    verdict = judge(writer.histories, arrived, start, stop, slack_s=HARD_SLACK_S)
    assert verdict.owed > 0.9 * JOBS * DURATION_S / 60
    assert verdict.clean, str(verdict)

    strict = judge(writer.histories, arrived, start, stop, slack_s=GOAL_SLACK_S)
    late = {job_id for job_id, _ in (*strict.missing, *strict.unexpected)}
    print(f"\n{verdict}; {writer.changes} changes, {len(late)} not in effect {GOAL_SLACK_S} s after commit")
    assert len(late) <= writer.changes / 100


async def change_at_random(writer: SqlWriter, until: float) -> None:
    """Changes at random moments, so that they fall on every part of a second."""
    pause = random.Random(3)
    while time.time() < until:
        await writer.random_change()
        await asyncio.sleep(pause.expovariate(CHANGES_PER_S))
