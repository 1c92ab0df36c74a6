"""Making and upgrading the schema, and what it says about itself."""

import asyncio

import asyncpg
import pytest
from conftest import execute

from changelog_tailer.replay import changes_since, loaded
from mainspring.changelog_tailer import SchemaMismatch, ServerRefused, close, connect, cursor_now, schema
from mainspring.changelog_tailer.queries import upgrades
from mainspring.engine.embedded import EmbeddedPostgres

ALL_VERSIONS = [upgrade.version for upgrade in upgrades()]


async def test_init_applies_every_version_once(database: str) -> None:
    assert await schema.init(database) == ALL_VERSIONS
    assert await schema.init(database) == []


async def test_versions_count_up_from_one_without_a_hole() -> None:
    assert list(range(1, len(ALL_VERSIONS) + 1)) == ALL_VERSIONS


@pytest.mark.parametrize("version", ALL_VERSIONS[1:-1])
async def test_an_older_schema_is_upgraded_beside_a_writer_and_its_log_stays_whole(
    database: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(schema, "upgrades", lambda: upgrades()[:version])
        older.setattr(schema, "schema_version", lambda: version)
        assert await schema.init(database) == ALL_VERSIONS[:version]
    writer = await asyncpg.connect(database)
    await writer.execute("insert into mainspring.jobs (id, every_s) values (1, 1)")
    snapshot = await writer.fetchval("select pg_current_snapshot()::text")
    upgraded = asyncio.Event()

    async def write() -> int:
        writes = 0
        while writes < 50 or not upgraded.is_set():
            await writer.execute("update mainspring.jobs set every_s = every_s + 1 where id = 1")
            writes += 1
        return writes

    writing = asyncio.create_task(write())
    assert await schema.init(database) == ALL_VERSIONS[version:]
    upgraded.set()
    writes = await writing
    reader = await connect(database)
    replay, _ = await changes_since(reader, (await cursor_now(reader)).at(snapshot))
    assert len(replay.seqs) == writes
    await close(reader)
    await close(writer)


async def test_two_inits_at_once_apply_each_version_once(database: str) -> None:
    applied = await asyncio.gather(*(schema.init(database) for _ in range(4)))
    assert sorted(version for versions in applied for version in versions) == ALL_VERSIONS


async def test_init_leaves_jobs_and_log_as_they_are(dsn: str, writer: asyncpg.Connection) -> None:
    await writer.execute("insert into mainspring.jobs (every_s) select 60 from generate_series(1, 3)")
    await schema.init(dsn)
    status = await schema.status(dsn)
    assert (status.jobs, status.changes, status.last_seq) == (3, 3, 3)


async def test_status_of_a_database_without_the_schema_is_version_0(database: str) -> None:
    status = await schema.status(database)
    assert status.version == 0
    assert not status.ready
    assert (status.jobs, status.jobs_bytes) == (0, 0)


async def test_status_counts_jobs_changes_and_sizes(dsn: str, writer: asyncpg.Connection) -> None:
    await writer.execute("insert into mainspring.jobs (every_s, enabled) values (60, true), (60, false)")
    await writer.execute("delete from mainspring.jobs where enabled")
    status = await schema.status(dsn)
    assert status.ready
    assert (status.jobs, status.paused, status.changes) == (1, 1, 3)
    assert status.jobs_bytes > 0
    assert status.changes_bytes > 0
    assert status.oldest_change_at is not None
    assert status.newest_change_at is not None
    assert status.oldest_change_at <= status.newest_change_at


async def test_a_newer_schema_is_refused_by_name(dsn: str) -> None:
    await execute(dsn, "insert into mainspring.schema_versions (version, name) values (999, 'future')")
    with pytest.raises(SchemaMismatch, match=r"version 999.*install the newer mainspring"):
        await schema.init(dsn)


async def test_a_reader_works_beside_a_schema_one_version_newer(dsn: str) -> None:
    await execute(dsn, "insert into mainspring.schema_versions (version, name) values (999, 'future')")
    await close(await connect(dsn))


async def test_a_missing_schema_is_refused_with_the_mend(database: str) -> None:
    with pytest.raises(SchemaMismatch, match="db init"):
        await connect(database)


async def test_an_older_schema_is_refused_with_the_mend(dsn: str) -> None:
    await execute(dsn, "delete from mainspring.schema_versions where version > 1")
    with pytest.raises(SchemaMismatch, match=r"version 1 .* run `mainspring db init`"):
        await connect(dsn)


async def test_a_database_of_another_encoding_is_refused(postgres: EmbeddedPostgres) -> None:
    await execute(postgres.dsn, "create database latin encoding 'LATIN1' locale 'C' template template0")
    try:
        with pytest.raises(ServerRefused, match="LATIN1"):
            await schema.init(postgres.dsn_for("latin"))
        with pytest.raises(ServerRefused, match="LATIN1"):
            await connect(postgres.dsn_for("latin"))
    finally:
        await execute(postgres.dsn, "drop database latin with (force)")


async def test_a_failing_init_leaves_nothing_behind(database: str) -> None:
    await execute(database, "create schema mainspring; create table mainspring.job_changes (mine int)")
    with pytest.raises(asyncpg.DuplicateTableError):
        await schema.init(database)
    status = await schema.status(database)
    assert status.version == 0


async def test_changes_with_transaction_ids_of_the_future_are_purged(
    dsn: str, writer: asyncpg.Connection, connection: asyncpg.Connection
) -> None:
    await writer.execute("insert into mainspring.jobs (every_s) values (60)")
    await writer.execute(
        "insert into mainspring.job_changes (op, job_id, xid) values ('delete', 1, '9000000000000')"
    )
    await schema.init(dsn)
    assert [row["op"] for row in await writer.fetch("select op from mainspring.job_changes")] == ["insert"]
    replay, _ = await loaded(connection)
    assert list(replay.jobs) == [1]


async def test_a_purge_keeps_the_changes_of_transactions_that_commit_meanwhile(
    dsn: str, connection: asyncpg.Connection
) -> None:
    before = await cursor_now(connection)

    async def insert_some() -> None:
        for _ in range(50):
            await execute(dsn, "insert into mainspring.jobs (every_s) values (60)")

    await asyncio.gather(insert_some(), *(schema.init(dsn) for _ in range(10)))
    replay, _ = await changes_since(connection, before)
    assert sorted(replay.jobs) == list(range(1, 51))
