"""`mainspring explain` and `jobs boost` as a user types them, against a real Postgres."""

import asyncio
import json
from typing import Any

import asyncpg
import pytest
from command_line import Ended, mainspring

from mainspring.changelog_tailer import schema
from mainspring.changelog_tailer.pruning import prune
from mainspring.engine.clock import SystemClock
from mainspring.wheel import Schedule, next_fires, phase_of, shard_of

HOUR = 3600


@pytest.fixture(autouse=True)
def dsn(database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The database that the commands find in their environment."""
    asyncio.run(schema.init(database))
    monkeypatch.setenv("MAINSPRING_POSTGRES_DSN", database)
    return database


def done(*arguments: str) -> Ended:
    ended = mainspring(*arguments)
    assert ended.status == 0, ended.err
    return ended


def explained(*arguments: str) -> dict[str, Any]:
    return dict(json.loads(done("explain", *arguments, "--json").out))


def execute(dsn: str, *statements: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(dsn)
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    asyncio.run(run())


def age(dsn: str, seconds: int) -> None:
    """The jobs, and what the log says of them, were made so much earlier."""
    earlier = f"- interval '{seconds} s'"
    execute(
        dsn,
        "alter table mainspring.jobs disable trigger user",
        f"update mainspring.jobs set created_at = created_at {earlier}, updated_at = updated_at {earlier}",
        "alter table mainspring.jobs enable trigger user",
        f"update mainspring.job_changes set changed_at = changed_at {earlier}",
    )


def test_a_job_is_explained_by_its_key(dsn: str) -> None:
    done("jobs", "add", "--id", "42", "--key", "report", "--cron", "0 9 * * MON-FRI", "--tz", "Asia/Tokyo")
    age(dsn, 30 * 86_400)
    now = int(SystemClock().now())
    told = explained("report")
    assert (told["id"], told["key"], told["state"], told["kind"]) == (42, "report", "on", "cron")
    assert told["shard"] == f"{shard_of(42)} of 256"
    assert told["in_words"] == "at 09:00 on Monday to Friday"
    schedule = Schedule(cron="0 9 * * MON-FRI", tz="Asia/Tokyo")
    runs = [run["epoch"] for run in told["past"] + told["next"]]
    assert runs == next_fires(schedule, 42, runs[0] - 1, 6)
    assert runs[2] <= now < runs[3] + 5
    assert all(run["local"].startswith(run["utc"][:8]) and "T09:00:" in run["local"] for run in told["next"])
    assert all(run["local"].endswith("+09:00") for run in told["next"])


def test_people_read_it_in_lines() -> None:
    done("jobs", "add", "--id", "42", "--every", "60")
    ended = done("explain", "42", "--at", "2026-01-01T00:00:00Z", "--count", "1")
    lines = dict(line.split(maxsplit=1) for line in ended.out.splitlines() if not line.startswith(" "))
    assert lines["shard"] == "181 of 256"
    assert lines["schedule"] == "every 60 s"
    assert "no run" in ended.out
    assert "the job was not there yet" in ended.out


def test_what_held_at_the_instant_is_read_from_the_change_log(dsn: str) -> None:
    done("jobs", "add", "--id", "7", "--every", "60", "--phase", "0", "--no-first-run-soon")
    age(dsn, 10 * HOUR)
    done("jobs", "edit", "7", "--every", "7200")
    age(dsn, HOUR)
    done("jobs", "pause", "7")
    this_minute = int(SystemClock().now()) // 60 * 60
    assert explained("7", "--at", str(this_minute - 3 * HOUR))["at"]["due"], "it ran every minute then"
    later = [this_minute - 60 * minutes for minutes in (20, 30)]
    due = [explained("7", "--at", str(at))["at"]["due"] for at in later]
    assert due == [at % 7200 == 0 for at in later], "it ran every two hours then"
    assert explained("7", "--at", str(this_minute + HOUR))["at"]["reasons"][0] == "the job was paused then"
    assert explained("7", "--at", str(this_minute - 20 * HOUR))["at"]["reasons"] == [
        "the job was not there yet: it was created later"
    ]


def test_what_a_pruned_log_no_longer_tells_is_said_to_be_uncertain(dsn: str) -> None:
    done("jobs", "add", "--id", "7", "--every", "60", "--phase", "0", "--no-first-run-soon")
    for every_s, passed_s in (("7200", 30 * HOUR), ("3600", 10 * HOUR), ("1800", HOUR)):
        age(dsn, passed_s)
        done("jobs", "edit", "7", "--every", every_s)
    this_hour = int(SystemClock().now()) // HOUR * HOUR

    def uncertain(hours_ago: int) -> list[str]:
        told = explained("7", "--at", str(this_hour - hours_ago * HOUR))["at"]["reasons"]
        return [reason for reason in told if reason.startswith("not certain")]

    assert [uncertain(hours_ago) for hours_ago in (5, 20, 38)] == [[], [], []], "all of the log is there"
    asyncio.run(prune(dsn, [], keep_s=2 * HOUR))
    # What is left: the edits of an hour ago and of now. The oldest one left hides the earlier ones.
    assert uncertain(5) == []
    (reason,) = uncertain(20)
    assert "tells nothing before its change at" in reason
    assert len(uncertain(38)) == 1


def test_a_new_job_is_told_what_is_known_of_its_first_run(dsn: str) -> None:
    done("jobs", "add", "--id", "7", "--every", "3600", "--phase", "0")
    after_s = 1 + phase_of(7, 5)
    told = explained("7", "--at", str(int(SystemClock().now()) + 2))
    assert f"{after_s} s after the second in which it was inserted (changed_at" in told["first_run"]
    assert any(reason.startswith("first run soon: ") for reason in told["at"]["reasons"])
    age(dsn, HOUR)
    told = explained("7", "--at", str(int(SystemClock().now())))
    assert "first_run" not in told
    assert not any("first run" in reason for reason in told["at"]["reasons"])


def test_a_quarantined_job_is_told_so(dsn: str) -> None:
    execute(dsn, "insert into mainspring.jobs (id, cron) values (5, '61 * * * *')")
    told = explained("5", "--at", "2026-01-01T00:00:00Z")
    assert told["state"].startswith("quarantined: cron: minute: '61'")
    assert told["next"] == []


def test_an_unknown_job_and_a_bad_instant_fail_by_name() -> None:
    assert mainspring("explain", "nobody").status == 1
    assert "nobody" in mainspring("explain", "nobody").err
    assert mainspring("explain", "1", "--at", "noon").status == 2


def test_a_boost_makes_a_job_fast_for_a_while() -> None:
    done("jobs", "add", "--id", "9", "--key", "web-1", "--every", "3600", "--no-first-run-soon")
    now = int(SystemClock().now())
    ended = done("jobs", "boost", "web-1", "--every", "5s", "--for", "30m")
    assert ended.out.startswith("boosted until 20")
    row = json.loads(done("jobs", "show", "web-1", "--json").out)
    assert row["boost_every_s"] == 5
    fast = [run for run in explained("9", "--count", "500")["next"] if run["epoch"] < now + 1800]
    assert 350 <= len(fast) <= 361
    assert "every 5 s" in explained("9")["boost"]
    done("jobs", "edit", "web-1", "--clear", "boost_every_s", "--clear", "boost_until")
    assert json.loads(done("jobs", "show", "web-1", "--json").out)["boost_until"] is None


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--every", "0", "--for", "1h"], "--every"),
        (["--every", "5", "--for", "soon"], "--for"),
        (["--every", "5"], "--for"),
    ],
)
def test_a_bad_boost_is_wrong_usage(flags: list[str], told: str) -> None:
    done("jobs", "add", "--id", "9", "--every", "3600")
    ended = mainspring("jobs", "boost", "9", *flags)
    assert ended.status == 2
    assert told in ended.err


def test_a_one_shot_cannot_be_boosted() -> None:
    done("jobs", "add", "--id", "9", "--run-at", "2100-01-01T00:00:00Z")
    ended = mainspring("jobs", "boost", "9", "--every", "5", "--for", "1h")
    assert ended.status == 2
    assert "a one-shot cannot be boosted" in ended.err
