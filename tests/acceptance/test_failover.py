"""The short form of `mainspring loadtest failover`: nodes end and are replaced, and verify is content."""

import json
import shutil
from collections.abc import Iterator
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


def test_no_figure_is_made_up_where_nothing_was_played() -> None:
    played: list[Round] = []
    found = figures(played)
    assert (found["rounds"], found["owed"], found["first_run_s_p50"]) == (0, 0, None)
