"""The table at a snapshot, the changes between two, and what undoes them."""

import asyncpg
import pytest

from changelog_tailer.replay import Replay, changes_since, loaded, undone
from mainspring.changelog_tailer import (
    OP_DELETE,
    OP_INSERT,
    OP_LOAD,
    OP_TRUNCATE,
    OP_UPDATE,
    CursorVoid,
    Decoder,
    Rows,
    changes_between,
    close,
    connect,
    cursor_now,
    load,
    newcomers_between,
    schema,
    undo_since,
)

INSERT = "insert into mainspring.jobs (every_s) values (60) returning id"


async def test_a_load_gives_every_job_with_all_its_fields(
    connection: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    await writer.execute(
        "insert into mainspring.jobs (id, key, cron, tz, jitter_s, starts_at, ends_at,"
        " boost_every_s, boost_until, catch_up, first_run_soon, enabled, route, payload)"
        " values (-5, 'schlüssel', '5 4 * * *', 'Asia/Tokyo', 9, '2030-01-01 00:00:00.000001Z',"
        " '2030-01-01 00:00:02Z', 3, '1969-12-31 23:59:58.5Z', 'none', true, false, 'a.b', '{\"ü\": [1.50]}')"
    )
    replay, _ = await loaded(connection)
    assert replay.ops == [(OP_LOAD, -5)]
    assert replay.jobs[-5] == {
        "run_at": 2**63 - 1,
        "starts_at": 1893456001,
        "ends_at": 1893456002,
        "boost_until": -1,
        "every_s": 0,
        "phase_s": -1,
        "jitter_s": 9,
        "boost_every_s": 3,
        "enabled": 0,
        "first_run_soon": 1,
        "catch_up": 2,
        "key": "schlüssel",
        "payload": '{"ü": [1.50]}',
        "route": "a.b",
        "cron": ("5 4 * * *", "Asia/Tokyo"),
    }


async def test_a_load_of_an_empty_table_gives_a_cursor(connection: asyncpg.Connection) -> None:
    replay, cursor = await loaded(connection)
    assert replay.jobs == {}
    assert cursor.same_log(await cursor_now(connection))


async def test_a_load_of_many_comes_in_pages(
    connection: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    await writer.execute(
        "insert into mainspring.jobs (every_s, payload) select 60, to_jsonb(repeat('x', 100))"
        " from generate_series(1, 20000)"
    )
    pages: list[int] = []
    ids: set[int] = set()

    async def sink(rows: Rows) -> None:
        pages.append(len(rows))
        ids.update(rows.rows["job_id"].tolist())

    await load(connection, sink, Decoder())
    assert ids == set(range(1, 20001))
    assert len(pages) > 2


async def test_changes_come_in_the_order_of_the_log(
    connection: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    since = await cursor_now(connection)
    await writer.execute("insert into mainspring.jobs (every_s) values (60), (60)")
    await writer.execute("update mainspring.jobs set every_s = 5 where id = 1")
    await writer.execute("delete from mainspring.jobs where id = 2")
    await writer.execute("truncate mainspring.jobs")
    replay, _ = await changes_since(connection, since)
    assert replay.ops == [
        (OP_INSERT, 1), (OP_INSERT, 2), (OP_UPDATE, 1), (OP_DELETE, 2), (OP_DELETE, 1), (OP_TRUNCATE, 0),
    ]  # fmt: skip
    assert replay.seqs == sorted(replay.seqs)
    assert replay.jobs == {}


async def test_changes_say_when_they_were_made(
    connection: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    since = await cursor_now(connection)
    await writer.execute(INSERT)
    changed_at: list[int] = []

    async def sink(rows: Rows) -> None:
        changed_at.extend(rows.rows["changed_at"].tolist())

    await changes_between(connection, since, await cursor_now(connection), sink, Decoder())
    expected = "select (extract(epoch from changed_at) * 1000000)::bigint from mainspring.job_changes"
    assert changed_at == [await writer.fetchval(expected)]


async def test_a_change_that_commits_later_than_its_successors_is_not_lost(
    dsn: str, connection: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    slow = await asyncpg.connect(dsn)
    start = await cursor_now(connection)
    transaction = slow.transaction()
    await transaction.start()
    late = await slow.fetchval(INSERT)
    quick = await writer.fetchval(INSERT)
    first, middle = await changes_since(connection, start)
    await transaction.commit()
    second, _ = await changes_since(connection, middle)
    assert list(first.jobs) == [quick]
    assert list(second.jobs) == [late]
    assert second.seqs < first.seqs
    await close(slow)


async def test_a_transaction_that_stays_open_delays_nobody(
    dsn: str, connection: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    slow = await asyncpg.connect(dsn)
    cursor = await cursor_now(connection)
    await slow.execute("begin")
    await slow.fetchval(INSERT)
    for _ in range(3):
        expected = await writer.fetchval(INSERT)
        replay, cursor = await changes_since(connection, cursor)
        assert list(replay.jobs) == [expected]
    await close(slow)


async def test_the_same_span_read_twice_gives_the_same_rows(
    connection: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    since = await cursor_now(connection)
    await writer.execute(INSERT)
    upto = await cursor_now(connection)
    await writer.execute(INSERT)
    readings = []
    for _ in range(2):
        replay = Replay()
        await changes_between(connection, since, upto, replay.sink, Decoder())
        readings.append(replay.ops)
    assert readings == [[(OP_INSERT, 1)]] * 2


async def test_undo_gives_the_jobs_as_they_were(
    connection: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    await writer.execute("insert into mainspring.jobs (every_s) select 60 from generate_series(1, 6)")
    before, since = await loaded(connection)
    await writer.execute("update mainspring.jobs set every_s = 5 where id <= 2")
    await writer.execute("update mainspring.jobs set every_s = 6, id = id + 100 where id = 2")
    await writer.execute("delete from mainspring.jobs where id = 3")
    await writer.execute("insert into mainspring.jobs (id, every_s) values (3, 1)")
    await writer.execute(INSERT)
    assert (await undone(connection, since)).jobs == before.jobs


async def test_undo_reaches_back_over_a_truncate(
    connection: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    await writer.execute("insert into mainspring.jobs (every_s) select 60 from generate_series(1, 3)")
    before, since = await loaded(connection)
    await writer.execute("truncate mainspring.jobs restart identity")
    await writer.execute("insert into mainspring.jobs (every_s) values (7)")
    assert (await undone(connection, since)).jobs == before.jobs


async def test_undo_followed_by_the_changes_is_the_table_again(
    connection: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    await writer.execute("insert into mainspring.jobs (every_s) select 60 from generate_series(1, 4)")
    _, since = await loaded(connection)
    await writer.execute("delete from mainspring.jobs where id = 1; update mainspring.jobs set every_s = 9")
    replay, upto = await loaded(connection)
    table = dict(replay.jobs)
    await undo_since(connection, since, upto, replay.sink, Decoder())
    await changes_between(connection, since, upto, replay.sink, Decoder())
    assert replay.jobs == table


async def test_newcomers_are_dated_by_their_insert_and_carry_what_followed(
    connection: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    soon = "insert into mainspring.jobs (id, every_s, first_run_soon) values "
    await writer.execute(f"{soon} (1, 60, true)")
    since = await cursor_now(connection)
    await writer.execute(f"{soon} (2, 60, true), (3, 60, false), (4, 60, true), (5, 60, true)")
    await writer.execute("update mainspring.jobs set every_s = 7 where id in (1, 2, 3)")
    await writer.execute("delete from mainspring.jobs where id in (4, 5)")
    await writer.execute(f"{soon} (5, 61, true)")
    upto = await cursor_now(connection)
    await writer.execute(f"{soon} (6, 60, true)")
    found = []

    async def keep(rows: Rows) -> None:
        found.extend(rows.rows[["job_id", "op", "every_s", "changed_at"]].tolist())
        assert not rows.rows["seq"].any()

    await newcomers_between(connection, since, upto, keep, Decoder())
    inserted = dict(
        await writer.fetch(
            "select job_id, (extract(epoch from max(changed_at)) * 1000000)::bigint "
            "from mainspring.job_changes where op = 'insert' group by job_id"
        )
    )
    assert found == [
        (2, OP_LOAD, 60, inserted[2]),
        (4, OP_LOAD, 60, inserted[4]),
        (2, OP_LOAD, 7, 0),
        (4, OP_DELETE, 0, 0),
        (5, OP_LOAD, 61, inserted[5]),
    ]


@pytest.mark.parametrize("field", ["system_identifier", "timeline", "database", "log_table"])
async def test_a_cursor_of_another_log_is_void(connection: asyncpg.Connection, field: str) -> None:
    now = await cursor_now(connection)
    other = type(now).from_dict(now.to_dict() | {field: now.to_dict()[field] + 1})
    with pytest.raises(CursorVoid, match="loaded again"):
        await changes_between(connection, other, now, Replay().sink, Decoder())
    with pytest.raises(CursorVoid, match="loaded again"):
        await undo_since(connection, other, now, Replay().sink, Decoder())


async def test_a_log_made_anew_in_the_same_database_voids_the_cursor(dsn: str) -> None:
    connection = await connect(dsn)
    old = await cursor_now(connection)
    await connection.execute("drop schema mainspring cascade")
    await schema.init(dsn)
    assert not old.same_log(await cursor_now(connection))
    await close(connection)


async def test_an_error_of_the_sink_comes_out_and_the_connection_is_gone(
    connection: asyncpg.Connection, writer: asyncpg.Connection
) -> None:
    await writer.execute(INSERT)

    async def sink(_: object) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await load(connection, sink, Decoder())
    assert connection.is_closed()
