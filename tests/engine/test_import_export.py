"""`jobs import` and `jobs export` against a real Postgres."""

import asyncio
import io
import json
import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from mainspring.changelog_tailer import schema
from mainspring.engine.jobs.connection import prepare
from mainspring.engine.jobs.definition import Definition
from mainspring.engine.jobs.errors import TableMoved
from mainspring.engine.jobs.exporting import export_jobs, unfit_crons
from mainspring.engine.jobs.importing import Import, ImportReport
from mainspring.engine.jobs.records import Record, read_csv, read_json_lines

ODD_JOBS = (Path(__file__).parents[1] / "data" / "odd_jobs.sql").read_text("utf-8")
ALL = """
select id, key, every_s, cron, run_at, tz, phase_s, jitter_s, starts_at, ends_at, boost_every_s, boost_until,
       catch_up, first_run_soon, enabled, route, payload::text
from mainspring.jobs order by id
"""


@pytest_asyncio.fixture
async def connection(database: str) -> AsyncIterator[asyncpg.Connection]:
    await schema.init(database)
    connection = await asyncpg.connect(database)
    await prepare(connection)
    yield connection
    await connection.close()


async def imported(connection: asyncpg.Connection, *jobs: dict[str, Any], **options: Any) -> ImportReport:
    records = (Record(line, fields) for line, fields in enumerate(jobs, 1))
    return await Import(connection, **options).run(records)


async def exported(connection: asyncpg.Connection, fmt: str = "jsonl") -> bytes:
    chunks: list[bytes] = []

    async def sink(chunk: bytes) -> None:
        chunks.append(chunk)

    await export_jobs(connection, sink, fmt=fmt)
    return b"".join(chunks)


async def table(connection: asyncpg.Connection) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await connection.fetch(ALL)]


async def keys(connection: asyncpg.Connection) -> list[str]:
    return [row["key"] for row in await connection.fetch("select key from mainspring.jobs order by key")]


async def log_rows(connection: asyncpg.Connection) -> int:
    return int(await connection.fetchval("select count(*) from mainspring.job_changes"))


def counts(report: ImportReport) -> tuple[int, int, int, int]:
    return report.inserted, report.updated, report.unchanged, report.bad


def problems(report: ImportReport) -> dict[int, str]:
    return {line: str(problem) for line, problem in report.problems}


async def test_jobs_are_updated_by_id_or_else_by_key_and_inserted_otherwise(
    connection: asyncpg.Connection,
) -> None:
    assert counts(await imported(connection, {"id": 7, "every_s": 5}, {"key": "a", "every_s": 6})) == (
        2,
        0,
        0,
        0,
    )
    report = await imported(
        connection, {"id": 7, "key": "seven", "every_s": 50}, {"key": "a", "every_s": 60}, {"every_s": 70}
    )
    assert counts(report) == (1, 2, 0, 0)
    rows = {row[1]: (row[0], row[2]) for row in await table(connection)}
    assert rows["seven"] == (7, 50)
    assert rows["a"][1] == 60
    assert rows[None][1] == 70


async def test_an_import_repeated_changes_nothing_and_appends_nothing(connection: asyncpg.Connection) -> None:
    jobs: list[dict[str, Any]] = [
        {"id": 1, "every_s": 5, "payload": {"a": 1}},
        {"key": "b", "cron": "@daily", "tz": "Asia/Tokyo"},
    ]
    await imported(connection, *jobs)
    before = await log_rows(connection)
    assert counts(await imported(connection, *jobs)) == (0, 0, 2, 0)
    assert await log_rows(connection) == before


async def test_a_row_is_the_whole_definition_but_a_pause_outlives_it(connection: asyncpg.Connection) -> None:
    await imported(connection, {"key": "a", "every_s": 5, "route": "x", "enabled": False, "payload": {}})
    await imported(connection, {"key": "a", "every_s": 6})
    (row,) = await table(connection)
    assert Definition(*row) == Definition(id=row[0], key="a", every_s=6, enabled=False)
    await imported(connection, {"key": "a", "every_s": 6, "enabled": True})
    assert (await table(connection))[0][14] is True


async def test_a_payload_that_is_equal_but_spelled_otherwise_is_a_change(
    connection: asyncpg.Connection,
) -> None:
    await connection.execute("insert into mainspring.jobs (key, every_s, payload) values ('a', 5, '1.0')")
    assert counts(await imported(connection, {"key": "a", "every_s": 5, "payload": 1})) == (0, 1, 0, 0)


