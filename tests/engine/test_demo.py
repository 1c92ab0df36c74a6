"""The demo: the sample fleet, the view, and the whole of it as a user starts it."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree

import asyncpg
import pytest
from rich.console import Console

from mainspring.changelog_tailer import schema
from mainspring.engine.cli.demo_fleet import MIX, fleet, sow
from mainspring.engine.cli.demo_view import DemoWatch, Pace, page, plain_line, sparkline, summary
from mainspring.engine.embedded.folder import ServersFolder
from mainspring.engine.node import NodeStatus
from mainspring.engine.publishing.acknowledged import Acknowledged

NOW = 1_764_500_000


def status(**changed: object) -> NodeStatus:
    usual = {"ready": True, "postgres_connected": True, "broker_connected": True, "jobs": 1000}
    return NodeStatus(**(usual | changed))  # type: ignore[arg-type]


def test_the_fleet_has_exactly_the_jobs_asked_for_and_no_key_twice() -> None:
    for jobs in (1, 7, 100, 1000, 12_345):
        assert len({sample.key for sample in fleet(jobs, NOW)}) == jobs


def test_the_fleet_has_the_intervals_of_the_mix() -> None:
    counts = Counter(sample.every_s for sample in fleet(100_000, NOW))
    for share, every_s in MIX:
        assert counts[every_s] == pytest.approx(share * 1000, abs=20)


def test_a_fleet_of_100000_gives_three_to_five_thousand_runs_a_second() -> None:
    rate = sum(1 / sample.every_s for sample in fleet(100_000, NOW) if sample.every_s)
    assert 3000 < rate < 5000


def test_the_one_shots_lie_shortly_ahead() -> None:
    ahead = [sample.run_at.timestamp() - NOW for sample in fleet(1000, NOW) if sample.run_at]
    assert ahead
    assert all(0 < seconds <= 60 for seconds in ahead)


async def count(connection: asyncpg.Connection, what: str) -> int:
    return int(await connection.fetchval(f"select count(*) from mainspring.{what}"))


async def test_sowing_twice_changes_nothing_and_leaves_jobs_of_others_alone(database: str) -> None:
    await schema.init(database)
    connection = await asyncpg.connect(database)
    await connection.execute("insert into mainspring.jobs (key, every_s) values ('mine', 5)")
    await sow(connection, 500, NOW)
    assert await count(connection, "jobs") == 501
    logged = await count(connection, "job_changes")
    await sow(connection, 500, NOW)
    assert (await count(connection, "jobs"), await count(connection, "job_changes")) == (501, logged)
    await sow(connection, 200, NOW)
    assert await count(connection, "jobs where key = 'mine'") == 1
    assert await count(connection, "jobs") == 201
    await connection.close()


def test_the_pace_is_the_growth_of_the_counter_over_the_time_between_looks() -> None:
    pace = Pace()
    pace.observe(10.0, 100)
    assert pace.per_s == 0
    pace.observe(10.5, 150)
    assert pace.per_s == pytest.approx(100)


def test_bars_are_as_tall_as_their_values() -> None:
    assert sparkline([0, 4, 8]) == " ▄█"
    assert sparkline([0, 0]) == "  "
    assert sparkline([]) == ""


def test_the_plain_line_names_counts_lateness_and_troubles() -> None:
    recent = [Acknowledged("7@1764500000", "mainspring.run.a", 0.012)]
    line = plain_line(status(acknowledged=1234, lateness_p99_s=0.03, recent=recent), Pace())
    assert "runs 1,234" in line
    assert "p99 30 ms" in line
    assert line.endswith("last 7@1764500000 mainspring.run.a")
    away = plain_line(status(postgres_connected=False, broker_connected=False, quarantined=2), Pace())
    assert "Postgres is away" in away
    assert "NATS is away" in away
    assert "2 jobs are quarantined" in away


def test_the_page_shows_the_newest_run_first_and_where_to_go_on() -> None:
    console = Console(width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    recent = [Acknowledged(f"{number}@1764500000", "run.a", 0.01) for number in range(20)]
    console.print(page(status(recent=recent), Pace(), [("metrics", "http://127.0.0.1:1/metrics")]))
    text = console.export_text()
    assert text.index("19@1764500000") < text.index("18@1764500000")
    assert " 7@1764500000" not in text
    assert "http://127.0.0.1:1/metrics" in text


def test_the_summary_is_one_line() -> None:
    assert summary(status(acknowledged=5)) == (
        "5 runs of 1,000 jobs acknowledged by JetStream, 0 duplicates; lateness p50 0 ms, p99 0 ms"
    )


async def test_the_watch_looks_until_it_is_closed_and_leaves_the_screen_in_order() -> None:
    looked = asyncio.Event()

    class Recorder:
        closed = False

        def show(self, status: NodeStatus, pace: Pace) -> None:
            assert (status.jobs, pace.per_s) == (1000, 0)
            looked.set()

        def close(self) -> None:
            self.closed = True

    view = Recorder()
    watch = DemoWatch(status, view, period_s=0.01)
    running = asyncio.create_task(watch.run())
    await asyncio.wait_for(looked.wait(), 5)
    await watch.aclose()
    await asyncio.wait_for(running, 5)
    assert view.closed


@pytest.fixture(scope="module")
def demo_folder() -> Iterator[Path]:
    """A working directory for demos, shared: the second one starts from what the first one left."""
    folder = Path(tempfile.mkdtemp(prefix="mainspring-test-"))
    folder.chmod(0o755)
    yield folder
    rmtree(folder)


@contextmanager
def demo(folder: Path, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
    """A demo as another process; killed in the end should it still run, so that no other test meets it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mainspring.engine", "demo", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def line_with_runs(process: "subprocess.Popen[str]") -> str:
    """The first line that tells of an acknowledged run."""
    assert process.stdout is not None
    for line in process.stdout:
        if re.search(r"runs [1-9].* last \d+@\d+", line):
            return line
    raise AssertionError("the demo ended without a run")


def test_the_demo_shows_runs_and_ends_by_itself_and_does_so_twice(demo_folder: Path) -> None:
    for _ in range(2):
        with demo(demo_folder, "--jobs", "300", "--seconds", "4") as process:
            assert line_with_runs(process)
            out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        assert re.search(r"[1-9]\d* runs of 300 jobs acknowledged by JetStream, 0 duplicates", out)
        assert not ServersFolder(demo_folder / ".mainspring").kept()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_demo_in_order_and_stops_the_servers(
    demo_folder: Path, number: signal.Signals
) -> None:
    with demo(demo_folder, "--jobs", "300") as process:
        line_with_runs(process)
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "runs of 300 jobs acknowledged" in out.splitlines()[-1]
    assert not ServersFolder(demo_folder / ".mainspring").kept()
