"""`mainspring jobs ...` as a user types it, against a real Postgres."""

import asyncio
import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from command_line import Ended, mainspring

from mainspring.changelog_tailer import schema
from mainspring.engine.clock import SystemClock
from mainspring.wheel import Schedule, next_fires

REAL_FILE = Path(__file__).parents[1] / "data" / "ci_periodics.jsonl"


@pytest.fixture(autouse=True)
def dsn(database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The database that the commands find in their environment."""
    asyncio.run(schema.init(database))
    monkeypatch.setenv("MAINSPRING_POSTGRES_DSN", database)
    return database


def jobs(*arguments: str, stdin: bytes = b"") -> Ended:
    return mainspring("jobs", *arguments, stdin=stdin)


def done(*arguments: str, stdin: bytes = b"") -> Ended:
    ended = jobs(*arguments, stdin=stdin)
    assert ended.status == 0, ended.err
    return ended


def shown(job: str) -> dict[str, Any]:
    (row,) = done("show", job, "--json").json_lines()
    return dict(row)


def execute(dsn: str, statement: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(dsn)
        await connection.execute(statement)
        await connection.close()

    asyncio.run(run())


def test_add_prints_the_new_row_and_sets_what_it_was_told() -> None:
    schedule = ("--every", "1m30s", "--phase", "7", "--starts-at", "2026-01-01T00:00:00Z")
    rest = ("--catch-up", "latest", "--route", "checks.http", "--payload", '{"n": 1.10}')
    added = done("add", "--key", "web-1", *schedule, *rest, "--json")
    assert '"payload": {"n": 1.10}' in added.out
    (row,) = added.json_lines()
    assert (row["every_s"], row["phase_s"], row["catch_up"], row["route"]) == (90, 7, "latest", "checks.http")
    assert row["starts_at"] == "2026-01-01T00:00:00Z"
    assert row["created_at"].endswith("Z")
    assert shown("web-1").items() >= row.items()


def test_add_lets_a_repeating_job_run_soon_unless_told_otherwise() -> None:
    assert done("add", "--every", "5", "--json").json_lines()[0]["first_run_soon"] is True
    assert done("add", "--cron", "@daily", "--json").json_lines()[0]["first_run_soon"] is True
    assert (
        done("add", "--every", "5", "--no-first-run-soon", "--json").json_lines()[0]["first_run_soon"]
        is False
    )
    assert done("add", "--run-at", "4000000000", "--json").json_lines()[0]["first_run_soon"] is False


def test_add_reads_a_payload_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('["ä"]', encoding="utf-8")
    assert done("add", "--every", "5", "--payload", f"@{tmp_path / 'p.json'}", "--json").json_lines()[0][
        "payload"
    ] == ["ä"]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], ["no schedule"]),
        (["--every", "0"], ["every_s: 0 is out of range"]),
        (["--every", "-5"], ["every_s: -5 is out of range"]),
        (["--every", "2147483648"], ["every_s: 2147483648 is out of range"]),
        (["--every", "soon"], ["every_s: 'soon' is no duration"]),
        (["--every", "5", "--cron", "@daily"], ["every_s and cron"]),
        (["--cron", "@daily", "--tz", "Mars/Olympus"], ["tz: 'Mars/Olympus'"]),
        (["--every", "5", "--route", "a\r\nb", "--key", "12"], ["route: ", "key: "]),
        (["--every", "5", "--payload", "{"], ["payload: not JSON"]),
        (["--every", "5", "--payload", "@/nowhere"], ["payload: ", "/nowhere"]),
    ],
)
def test_a_bad_flag_is_told_by_its_column_and_nothing_is_added(flags: list[str], told: list[str]) -> None:
    ended = jobs("add", *flags)
    assert ended.status == 2
    assert all(text in ended.err for text in told), ended.err
    assert done("list", "--json").out == ""


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--run-at", "2001-01-01T00:00:00Z"], ["run_at: this job has no run left, it will never run"]),
        (
            ["--every", "5", "--ends-at", "2001-01-01T00:00:00Z"],
            ["ends_at: this job has no run left, it will never run"],
        ),
        (
            ["--every", "5", "--tz", "Europe/Vienna", "--jitter", "3"],
            ["tz: has no effect on an interval job", "jitter_s: has no effect on an interval job"],
        ),
        (["--cron", "@daily", "--phase", "3"], ["phase_s: has no effect on a cron job"]),
        (["--cron", "@daily", "--tz", "Europe/Vienna", "--jitter", "3"], []),
    ],
)
def test_add_warns_of_what_will_do_nothing(flags: list[str], told: list[str]) -> None:
    ended = done("add", *flags)
    assert ended.err.splitlines() == [f"warning: {line}" for line in told]
    assert ended.out.startswith("added job ")


def test_a_one_shot_that_is_hardly_late_still_runs_and_is_no_warning() -> None:
    assert done("add", "--run-at", str(int(SystemClock().now()) - 60)).err == ""


def test_edit_warns_of_a_job_that_it_ends() -> None:
    done("add", "--every", "5", "--key", "a")
    ended = done("edit", "a", "--ends-at", "2001-01-01T00:00:00Z")
    assert ended.err == "warning: ends_at: this job has no run left, it will never run\n"


def test_edit_changes_only_what_it_is_given() -> None:
    before = done("add", "--key", "a", "--every", "60", "--payload", "[1]", "--json").json_lines()[0]
    after = done("edit", "a", "--every", "2m", "--clear", "payload", "--json").json_lines()[0]
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"every_s", "payload", "updated_at"}
    assert (after["every_s"], after["payload"]) == (120, None)


def test_edit_replaces_one_kind_of_schedule_by_another() -> None:
    done("add", "--key", "a", "--every", "60", "--phase", "3")
    row = done("edit", "a", "--cron", "0 9 * * *", "--tz", "Asia/Tokyo", "--json").json_lines()[0]
    assert (row["every_s"], row["phase_s"], row["cron"], row["tz"]) == (None, None, "0 9 * * *", "Asia/Tokyo")


def test_edit_refuses_what_leaves_no_good_job() -> None:
    done("add", "--key", "a", "--every", "60")
    assert jobs("edit", "a").status == 2
    assert jobs("edit", "a", "--every", "0").status == 2
    assert jobs("edit", "a", "--clear", "every_s").status == 2
    assert jobs("edit", "b", "--every", "5").status == 1
    assert shown("a")["every_s"] == 60


def test_pause_resume_and_remove_take_ids_and_keys() -> None:
    job_id = str(done("add", "--key", "a", "--every", "60", "--json").json_lines()[0]["id"])
    assert done("pause", "a").out == "paused a\n"
    assert done("pause", job_id).out == f"{job_id} was paused already\n"
    assert (shown("a")["enabled"], shown("a")["reason"]) == (False, "paused")
    assert done("resume", job_id).out == f"resumed {job_id}\n"
    assert done("remove", "a").out == f"removed {job_id}\n"
    ended = jobs("remove", "a")
    assert ended.status == 1
    assert "no job has the id or key a" in ended.err


def test_a_negative_id_can_be_named_after_two_dashes() -> None:
    done("add", "--id=-5", "--every", "60")
    assert done("show", "--json", "--", "-5").json_lines()[0]["id"] == -5


def test_show_tells_a_quarantined_job_instead_of_failing(dsn: str) -> None:
    execute(dsn, "insert into mainspring.jobs (id, cron) values (1, '61 * * * *')")
    row = shown("1")
    assert row["next"] == []
    assert row["reason"].startswith("quarantined: cron: minute: '61'")
    assert "none: quarantined" in done("show", "1").out
    assert "quarantined" in done("list").out


def test_list_is_aligned_filtered_and_safe_for_a_terminal(dsn: str) -> None:
    execute(
        dsn,
        r"insert into mainspring.jobs (key, every_s, route) values (E'\x1b[2Jred', 5, 'x'), ('b', 60, 'y')",
    )
    out = done("list").out
    assert "\x1b" not in out
    assert "\\x1b[2Jred" in out
    heading, *rows = out.splitlines()
    assert {row.index("every") for row in rows} == {heading.index("SCHEDULE")}
    assert [row["key"] for row in done("list", "--route", "y", "--json").json_lines()] == ["b"]
    assert len(done("list", "--limit", "1", "--json").json_lines()) == 1
    assert done("list", "--kind", "cron", "--json").out == ""


def test_the_real_file_names_its_bad_rows_and_writes_nothing() -> None:
    ended = jobs("import", str(REAL_FILE))
    assert ended.status == 1
    assert "line 48: cron: " in ended.err
    assert "never occurs" in ended.err
    assert "line 771: cron: " in ended.err
    assert "'0 22, 10 * * *'" in ended.err
    assert "2 of 824 rows are bad, nothing was written" in ended.err
    assert done("list", "--json").out == ""


def test_the_real_file_without_its_bad_rows_is_all_in_and_everything_agrees() -> None:
    ended = done("import", str(REAL_FILE), "--skip-bad")
    assert ended.out == "822 inserted, 0 updated, 0 unchanged, 2 bad left out\n"
    definitions = {row["key"]: row for row in map(json.loads, REAL_FILE.read_text("utf-8").splitlines())}
    listed = {row["key"]: row for row in done("list", "--json").json_lines()}
    assert len(listed) == 822
    requests = []
    for key, row in listed.items():
        assert {name: row[name] for name in definitions[key]} == definitions[key]
        schedule = Schedule(every_s=row["every_s"], cron=row["cron"])
        # The run listed next is one that the pure function gives, whenever it is asked.
        assert next_fires(schedule, row["id"], row["next"][0] - 1, 1) == row["next"]
        kind = "every_s" if row["every_s"] else "cron"
        requests.append({kind: row[kind], "id": row["id"], "from": row["next"][0] - 1, "count": 1})
    batch = mainspring("next", "--batch", "-", stdin="\n".join(map(json.dumps, requests)).encode())
    assert [reply["next"] for reply in batch.json_lines()] == [row["next"] for row in listed.values()]
    key = "kubevirt/project-infra:" + next(
        key.partition(":")[2] for key in listed if key.startswith("kubevirt/pro")
    )
    assert shown(key).items() >= {**definitions[key], "id": listed[key]["id"]}.items()


def test_what_export_writes_import_takes_unchanged(tmp_path: Path) -> None:
    done("import", str(REAL_FILE), "--skip-bad")
    for name in ("jobs.jsonl", "jobs.csv"):
        file = str(tmp_path / name)
        assert done("export", file).err == "822 jobs exported\n"
        assert done("import", file).out == "0 inserted, 0 updated, 822 unchanged\n"
    assert done("export").out.encode() == (tmp_path / "jobs.jsonl").read_bytes()
    assert done("export", "--format", "csv").out.encode() == (tmp_path / "jobs.csv").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.csv", "jobs.jsonl"]


def test_export_warns_of_jobs_that_cannot_come_back(dsn: str) -> None:
    execute(dsn, "insert into mainspring.jobs (id, cron) values (7, '61 * * * *')")
    ended = done("export")
    assert ended.json_lines()[0]["cron"] == "61 * * * *"
    assert "warning: job 7 cannot be imported again" in ended.err


def test_import_reads_stdin_and_reports_in_json() -> None:
    stdin = b'{"key": "a", "every_s": 5}\n{"every_s": true}\n'
    ended = jobs("import", "-", "--json", stdin=stdin)
    assert ended.status == 1
    (report,) = ended.json_lines()
    assert (report["read"], report["bad"], report["written"]) == (2, 1, False)
    assert report["problems"][0]["line"] == 2
    assert report["problems"][0]["field"] == "every_s"
    assert done("import", "-", "--skip-bad", stdin=stdin).out.startswith("1 inserted")
    assert done("import", "-", "--format", "csv", stdin=b"key,every_s\na,6\n").out.startswith(
        "0 inserted, 1 updated"
    )


def test_a_dry_run_says_what_would_be_and_leaves_it(tmp_path: Path) -> None:
    file = tmp_path / "JOBS.CSV"
    file.write_text("key,every_s\na,5\n", encoding="utf-8")
    assert done("import", str(file), "--dry-run").out == (
        "dry run, nothing written; would be 1 inserted, 0 updated, 0 unchanged\n"
    )
    assert done("list", "--json").out == ""


def test_only_so_many_bad_rows_are_printed() -> None:
    ended = jobs("import", "-", "--errors", "2", stdin=b'{"every_s": 0}\n' * 10)
    assert ended.err.count("every_s: 0") == 2
    assert "... and 8 more bad rows" in ended.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["import", "/nowhere.jsonl"], "/nowhere.jsonl"), (["import", "-", "--format", "csv"], "line 1")],
)
def test_a_file_that_cannot_be_read_fails_in_one_line(arguments: list[str], told: str) -> None:
    ended = jobs(*arguments, stdin=b"key;every_s\n")
    assert ended.status == 1
    assert told in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_database_without_the_schema_names_the_mend(dsn: str) -> None:
    execute(dsn, "drop schema mainspring cascade")
    ended = jobs("list")
    assert ended.status == 1
    assert "mainspring db init" in ended.err