async def test_one_bad_row_keeps_all_from_being_written(connection: asyncpg.Connection) -> None:
    report = await imported(connection, {"every_s": 5}, {"every_s": 0}, {"every_s": 5, "route": "a b"})
    assert report.refused
    assert not report.written
    assert list(problems(report)) == [2, 3]
    assert await table(connection) == []


async def test_bad_rows_are_left_out_where_that_is_asked_for(connection: asyncpg.Connection) -> None:
    report = await imported(connection, {"key": "a", "every_s": 5}, {"every_s": 0}, skip_bad=True)
    assert counts(report) == (1, 0, 0, 1)
    assert await keys(connection) == ["a"]


async def test_only_so_many_bad_rows_are_named_but_all_are_counted(connection: asyncpg.Connection) -> None:
    report = await imported(connection, *({"every_s": 0} for _ in range(250)), problems_max=3)
    assert report.bad == 250
    assert list(problems(report)) == [1, 2, 3]


async def test_rows_that_meet_in_the_file_are_told_by_line(connection: asyncpg.Connection) -> None:
    jobs: list[dict[str, Any]] = [
        {"id": 1, "every_s": 5},
        {"key": "a", "every_s": 5},
        {"id": 1, "every_s": 6},
        {"key": "a", "every_s": 6},
        {"id": 1, "key": "a", "every_s": 7},
    ]
    report = await imported(connection, *jobs)
    assert problems(report)[3] == "id: '1' stands on line 1 already"
    assert problems(report)[4] == "key: 'a' stands on line 2 already"
    assert report.bad == 3
    assert counts(await imported(connection, *jobs, skip_bad=True)) == (2, 0, 0, 3)
    assert [row[2] for row in await table(connection)] == [5, 5]


async def test_a_key_that_another_job_has_is_told_by_line(connection: asyncpg.Connection) -> None:
    await imported(connection, {"id": 1, "key": "a", "every_s": 5}, {"id": 2, "key": "b", "every_s": 5})
    report = await imported(
        connection, {"id": 3, "key": "a", "every_s": 5}, {"id": 2, "key": "b", "every_s": 6}
    )
    assert problems(report) == {1: "key: 'a' belongs to job 1: give that id, or another key"}


async def test_a_job_named_by_id_on_one_line_and_by_key_on_another_is_told(
    connection: asyncpg.Connection,
) -> None:
    await imported(connection, {"id": 1, "key": "a", "every_s": 5})
    report = await imported(connection, {"id": 1, "key": "b", "every_s": 6}, {"key": "a", "every_s": 7})
    assert problems(report) == {2: "key: 'a' is job 1, which line 1 gives by id"}


async def test_a_dry_run_counts_and_writes_nothing(connection: asyncpg.Connection) -> None:
    await imported(connection, {"key": "a", "every_s": 5}, {"key": "b", "every_s": 5})
    before = await table(connection), await log_rows(connection)
    report = await imported(
        connection, {"key": "a", "every_s": 6}, {"key": "b", "every_s": 5}, {"every_s": 7}, dry_run=True
    )
    assert counts(report) == (1, 1, 1, 0)
    assert not report.written
    assert (await table(connection), await log_rows(connection)) == before


@pytest.mark.parametrize("explicit", [1, 500, 123_456_789, 2**62 - 1])
async def test_the_identity_moves_past_ids_that_were_given(
    connection: asyncpg.Connection, explicit: int
) -> None:
    await imported(connection, {"id": explicit, "every_s": 5}, {"key": "drawn", "every_s": 5})
    drawn = await connection.fetchval("insert into mainspring.jobs (every_s) values (5) returning id")
    assert [row[0] for row in await table(connection)] == [explicit, explicit + 1, drawn]
    assert drawn == explicit + 2


async def test_the_identity_does_not_follow_ids_that_are_hashes(connection: asyncpg.Connection) -> None:
    await imported(connection, {"id": 2**63 - 1, "every_s": 5}, {"id": -5, "every_s": 5}, {"every_s": 5})
    assert [row[0] for row in await table(connection)] == [-5, 1, 2**63 - 1]


async def test_the_identity_never_steps_back(connection: asyncpg.Connection) -> None:
    await imported(connection, {"id": 100, "every_s": 5})
    await imported(connection, {"id": 50, "every_s": 5})
    assert await connection.fetchval("insert into mainspring.jobs (every_s) values (5) returning id") == 101


async def test_jobs_without_an_id_are_numbered_in_the_order_of_the_file(
    connection: asyncpg.Connection,
) -> None:
    await imported(connection, *({"key": f"k{number:04}", "every_s": 5} for number in range(3000)))
    rows = await table(connection)
    assert [row[1] for row in rows] == sorted(row[1] for row in rows)


