"""What the triggers append: one row a job that really changed, in the transaction that changed it."""

from typing import Any

import asyncpg

from mainspring.changelog_tailer import close


async def log_of(writer: asyncpg.Connection) -> list[tuple[Any, ...]]:
    """(op, job id, interval before, interval after) of every row, oldest first."""
    rows = await writer.fetch(
        "select op, job_id, (before).every_s as was, (after).every_s as now"
        " from mainspring.job_changes order by seq"
    )
    return [tuple(row.values()) for row in rows]


async def insert_jobs(writer: asyncpg.Connection, count: int) -> None:
    await writer.execute("insert into mainspring.jobs (every_s) select 60 from generate_series(1, $1)", count)


async def test_an_insert_of_many_appends_one_row_each(writer: asyncpg.Connection) -> None:
    await insert_jobs(writer, 3)
    assert await log_of(writer) == [("insert", i, None, 60) for i in (1, 2, 3)]


async def test_copy_appends_like_insert(writer: asyncpg.Connection) -> None:
    records = [(10,), (20,)]
    await writer.copy_records_to_table("jobs", schema_name="mainspring", columns=["every_s"], records=records)
    assert await log_of(writer) == [("insert", 1, None, 10), ("insert", 2, None, 20)]


async def test_an_update_keeps_the_definition_before_and_after(writer: asyncpg.Connection) -> None:
    await insert_jobs(writer, 2)
    await writer.execute("update mainspring.jobs set every_s = 30 where id = 2")
    assert (await log_of(writer))[2:] == [("update", 2, 60, 30)]


async def test_a_delete_keeps_the_definition_before(writer: asyncpg.Connection) -> None:
    await insert_jobs(writer, 2)
    await writer.execute("delete from mainspring.jobs where id = 1")
    assert (await log_of(writer))[2:] == [("delete", 1, 60, None)]


async def test_every_column_of_a_definition_is_kept(writer: asyncpg.Connection) -> None:
    await writer.execute(
        "insert into mainspring.jobs (id, key, cron, tz, phase_s, jitter_s, starts_at, ends_at,"
        " boost_every_s, boost_until, catch_up, first_run_soon, enabled, route, payload)"
        " values (7, 'k', '@daily', 'Europe/Berlin', 1, 2, '2030-01-01Z', '2031-01-01Z',"
        " 3, '2030-06-01Z', 'latest', true, false, 'a.b', '[1]')"
    )
    columns = "key, every_s, cron, run_at, tz, phase_s, jitter_s, starts_at, ends_at, boost_every_s"
    columns += ", boost_until, catch_up, first_run_soon, enabled, route, payload"
    stored = await writer.fetchrow(f"select {columns} from mainspring.jobs")
    logged = await writer.fetchval("select after from mainspring.job_changes")
    assert tuple(logged.values()) == tuple(stored.values())
    assert tuple(logged.keys()) == tuple(stored.keys())


async def test_an_update_that_changes_nothing_appends_nothing(writer: asyncpg.Connection) -> None:
    await writer.execute("insert into mainspring.jobs (every_s, payload, key) values (60, '{\"a\": 1}', 'k')")
    await writer.execute("update mainspring.jobs set every_s = 60, payload = '{\"a\":1}', key = 'k'")
    assert len(await log_of(writer)) == 1


async def test_of_an_update_of_many_only_the_changed_are_appended(writer: asyncpg.Connection) -> None:
    await insert_jobs(writer, 5)
    await writer.execute("update mainspring.jobs set every_s = case when id = 3 then 5 else every_s end")
    assert (await log_of(writer))[5:] == [("update", 3, 60, 5)]


async def test_a_large_payload_that_stays_appends_nothing(writer: asyncpg.Connection) -> None:
    payload = '"' + "ab" * 20_000 + '"'
    await writer.execute("insert into mainspring.jobs (every_s, payload) values (60, $1)", payload)
    await writer.execute("update mainspring.jobs set payload = $1::text::jsonb", payload)
    assert len(await log_of(writer)) == 1


