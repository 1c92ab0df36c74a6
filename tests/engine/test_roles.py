"""The two roles that `db init` makes are enough for what they are for, and for nothing else."""

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import asyncpg
import pytest
from command_line import Ended, mainspring
from conftest import execute

from mainspring.changelog_tailer import schema
from mainspring.engine.checks.deep_check import compare
from mainspring.engine.config import load_settings
from mainspring.engine.embedded import EmbeddedNats
from mainspring.engine.node import Node

NUMBERS = count(1)


@pytest.fixture
async def users(database: str) -> AsyncIterator[dict[str, str]]:
    """A DSN for a user in each role, and in neither."""
    await schema.init(database)
    number = next(NUMBERS)
    roles = {"mainspring_engine": "eng", "mainspring_writer": "wri", None: "out"}
    dsns = {}
    for role, name in roles.items():
        user = f"{name}_{number}"
        await execute(database, f"create role {user} login password 'secret'")
        if role:
            await execute(database, f"grant {role} to {user}")
        _, _, place = database.partition("@")
        dsns[name] = f"postgresql://{user}:secret@{place}"
    yield dsns
    for name in roles.values():
        await execute(database, f"drop role {name}_{number}")


async def refused(dsn: str, statement: str) -> bool:
    try:
        await execute(dsn, statement)
    except asyncpg.InsufficientPrivilegeError:
        return True
    return False


async def test_the_engine_role_reads_all_and_writes_nothing(users: dict[str, str]) -> None:
    for table in ("jobs", "job_changes", "schema_versions", "prunings"):
        assert not await refused(users["eng"], f"select * from mainspring.{table}")
        assert await refused(users["eng"], f"delete from mainspring.{table}")
    for statement in (
        "insert into mainspring.jobs (every_s) values (60)",
        "update mainspring.jobs set every_s = 60",
        "truncate mainspring.jobs",
        "create table mainspring.mine ()",
    ):
        assert await refused(users["eng"], statement), statement


async def test_a_node_and_its_deep_check_work_under_the_engine_role(
    users: dict[str, str], database: str, own_nats: EmbeddedNats
) -> None:
    await execute(database, "insert into mainspring.jobs (every_s) select 60 from generate_series(1, 50)")
    settings = load_settings(
        {
            "postgres_dsn": users["eng"],
            "nats_url": own_nats.url,
            "instance": f"roles{next(NUMBERS)}",
            "http_port": 0,
        }
    )
    node, stop = Node(settings), asyncio.Event()
    try:
        await node.start()
        running = asyncio.create_task(node.run_until(stop))
        await execute(users["wri"], "insert into mainspring.jobs (every_s) values (60)")
        async with asyncio.timeout(30):
            while node.status().jobs != 51:
                await asyncio.sleep(0.02)
        finding = await compare(settings, node.url)
        assert finding.good, finding.says
        stop.set()
        await running
    finally:
        await node.aclose()


async def test_the_writer_role_writes_jobs_and_what_others_wrote_before_is_closed_to_it(
    users: dict[str, str], database: str
) -> None:
    writer = users["wri"]
    await execute(
        database, "insert into mainspring.jobs (id, every_s) overriding system value values (7, 60)"
    )
    for statement in (
        "insert into mainspring.jobs (every_s) values (60)",
        "update mainspring.jobs set every_s = 61 where id = 7",
        "update mainspring.jobs set id = 8 where id = 7",
        "delete from mainspring.jobs where id = 8",
    ):
        assert not await refused(writer, statement), statement
    connection = await asyncpg.connect(database)
    ops = await connection.fetch("select op, changed_by from mainspring.job_changes order by seq")
    await connection.close()
    assert [row["op"] for row in ops] == ["insert", "insert", "update", "delete", "insert", "delete"]
    assert {row["changed_by"] for row in ops[1:]} == {writer.split("/")[2].split(":")[0]}
    for statement in (
        "select * from mainspring.job_changes",
        "insert into mainspring.job_changes (op) values ('truncate')",
        "delete from mainspring.job_changes",
        "truncate mainspring.jobs",
        "alter table mainspring.jobs disable trigger all",
        "select setval('mainspring.last_wake_ms', 1)",
    ):
        assert await refused(writer, statement), statement


def as_writer(dsn: str, *command: str) -> Ended:
    return mainspring("jobs", *command, "--postgres-dsn", dsn)


async def test_the_commands_for_jobs_work_under_the_writer_role(
    users: dict[str, str], tmp_path: Path
) -> None:
    writer, out = users["wri"], tmp_path / "jobs.jsonl"
    for command in (
        ("add", "--key", "web", "--every", "60"),
        ("edit", "web", "--every", "30"),
        ("pause", "web"),
        ("resume", "web"),
        ("show", "web"),
        ("list",),
        ("export", str(out)),
        ("import", str(out)),
        ("remove", "web"),
    ):
        ended = await asyncio.to_thread(as_writer, writer, *command)
        assert ended.status == 0, (command, ended.err)
    assert json.loads(out.read_text())["every_s"] == 30


async def test_who_is_in_neither_role_sees_nothing(users: dict[str, str]) -> None:
    assert await refused(users["out"], "select * from mainspring.jobs")