async def test_a_deletion_meanwhile_is_noticed_and_nothing_is_written(
    connection: asyncpg.Connection, database: str
) -> None:
    await imported(connection, {"key": "a", "every_s": 5})
    other = await asyncpg.connect(database)
    entered = []

    def delete_behind_the_back(report: ImportReport) -> None:
        entered.append(report.phase)

    work = Import(connection, progress=delete_behind_the_back)
    original = work._write

    async def write() -> None:
        await other.execute("delete from mainspring.jobs")
        await original()

    work._write = write  # type: ignore[method-assign]
    with pytest.raises(TableMoved, match="import the file again"):
        await work.run([Record(1, {"key": "a", "every_s": 6}), Record(2, {"key": "b", "every_s": 6})])
    await other.close()
    assert entered[-2:] == ["checking", "writing"]
    assert await table(connection) == []


async def test_an_import_that_is_stopped_halfway_leaves_nothing(
    connection: asyncpg.Connection, database: str
) -> None:
    def endless() -> Iterable[Record]:
        line = 0
        while True:
            line += 1
            yield Record(line, {"every_s": 5})

    halfway = asyncio.Event()
    work = Import(connection, progress=lambda report: halfway.set() if report.read >= 20_000 else None)
    task = asyncio.create_task(work.run(endless()))
    await halfway.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    witness = await asyncpg.connect(database)
    assert await table(witness) == []
    await witness.close()


async def test_a_constraint_of_the_users_own_refuses_the_whole_import(connection: asyncpg.Connection) -> None:
    await connection.execute("alter table mainspring.jobs add check (route <> 'forbidden')")
    with pytest.raises(asyncpg.CheckViolationError):
        await imported(connection, {"every_s": 5}, {"every_s": 5, "route": "forbidden"})
    assert await table(connection) == []


@pytest.mark.parametrize(("fmt", "read"), [("jsonl", read_json_lines), ("csv", read_csv)])
async def test_what_is_exported_is_imported_unchanged(
    connection: asyncpg.Connection, fmt: str, read: Any
) -> None:
    await connection.execute(ODD_JOBS)
    before = await table(connection)
    file = await exported(connection, fmt)

    again = await Import(connection).run(read(io.BytesIO(file)))
    assert counts(again) == (0, 0, 5, 0), problems(again)

    await connection.execute("truncate mainspring.jobs")
    restored = await Import(connection).run(read(io.BytesIO(file)))
    assert counts(restored) == (5, 0, 0, 0), problems(restored)
    assert await table(connection) == before
    assert await exported(connection, fmt) == file


async def test_an_export_says_one_json_object_a_line_and_leaves_defaults_out(
    connection: asyncpg.Connection,
) -> None:
    await connection.execute("insert into mainspring.jobs (id, every_s) values (1, 5)")
    await connection.execute(
        "insert into mainspring.jobs (id, key, every_s, payload) values (2, E'\\\\', 5, 'null')"
    )
    assert [json.loads(line) for line in (await exported(connection)).splitlines()] == [
        {"id": 1, "every_s": 5, "enabled": True},
        {"id": 2, "key": "\\", "every_s": 5, "enabled": True, "payload": None},
    ]


async def test_an_empty_table_is_an_empty_file_and_back(connection: asyncpg.Connection) -> None:
    assert await exported(connection) == b""
    assert (
        counts(await Import(connection).run(read_csv(io.BytesIO(await exported(connection, "csv")))))
        == (0,) * 4
    )


async def test_an_export_names_the_jobs_that_cannot_come_back(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "insert into mainspring.jobs (id, cron, tz) values (1, '@daily', 'UTC'), (2, '61 * * * *', 'UTC'), "
        "(3, '61 * * * *', 'UTC'), (4, '@daily', 'Mars/Olympus')"
    )
    unfit = {example: (jobs, reason) for jobs, example, reason in await unfit_crons(connection)}
    assert unfit.keys() == {2, 4}
    assert unfit[2][0] == 2
    assert "Mars/Olympus" in unfit[4][1]


@pytest.mark.slow
async def test_a_large_import_runs_in_flat_memory(connection: asyncpg.Connection) -> None:
    def resident_bytes() -> int:
        with open("/proc/self/statm", encoding="ascii") as statm:  # no disk behind it
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def fleet(jobs: int) -> Iterable[Record]:
        return (
            Record(n, {"key": f"job-{n}", "every_s": 60, "payload": {"url": "x" * 200}}) for n in range(jobs)
        )

    await Import(connection, dry_run=True).run(fleet(2000))
    before = resident_bytes()
    report = await Import(connection).run(fleet(100_000))
    assert report.inserted == 100_000
    # The fleet is 25 MB as text.
    assert resident_bytes() - before < 12_000_000
