"""The short form of `mainspring loadtest failover`: nodes end and are replaced, and verify is content."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import mainspring

from mainspring.loadtest.failover import figures
from mainspring.loadtest.failover_rounds import Round

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(server_folder: Path) -> Iterator[Path]:
    yield server_folder / "failover"
    shutil.rmtree(server_folder / "failover", ignore_errors=True)


@pytest.mark.parametrize("mode", ["kill", "standby", "both"])
def test_every_run_is_in_the_stream_once_whatever_happens_to_the_nodes(mode: str, folder: Path) -> None:
    flags = ("--jobs", "2000", "--rounds", "1", "--mode", mode, "--gap-s", "2", "6")
    ended = mainspring("loadtest", "failover", *flags, "--embedded", str(folder), "--json")
    assert ended.status == 0, ended.out + ended.err
    (found,) = ended.json_lines()
    assert (found["missing"], found["duplicate"], found["unexpected"]) == (0, 0, 0), json.dumps(found)
    assert found["owed"] > 500
    assert (found["first_run_s_p50"] is None) == (mode == "both")


def test_a_drill_that_is_ended_takes_its_nodes_with_it(folder: Path) -> None:
    command = [sys.executable, "-m", "mainspring.engine", "loadtest", "failover", "--mode", "standby"]
    with subprocess.Popen([*command, "--jobs", "200", "--rounds", "50", "--embedded", str(folder)]) as drill:
        until(lambda: (folder / "node.log").exists() and "standby: " in (folder / "node.log").read_text())
        assert len(at_work_in(folder)) >= 2
        drill.send_signal(signal.SIGTERM)
        assert drill.wait(60) != 0
    until(lambda: not at_work_in(folder))


def until(holds: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def at_work_in(folder: Path) -> list[str]:
    """Processes whose working directory it is, as it is that of the nodes of a drill."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").resolve() == folder.resolve():
                found.append(process.name)
    return found


def test_no_figure_is_made_up_where_nothing_was_played() -> None:
    played: list[Round] = []
    found = figures(played)
    assert (found["rounds"], found["owed"], found["first_run_s_p50"]) == (0, 0, None)