async def test_a_number_written_otherwise_is_a_change(writer: asyncpg.Connection) -> None:
    await writer.execute("insert into mainspring.jobs (every_s, payload) values (60, '1')")
    await writer.execute("update mainspring.jobs set payload = '1.0'")
    assert len(await log_of(writer)) == 2


async def test_a_change_of_a_column_of_the_users_own_appends_nothing(writer: asyncpg.Connection) -> None:
    await writer.execute(
        "alter table mainspring.jobs add note text, add twice int generated always as (every_s * 2) stored"
    )
    await insert_jobs(writer, 1)
    await writer.execute("update mainspring.jobs set note = 'mine'")
    await writer.execute("update mainspring.jobs set every_s = 30")
    assert await log_of(writer) == [("insert", 1, None, 60), ("update", 1, 60, 30)]


async def test_a_changed_id_is_a_delete_and_an_insert(writer: asyncpg.Connection) -> None:
    await insert_jobs(writer, 1)
    await writer.execute("update mainspring.jobs set id = 9, every_s = 5")
    assert sorted((await log_of(writer))[1:]) == [("delete", 1, 60, None), ("insert", 9, None, 5)]


async def test_ids_that_move_up_by_one_leave_the_log_true(writer: asyncpg.Connection) -> None:
    await writer.execute("insert into mainspring.jobs (id, every_s) values (1, 10), (2, 20), (3, 30)")
    await writer.execute("alter table mainspring.jobs drop constraint jobs_pkey")
    await writer.execute("update mainspring.jobs set id = id + 1")
    ends, starts = (await log_of(writer))[3:6], (await log_of(writer))[6:]
    assert sorted(ends) == [("delete", 1, 10, None), ("delete", 2, 20, None), ("delete", 3, 30, None)]
    assert sorted(starts) == [("insert", 2, None, 10), ("insert", 3, None, 20), ("insert", 4, None, 30)]


USERS_TRIGGER = """
create function users_trigger() returns trigger language plpgsql as $$ begin {body}; end $$;
create trigger zz_users_trigger before update on mainspring.jobs for each row execute function users_trigger()
"""


async def test_a_job_that_another_trigger_keeps_from_moving_goes_on(writer: asyncpg.Connection) -> None:
    await insert_jobs(writer, 1)
    await writer.execute(USERS_TRIGGER.format(body="return null"))
    await writer.execute("update mainspring.jobs set id = 9")
    assert (await log_of(writer))[1:] == [("delete", 1, 60, None), ("insert", 1, None, 60)]


async def test_an_id_that_another_trigger_changes_is_a_delete_and_an_insert(
    writer: asyncpg.Connection,
) -> None:
    await insert_jobs(writer, 1)
    await writer.execute(USERS_TRIGGER.format(body="new.id := 9; return new"))
    await writer.execute("update mainspring.jobs set every_s = 5")
    assert (await log_of(writer))[1:] == [("delete", 1, 60, None), ("insert", 9, None, 5)]


async def test_an_id_set_to_itself_appends_nothing(writer: asyncpg.Connection) -> None:
    await insert_jobs(writer, 2)
    await writer.execute("update mainspring.jobs set id = id")
    assert len(await log_of(writer)) == 2


async def test_a_moved_job_that_is_moved_back_is_as_it_was(writer: asyncpg.Connection) -> None:
    await insert_jobs(writer, 1)
    async with writer.transaction():
        await writer.execute("update mainspring.jobs set id = 9")
        await writer.execute("update mainspring.jobs set id = 1, every_s = 5")
    assert (await log_of(writer))[1:] == [
        ("delete", 1, 60, None),
        ("insert", 9, None, 60),
        ("delete", 9, 60, None),
        ("insert", 1, None, 5),
    ]


async def test_truncate_appends_a_delete_for_each_job_and_then_itself(writer: asyncpg.Connection) -> None:
    await insert_jobs(writer, 2)
    await writer.execute("truncate mainspring.jobs")
    log = (await log_of(writer))[2:]
    assert log == [("delete", 1, 60, None), ("delete", 2, 60, None), ("truncate", None, None, None)]


