"""The load test of the wheel: the fleet it measures with, its phases apart, and what it prints."""

from collections.abc import Callable

import numpy as np
import pytest
from command_line import Ended, mainspring
from failing_phases import dying, raising
from numpy.typing import NDArray

from mainspring.loadtest.apart import PhaseFailed, run_apart
from mainspring.loadtest.fleet import (
    MIX,
    Fleet,
    intervals,
    open_wheel,
    payload_bytes,
    replaced_in,
)
from mainspring.loadtest.machine import huge_area
from mainspring.loadtest.memory_walk import chained, scattered
from mainspring.loadtest.plan import Plan
from mainspring.wheel import Frames

IDS = np.arange(-20_000, 80_000)
PROMISED = {
    "jobs", "bytes_per_job", "bytes_per_job_after_edits", "touch_s", "load_s", "load_2_threads_s", "rearm_ns",
    "fire_ns", "huge_pages", "tick_p50_ms", "tick_p999_ms", "lock_hold_p999_us", "herd_s", "edit_ns",
    "edit_batch_ns", "edit_grouped_ns", "delete_ns", "lookup_ns", "watchdog_shard_ms", "memory_chain_ns",
    "memory_random_ns",
}  # fmt: skip


def loadtest(*flags: str) -> Ended:
    return mainspring("loadtest", "wheel", *flags)


def test_every_promised_figure_is_measured_in_one_run() -> None:
    ended = loadtest("--jobs", "3000", "--ticks", "20", "--simulated-s", "20", "--json")
    assert ended.status == 0, ended.err
    (figures,) = ended.json_lines()
    assert {name for name in PROMISED if figures[name] is None} == set()
    assert figures["jobs"] == 3000
    assert figures["bytes_per_job"] >= 32 + 40
    assert figures["edits_per_s"] > 0


def test_one_phase_alone_gives_a_table_of_its_figures() -> None:
    ended = loadtest("--jobs", "3000", "--uuid-keys", "--only", "herd", "--only", "watchdog")
    assert ended.status == 0, ended.err
    assert "herd_s" in ended.out
    assert "watchdog_shard_ms" in ended.out
    assert "rearm_ns" not in ended.out


def test_an_unknown_phase_is_refused_with_the_known_ones() -> None:
    ended = loadtest("--only", "hurd")
    assert ended.status == 2
    assert "herd" in ended.err


def test_a_phase_that_raises_or_is_killed_fails_by_name() -> None:
    shares: list[float] = []
    with pytest.raises(PhaseFailed, match="no room for 7 jobs"):
        run_apart(raising, Plan(7), shares.append)
    assert shares == [0.5]
    with pytest.raises(PhaseFailed, match="dying ended with status -9"):
        run_apart(dying, Plan(7), shares.append)


def test_the_fleet_has_the_mix() -> None:
    drawn = intervals(IDS)
    for every_s, share in MIX:
        assert np.mean(drawn == every_s) == pytest.approx(share, abs=0.01)


def test_a_turn_replaces_a_fifth_and_keeps_the_mean_size() -> None:
    turns = [replaced_in(IDS, turn) for turn in (1, 2)]
    assert [np.mean(turn) for turn in turns] == pytest.approx([0.2, 0.2], abs=0.01)
    assert np.mean(turns[0] & turns[1]) == pytest.approx(0.04, abs=0.01)
    assert np.mean(payload_bytes(IDS, 1)) == pytest.approx(40, abs=0.5)


def test_edits_turn_by_turn_end_where_the_fresh_load_of_the_same_begins() -> None:
    fleet = Fleet(2000, uuid_keys=True)
    edited, fresh = open_wheel(), open_wheel()
    edited.apply(fleet.rows(0, 2000), fleet.texts)
    for turn in range(1, 6):
        edited.apply(fleet.replaced(0, 2000, turn), fleet.texts)
    fresh.apply(fleet.rows_after(0, 2000, 5), fleet.texts)
    runs = []
    for wheel in (edited, fresh):
        frames = Frames(capacity=2**20)
        assert wheel.drain(wheel.now + 1, wheel.now + 1, frames)
        runs.append(sorted(bytes(frames.frame(i)).split(b"\r\n", 1)[1] for i in range(len(frames))))
    assert runs[0] == runs[1] != []


def walked(state: int, reads: int) -> int:
    for _ in range(reads):
        state = (state * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % 2**64
    return state


@pytest.mark.parametrize("walk", [chained, scattered])
def test_a_walk_takes_as_many_steps_as_it_is_asked_for(
    walk: Callable[[NDArray[np.uint64], int], int],
) -> None:
    area = huge_area(2**22)
    assert (area.nbytes, area.ctypes.data % 2**21, int(area.sum())) == (2**22, 0, 0)
    for reads in (0, 1, 1000):
        assert walk(area, reads) == walked(1, reads)
    with pytest.raises(ValueError, match="two lines"):
        walk(area[:15], 1)


def test_a_chained_walk_goes_where_what_it_reads_tells_it() -> None:
    area = np.full(2**10, 5, np.uint64)
    assert chained(area, 1) == walked(1 + 5, 1)
    assert scattered(area, 1) == walked(1, 1) + 5
