"""``mainspring db`` against a real Postgres."""

import asyncio
import json
from typing import Any

import nats as nats_py
import pytest
from command_line import Ended, mainspring
from conftest import execute

from mainspring.changelog_tailer import close, connect, cursor_now, schema
from mainspring.engine.cli import main
from mainspring.engine.failover.recovery import KEY, RecoveryPoint

OLD_UPDATES = """
insert into mainspring.jobs (every_s) values (60);
update mainspring.jobs set every_s = 61;
update mainspring.jobs set every_s = 62;
update mainspring.job_changes set changed_at = changed_at - interval '1 day'
"""


def run(*arguments: str, dsn: str) -> int:
    return main([*arguments, "--postgres-dsn", dsn])


def test_init_makes_the_schema_and_is_safe_to_repeat(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("db", "init", dsn=database) == 0
    assert "schema mainspring: applied version 1" in capsys.readouterr().out
    assert run("db", "init", dsn=database) == 0
    assert capsys.readouterr().out == "schema mainspring: up to date\n"


def test_init_answers_programs_in_json(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("db", "init", "--json", dsn=database) == 0
    assert json.loads(capsys.readouterr().out)["applied"][0] == 1


def test_status_of_an_empty_database_names_the_mend(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("db", "status", dsn=database) == 1
    assert "run `mainspring db init`" in capsys.readouterr().err


def test_status_shows_version_and_counts(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    run("db", "init", dsn=database)
    capsys.readouterr()
    assert run("db", "status", "--json", dsn=database) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["ready"], status["jobs"], status["version"]) == (True, 0, status["needed_version"])
    assert run("db", "status", dsn=database) == 0
    assert "jobs                 0" in capsys.readouterr().out


def db(command: str, dsn: str, nats_url: str, *more: str) -> Ended:
    return mainspring("db", command, "--postgres-dsn", dsn, "--nats-url", nats_url, "--json", *more)


def with_cursor(dsn: str, nats_url: str, instance: str, **stream: Any) -> None:
    """An engine of this instance stands at the log's present end."""

    async def put() -> None:
        connection = await connect(dsn)
        point = RecoveryPoint(1, await cursor_now(connection))
        await close(connection)
        client = await nats_py.connect(nats_url)
        await (await client.jetstream().create_key_value(bucket=instance)).put(KEY, point.encode())
        if stream:
            await client.jetstream().add_stream(
                name=instance.upper(), subjects=[f"{instance}.run.>"], **stream
            )
        await client.close()

    asyncio.run(put())


def forget(nats_url: str, instance: str) -> None:
    async def delete() -> None:
        client = await nats_py.connect(nats_url)
        await client.jetstream().delete_key_value(instance)
        await client.close()

    asyncio.run(delete())


@pytest.fixture
def aged(database: str) -> str:
    """A database whose log has three rows of one job, a day old."""
    asyncio.run(schema.init(database))
    asyncio.run(execute(database, OLD_UPDATES))
    return database


def test_prune_keeps_the_last_row_and_status_tells_what_went(aged: str, nats_url: str) -> None:
    assert json.loads(db("prune", aged, nats_url).out)["removed"] == 2
    status = json.loads(db("status", aged, nats_url).out)
    assert (status["changes"], status["pruned_rows"]) == (1, 2)
    assert status["pruned_before"] > 0


def test_prune_keeps_what_is_younger_than_it_is_told_to(aged: str, nats_url: str) -> None:
    assert json.loads(db("prune", aged, nats_url, "--keep-s", "172800").out)["removed"] == 0


def test_prune_keeps_what_the_cursor_of_any_instance_has_not_seen(aged: str, nats_url: str) -> None:
    try:
        with_cursor(aged, nats_url, "prune1")
        asyncio.run(execute(aged, OLD_UPDATES))
        pruned = json.loads(db("prune", aged, nats_url).out)
        assert pruned["removed"] == 2
        assert "prune1" in pruned["instances"]
        (cursor,) = [
            cursor
            for cursor in json.loads(db("status", aged, nats_url).out)["cursors"]
            if cursor["instance"] == "prune1"
        ]
        assert (cursor["void"], cursor["rows_behind"]) == (False, 5)
    finally:
        forget(nats_url, "prune1")


def test_prune_keeps_what_the_age_of_a_stream_needs(aged: str, nats_url: str) -> None:
    try:
        with_cursor(aged, nats_url, "prune2", max_age=2 * 86400)
        assert json.loads(db("prune", aged, nats_url).out)["removed"] == 0
    finally:
        forget(nats_url, "prune2")


def test_prune_does_nothing_where_the_cursors_cannot_be_asked_for(aged: str) -> None:
    ended = db("prune", aged, "nats://127.0.0.1:1")
    assert ended.status == 1
    assert "cannot be reached" in ended.err
    status = db("status", aged, "nats://127.0.0.1:1")
    assert (status.status, json.loads(status.out)["cursors"]) == (0, None)
    assert json.loads(status.out)["changes"] == 3
