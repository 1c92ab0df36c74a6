"""Following the log through wake-ups, outages and servers that are not what they were."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
from conftest import execute

from changelog_tailer.replay import Replay, loaded
from mainspring.changelog_tailer import (
    LOST,
    Cursor,
    CursorVoid,
    Decoder,
    Rows,
    Tailer,
    close,
    connect,
    cursor_now,
    schema,
)
from mainspring.changelog_tailer.listener import CHANNEL
from mainspring.changelog_tailer.tailer import AWAKE_S, READING_GAP_S
from mainspring.engine.embedded import EmbeddedPostgres

PATIENCE_S = 60.0
INSERT = "insert into mainspring.jobs (every_s) values (60)"
SILENT_INSERT = (
    "insert into mainspring.job_changes (op, job_id, after)"
    " select 'insert', 2, after from mainspring.job_changes where job_id = 1"
)


class Follower:
    """A replay that can be waited for."""

    def __init__(self, replay: Replay | None = None) -> None:
        self.replay = replay or Replay()
        self.cursors: list[Cursor] = []
        self._arrived = asyncio.Condition()

    async def sink(self, rows: Rows, cursor: Cursor) -> None:
        await self.replay.sink(rows)
        self.cursors.append(cursor)
        async with self._arrived:
            self._arrived.notify_all()

    async def wait(self, predicate: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S), self._arrived:
            await self._arrived.wait_for(predicate)

    async def wait_for_jobs(self, *job_ids: int) -> None:
        await self.wait(lambda: set(self.replay.jobs) == set(job_ids))

    async def wait_for_count(self, jobs: int) -> None:
        await self.wait(lambda: len(self.replay.jobs) == jobs)


async def start_of(dsn: str) -> Cursor:
    connection = await connect(dsn)
    try:
        return await cursor_now(connection)
    finally:
        await close(connection)


@asynccontextmanager
async def following(
    dsn: str, *, tail_poll_s: float = 0.05, cursor: Cursor | None = None
) -> AsyncIterator[tuple[Tailer, Follower, asyncio.Task[None]]]:
    follower = Follower()
    cursor = cursor or await start_of(dsn)
    tailer = Tailer(dsn, cursor, follower.sink, Decoder(), tail_poll_s=tail_poll_s, retry_cap_s=0.2)
    task = asyncio.create_task(tailer.run())
    try:
        yield tailer, follower, task
    finally:
        task.cancel()
        await asyncio.wait([task])
        await tailer.aclose()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_commit_wakes_the_tailer_long_before_it_would_poll(dsn: str) -> None:
    async with following(dsn, tail_poll_s=10 * PATIENCE_S) as (tailer, follower, _):
        await until(lambda: tailer.connected)
        for expected in range(1, 6):
            await execute(dsn, INSERT)
            await follower.wait_for_jobs(*range(1, expected + 1))


async def test_without_a_wake_up_the_poll_finds_the_change(dsn: str) -> None:
    async with following(dsn) as (_, follower, _task):
        await execute(dsn, INSERT)
        await follower.wait_for_jobs(1)
        await execute(dsn, SILENT_INSERT)
        await follower.wait_for_jobs(1, 2)


async def test_a_tailer_that_is_told_to_look_does_so_before_it_would_poll(dsn: str) -> None:
    async with following(dsn, tail_poll_s=10 * PATIENCE_S) as (tailer, follower, _):
        await execute(dsn, INSERT)
        await follower.wait_for_jobs(1)
        await asyncio.sleep(AWAKE_S + 2 * READING_GAP_S)
        await execute(dsn, SILENT_INSERT)
        tailer.wake()
        await follower.wait_for_jobs(1, 2)


async def test_what_was_committed_before_the_last_reading_began_has_been_handed_over(dsn: str) -> None:
    async with following(dsn) as (tailer, follower, _):
        for expected in range(1, 11):
            await execute(dsn, INSERT)
            committed_at = asyncio.get_running_loop().time()
            await until(lambda at=committed_at: (tailer.polled_at or 0) >= at)  # type: ignore[misc]
            assert len(follower.replay.jobs) == expected


class Notifications:
    """Counts the wake-ups that reach a listening session."""

    def __init__(self) -> None:
        self.count = 0
        self.arrived = asyncio.Event()

    def __call__(self, *_: object) -> None:
        self.count += 1
        self.arrived.set()


async def test_writers_in_a_hurry_leave_out_most_of_their_wake_ups(dsn: str) -> None:
    heard, session = Notifications(), await asyncpg.connect(dsn)
    await session.add_listener(CHANNEL, heard)
    for _ in range(100):
        await session.execute(INSERT)
    assert 1 <= heard.count < 100
    await close(session)


async def test_a_long_transaction_wakes_whoever_was_woken_just_before(dsn: str) -> None:
    heard, session = Notifications(), await asyncpg.connect(dsn)
    await session.add_listener(CHANNEL, heard)
    async with session.transaction():
        await session.execute("select pg_sleep(0.03)")
        await session.execute(
            "select setval('mainspring.last_wake_ms', (extract(epoch from clock_timestamp()) * 1000)::bigint)"
        )
        await session.execute(INSERT)
    await asyncio.wait_for(heard.arrived.wait(), PATIENCE_S)
    await close(session)


async def test_the_cursor_of_the_last_page_is_the_end_of_the_reading(dsn: str) -> None:
    start = await start_of(dsn)
    async with following(dsn, cursor=start) as (tailer, follower, _):
        await execute(dsn, INSERT)
        await follower.wait_for_jobs(1)
        await follower.wait(lambda: follower.cursors[-1] != start)
        reached = follower.cursors[-1]
        assert reached == tailer.cursor
    async with following(dsn, cursor=reached) as (tailer, follower, _):
        await execute(dsn, INSERT)
        await follower.wait_for_jobs(2)
        assert follower.replay.seqs == [2]


async def test_a_large_change_comes_in_pages_and_the_cursor_moves_with_the_last(dsn: str) -> None:
    cursor = await start_of(dsn)
    await execute(
        dsn,
        "insert into mainspring.jobs (every_s, payload) select 60, to_jsonb(repeat('x', 100))"
        " from generate_series(1, 20000)",
    )
    async with following(dsn, cursor=cursor) as (tailer, follower, _):
        await follower.wait(lambda: len(follower.replay.jobs) == 20000)
        await until(lambda: tailer.cursor != cursor)
        assert follower.cursors[0] == cursor
        assert follower.replay.seqs == list(range(1, 20001))


async def test_a_sink_that_is_slow_loses_nothing(dsn: str) -> None:
    follower = Follower()
    gate = asyncio.Event()

    async def slow(rows: Rows, cursor: Cursor) -> None:
        await gate.wait()
        await follower.sink(rows, cursor)

    tailer = Tailer(dsn, await start_of(dsn), slow, Decoder(), tail_poll_s=0.05)
    task = asyncio.create_task(tailer.run())
    for _ in range(5):
        await execute(dsn, INSERT)
    gate.set()
    await follower.wait_for_jobs(1, 2, 3, 4, 5)
    task.cancel()
    await asyncio.wait([task])
    await tailer.aclose()


async def test_an_error_of_the_sink_ends_the_run_even_if_it_looks_like_one_of_the_server(dsn: str) -> None:
    async def broken(_rows: Rows, _cursor: Cursor) -> None:
        raise ConnectionResetError("of the sink's own")

    tailer = Tailer(dsn, await start_of(dsn), broken, Decoder(), tail_poll_s=0.05)
    await execute(dsn, INSERT)
    with pytest.raises(ConnectionResetError, match="of the sink's own"):
        await asyncio.wait_for(tailer.run(), PATIENCE_S)


async def test_a_page_that_the_sink_refused_counts_as_handed_over_never(dsn: str) -> None:
    seen: list[int] = []

    async def once_broken(rows: Rows, _cursor: Cursor) -> None:
        seen.extend(rows.rows["seq"].tolist())
        if len(seen) == 1:
            raise KeyError("first page")

    tailer = Tailer(dsn, await start_of(dsn), once_broken, Decoder())
    await execute(dsn, INSERT)
    with pytest.raises(KeyError):
        await tailer.run_once()
    await tailer.run_once()
    assert seen == [1, 1]
    await tailer.aclose()


async def test_backends_that_are_terminated_are_replaced(dsn: str) -> None:
    async with following(dsn) as (tailer, follower, _):
        for expected in range(1, 6):
            await until(lambda: tailer.connected)
            await execute(
                dsn,
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name = 'mainspring' and datname = current_database()",
            )
            await execute(dsn, INSERT)
            await follower.wait_for_jobs(*range(1, expected + 1))
        assert follower.replay.seqs == [1, 2, 3, 4, 5]


async def test_a_lost_listener_is_replaced(dsn: str) -> None:
    async with following(dsn, tail_poll_s=10 * PATIENCE_S) as (tailer, follower, _):
        await until(lambda: tailer.connected)
        polled_at = tailer.polled_at
        await execute(
            dsn,
            "select pg_terminate_backend(pid) from pg_stat_activity where query like 'LISTEN %'"
            " and datname = current_database()",
        )
        await until(lambda: tailer.connected and tailer.polled_at != polled_at)
        await execute(dsn, INSERT)
        await follower.wait_for_jobs(1)


async def test_after_a_killed_server_the_tail_goes_on_from_where_it_was(
    own_postgres: EmbeddedPostgres,
) -> None:
    dsn = own_postgres.dsn
    await schema.init(dsn)
    async with following(dsn) as (tailer, follower, _):
        for expected in range(1, 6):
            await execute(dsn, INSERT)
            if expected % 2:
                await follower.wait_for_count(expected)
            await own_postgres.kill()
            await until(lambda: tailer.last_error is not None)
            assert not tailer.connected
            await own_postgres.start()
            await follower.wait_for_count(expected)
            await until(lambda: tailer.connected and tailer.last_error is None)
        assert follower.replay.seqs == sorted(set(follower.replay.seqs))


@pytest_asyncio.fixture
async def forgetful_postgres(server_folder: Path) -> AsyncIterator[EmbeddedPostgres]:
    """A server that flushes next to nothing by itself, so that a kill makes it forget."""
    settings = {"wal_writer_delay": "10s", "wal_writer_flush_after": "100MB"}
    server = EmbeddedPostgres(server_folder, settings=settings)
    await server.start()
    yield server
    await server.kill()


async def test_transaction_ids_that_a_crash_gives_out_anew_hide_no_change(
    forgetful_postgres: EmbeddedPostgres,
) -> None:
    server = forgetful_postgres
    await schema.init(server.dsn)
    cursor = await start_of(server.dsn)
    follower = Follower()
    tailer = Tailer(server.dsn, cursor, follower.sink, Decoder())
    await tailer.run_once()
    writer = await asyncpg.connect(server.dsn)
    for _ in range(20):
        await writer.execute("begin; select pg_current_xact_id(); rollback")
    await tailer.run_once()
    assert tailer.cursor.xmax >= cursor.xmax + 20
    await server.kill()
    writer.terminate()
    await server.start()
    for _ in range(40):
        await execute(server.dsn, INSERT)
    reused = await start_of(server.dsn)
    assert reused.xmax > tailer.cursor.xmax > cursor.xmax
    with suppress(*LOST):
        await tailer.run_once()
    await tailer.run_once()
    assert len(follower.replay.jobs) == 40
    await tailer.aclose()


async def test_changes_that_a_crash_took_back_void_the_cursor(
    forgetful_postgres: EmbeddedPostgres,
) -> None:
    server = forgetful_postgres
    await schema.init(server.dsn)
    follower = Follower()
    tailer = Tailer(server.dsn, await start_of(server.dsn), follower.sink, Decoder())
    await tailer.run_once()
    await execute(server.dsn, f"set synchronous_commit = off; {INSERT}")
    await tailer.run_once()
    assert list(follower.replay.jobs) == [1]
    await server.kill()
    await server.start()
    assert (await schema.status(server.dsn)).jobs == 0
    with pytest.raises(CursorVoid, match="lost 1 changes"):
        await asyncio.wait_for(tailer.run(), PATIENCE_S)
    await tailer.aclose()


async def test_a_frozen_server_is_noticed_and_left(
    own_postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = own_postgres.dsn
    await schema.init(dsn)
    monkeypatch.setattr("mainspring.changelog_tailer.reading.QUERY_TIMEOUT_S", 0.3)
    async with following(dsn) as (tailer, follower, _):
        await until(lambda: tailer.connected)
        own_postgres.freeze()
        await until(lambda: tailer.last_error is not None)
        assert tailer.last_error == "Postgres does not answer in time"
        own_postgres.thaw()
        await execute(dsn, INSERT)
        await follower.wait_for_jobs(1)


async def test_closing_beside_a_frozen_server_ends_in_time(own_postgres: EmbeddedPostgres) -> None:
    dsn = own_postgres.dsn
    await schema.init(dsn)
    tailer = Tailer(dsn, await start_of(dsn), Follower().sink, Decoder())
    await tailer.run_once()
    own_postgres.freeze()
    await asyncio.wait_for(tailer.aclose(), PATIENCE_S)
    own_postgres.thaw()


async def test_a_server_that_is_away_at_the_start_is_waited_for(own_postgres: EmbeddedPostgres) -> None:
    dsn = own_postgres.dsn
    await schema.init(dsn)
    cursor = await start_of(dsn)
    await own_postgres.stop()
    async with following(dsn, cursor=cursor) as (tailer, follower, _):
        await until(lambda: tailer.last_error is not None)
        await own_postgres.start()
        await execute(dsn, INSERT)
        await follower.wait_for_jobs(1)


@pytest.mark.parametrize("field", ["system_identifier", "timeline", "database", "log_table"])
async def test_a_cursor_of_another_log_ends_the_run_as_void(dsn: str, field: str) -> None:
    cursor = await start_of(dsn)
    other = Cursor.from_dict(cursor.to_dict() | {field: cursor.to_dict()[field] + 1})
    tailer = Tailer(dsn, other, Follower().sink, Decoder())
    with pytest.raises(CursorVoid, match="loaded again"):
        await asyncio.wait_for(tailer.run(), PATIENCE_S)
    await tailer.aclose()


async def test_a_cursor_from_the_future_of_this_log_is_void(dsn: str) -> None:
    cursor = await start_of(dsn)
    ahead = cursor.at(f"{cursor.xmax + 10**6}:{cursor.xmax + 10**6}:")
    tailer = Tailer(dsn, ahead, Follower().sink, Decoder())
    with pytest.raises(CursorVoid, match="went back"):
        await asyncio.wait_for(tailer.run(), PATIENCE_S)
    await tailer.aclose()


async def test_a_role_that_may_only_select_can_load_and_tail(
    database: str, postgres: EmbeddedPostgres
) -> None:
    await execute(database, "drop role if exists engine_login")
    await schema.init(database)
    await execute(database, "create role engine_login login password 'secret' in role mainspring_engine")
    try:
        dsn = database.replace(postgres.dsn.split("@")[0], "postgresql://engine_login:secret")
        connection = await connect(dsn)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(INSERT)
        await close(connection)
        await execute(database, INSERT)
        connection = await connect(dsn)
        replay, cursor = await loaded(connection)
        await close(connection)
        assert list(replay.jobs) == [1]
        assert (await schema.status(dsn)).jobs == 1
        async with following(dsn, cursor=cursor) as (_, follower, _task):
            await execute(database, INSERT)
            await follower.wait_for_jobs(2)
    finally:
        await execute(database, "drop role engine_login")


async def test_a_row_written_by_hand_does_not_stop_the_tail(dsn: str) -> None:
    async with following(dsn) as (_, follower, _task):
        await execute(
            dsn,
            "insert into mainspring.job_changes (op, job_id) values ('explode', 1), ('insert', 2),"
            " ('delete', null), ('', null)",
        )
        await execute(dsn, INSERT)
        await follower.wait_for_jobs(1)
        assert [op for op, _ in follower.replay.ops] == [255, 255, 255, 255, 1]


BY_HAND = {
    "a null for the definition": "('update', 1, null)",
    "a null for the job": "('update', null, row(null, 60, null, null, 'UTC', null, null, null, null, null,"
    " null, 'all', false, true, 'default', null))",
    "a null for the route": "('update', 1, row(null, 60, null, null, 'UTC', null, null, null, null, null,"
    " null, 'all', false, true, null, null))",
    "a null for enabled": "('update', 1, row(null, 60, null, null, 'UTC', null, null, null, null, null,"
    " null, 'all', false, null, 'default', null))",
    "an interval below zero": "('update', 1, row(null, -5, null, null, 'UTC', null, null, null, null, null,"
    " null, 'all', false, true, 'default', null))",
    "a key that is too long": "('update', 1, row(repeat('k', 300), 60, null, null, 'UTC', null, null, null,"
    " null, null, null, 'all', false, true, 'default', null))",
    "an op of a later version": "('merge', 1, row(null, 60, null, null, 'UTC', null, null, null, null, null,"
    " null, 'all', false, true, 'default', null))",
}


@pytest.mark.parametrize("row", BY_HAND.values(), ids=BY_HAND.keys())
async def test_what_no_trigger_writes_changes_nothing_and_the_tail_goes_on(dsn: str, row: str) -> None:
    await execute(dsn, INSERT)
    async with following(dsn) as (_, follower, _task):
        await execute(dsn, f"insert into mainspring.job_changes (op, job_id, after) values {row}")
        await execute(dsn, INSERT)
        await follower.wait(lambda: 2 in follower.replay.jobs)
        assert [op for op, _ in follower.replay.ops] == [255, 1]


async def test_a_definition_with_a_column_of_a_later_version_is_read(dsn: str) -> None:
    async with following(dsn) as (tailer, follower, _):
        await execute(dsn, "alter type mainspring.definition add attribute later text")
        await execute(
            dsn,
            "insert into mainspring.job_changes (op, job_id, after) values ('insert', 9, row(null, 60, null,"
            " null, 'UTC', null, null, null, null, null, null, 'all', false, true, 'default', null, 'new'))",
        )
        await follower.wait(lambda: 9 in follower.replay.jobs)
        assert tailer.last_error is None


async def test_who_asks_amid_a_reading_that_fails_gets_another_at_once_and_one_alone() -> None:
    """However long the pauses have become: a process that stood still asks before it sees the failure."""
    began, fail = [0], asyncio.Event()

    class Away(Tailer):
        async def _connected(self) -> asyncpg.Connection:
            began[0] += 1
            await fail.wait()
            raise OSError("away")

    async def nothing(_rows: Rows, _cursor: Cursor) -> None: ...

    tailer = Away("postgresql://nowhere/", Cursor(1, 1, "1:1:"), nothing, Decoder(), retry_cap_s=30)
    for _ in range(12):
        tailer._backoff.failed()
    running = asyncio.create_task(tailer.run())
    await asyncio.sleep(0.05)
    tailer.wake()
    fail.set()
    await asyncio.sleep(0.2)
    assert began == [2]
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