async def test_truncate_cascading_from_another_table_is_logged(writer: asyncpg.Connection) -> None:
    await writer.execute("create table owner (id int primary key)")
    await writer.execute("alter table mainspring.jobs add owner int references owner on delete cascade")
    await insert_jobs(writer, 1)
    await writer.execute("truncate owner cascade")
    assert [row[0] for row in await log_of(writer)] == ["insert", "delete", "truncate"]


async def test_a_delete_cascading_from_another_table_is_logged(writer: asyncpg.Connection) -> None:
    await writer.execute("create table owner (id int primary key); insert into owner values (1), (2)")
    await writer.execute("alter table mainspring.jobs add owner int references owner on delete cascade")
    await writer.execute("insert into mainspring.jobs (every_s, owner) values (60, 1), (60, 2)")
    await writer.execute("delete from owner where id = 2")
    assert (await log_of(writer))[2:] == [("delete", 2, 60, None)]


async def test_an_upsert_appends_an_insert_or_an_update(writer: asyncpg.Connection) -> None:
    await writer.execute("insert into mainspring.jobs (key, every_s) values ('a', 10), ('b', 10)")
    await writer.execute(
        "insert into mainspring.jobs (key, every_s) values ('a', 10), ('b', 20), ('c', 30)"
        " on conflict (key) do update set every_s = excluded.every_s"
    )
    new = (await log_of(writer))[2:]
    assert sorted(op for op, *_ in new) == ["insert", "update"]
    assert ("update", 2, 10, 20) in new


async def test_what_is_rolled_back_is_not_in_the_log(writer: asyncpg.Connection) -> None:
    await insert_jobs(writer, 1)
    await writer.execute("begin; savepoint a")
    await writer.execute(
        "update mainspring.jobs set every_s = 5; rollback to a; update mainspring.jobs set every_s = 7"
    )
    await writer.execute("commit")
    await writer.execute("begin; delete from mainspring.jobs; rollback")
    assert (await log_of(writer))[1:] == [("update", 1, 60, 7)]


async def test_a_session_that_replays_changes_is_logged(writer: asyncpg.Connection) -> None:
    await writer.execute("set session_replication_role = replica")
    await insert_jobs(writer, 1)
    assert len(await log_of(writer)) == 1


async def test_a_writer_needs_no_right_to_the_log_and_is_named_in_it(
    dsn: str, writer: asyncpg.Connection
) -> None:
    await writer.execute("create role jobs_writer login password 'secret'")
    try:
        await writer.execute("grant usage on schema mainspring to jobs_writer")
        await writer.execute(
            "grant select, insert, update, delete, truncate on mainspring.jobs to jobs_writer"
        )
        other = await asyncpg.connect(dsn, user="jobs_writer", password="secret")
        await insert_jobs(other, 1)
        await other.execute("update mainspring.jobs set every_s = 5; truncate mainspring.jobs")
        await close(other)
        writers = await writer.fetch("select changed_by from mainspring.job_changes")
        assert {row["changed_by"] for row in writers} == {"jobs_writer"}
        assert len(writers) == 4
    finally:
        await writer.execute("drop owned by jobs_writer; drop role jobs_writer")


async def test_changed_at_is_the_time_of_the_change_and_not_of_the_transaction(
    writer: asyncpg.Connection,
) -> None:
    async with writer.transaction():
        await insert_jobs(writer, 1)
        later = await writer.fetchval(
            "select bool_and(changed_at > now()) from mainspring.job_changes where clock_timestamp() > now()"
        )
    assert later


async def test_updated_at_moves_with_a_change_alone_and_created_at_never(writer: asyncpg.Connection) -> None:
    await insert_jobs(writer, 1)
    times = "select created_at, updated_at from mainspring.jobs"
    created = await writer.fetchrow(times)
    await writer.execute("update mainspring.jobs set every_s = 60")
    assert await writer.fetchrow(times) == created
    await writer.execute(
        "update mainspring.jobs set every_s = 5, created_at = '1999-01-01Z', updated_at = '1999-01-01Z'"
    )
    changed = await writer.fetchrow(times)
    assert changed["created_at"] == created["created_at"]
    assert changed["updated_at"] > created["updated_at"]
