"""The short form of `mainspring loadtest broker`: NATS and the way to it fail, and verify is content."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import mainspring

from mainspring.engine.verify.report import Report
from mainspring.loadtest.broker import WEIGHT_MIN, figures
from mainspring.loadtest.broker_rounds import Kind, Memory, Round

JOBS = 20_000
PAYLOAD_BYTES = 4000

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(server_folder: Path) -> Iterator[Path]:
    yield server_folder / "broker"
    shutil.rmtree(server_folder / "broker", ignore_errors=True)


def test_every_run_is_in_the_stream_once_whatever_happens_to_the_broker(folder: Path) -> None:
    flags = ("--jobs", str(JOBS), "--payload-bytes", str(PAYLOAD_BYTES), "--embedded", str(folder))
    ended = mainspring("loadtest", "broker", "--short", *flags, "--json")
    assert ended.status == 0, ended.out + ended.err
    (found,) = ended.json_lines()
    assert (found["missing"], found["duplicate"], found["unexpected"]) == (0, 0, 0), json.dumps(found)
    assert [one["kind"] for one in found["played"]] == list(Kind)
    assert all(one["owed"] > 1000 for one in found["played"])
    assert found["memory_flat"] is True


def test_a_node_that_keeps_the_frame_of_every_run_is_not_flat() -> None:
    before, frames = 100_000_000, 2 * WEIGHT_MIN
    report = Report(0, 10, owed=5)
    played = [Round(Kind.KILL, 1, 1.0, 2.0, 0, report)]
    leaking = figures(played, [Memory(before, before + frames, frames), Memory(before, before, 10)])
    assert leaking["memory_flat"] is False
    assert figures(played, [Memory(before, before + frames // 4, frames)])["memory_flat"] is True
    assert figures(played, [Memory(before, before, WEIGHT_MIN - 1)])["memory_flat"] is None
