"""Hash, shard, phase, spread and grid: the compiled functions, their Python twin, and the recorded cases."""

from types import ModuleType

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from schedule_cases import PATIENT, job_ids, vectors

from mainspring.wheel import schedule, twin
from mainspring.wheel.definition import Schedule
from mainspring.wheel.errors import ScheduleError

GRID = vectors("interval_grid.jsonl")
WAYS = pytest.mark.parametrize("way", [schedule, twin], ids=["C", "Python"])


@WAYS
def test_every_recorded_phase_and_grid_instant_is_met(way: ModuleType) -> None:
    for case in GRID:
        phase = way.phase_of(case["id"], case["interval"])
        found = phase, way.interval_next(case["interval"], phase, case["anchor"], case["now"])
        assert found == (case["phase"], case["next"]), case


@WAYS
def test_the_hash_of_known_ids_is_frozen(way: ModuleType) -> None:
    known = {0: 0x34C96ACDCADB1BBB, 1: 0x9F29CB17A2A49995, 42: 0xB556806FB6D14353, -1: 0x85D136ADB773C6C9}
    assert {job_id: way.job_hash(job_id) for job_id in known} == known


@PATIENT
@given(job_ids)
def test_the_compiled_hash_is_xxh64(job_id: int) -> None:
    oracle = xxhash.xxh64_intdigest(job_id.to_bytes(8, "little", signed=True), seed=0)
    assert schedule.job_hash(job_id) == oracle
    assert schedule.shard_of(job_id) == oracle >> 56 == twin.shard_of(job_id)


@PATIENT
@given(job_ids, st.integers(0, 2**32))
def test_spread_is_the_hashes_share_of_the_window(job_id: int, window_s: int) -> None:
    assert schedule.spread_of(job_id, window_s) == twin.spread_of(job_id, window_s)
    assert 0 <= schedule.spread_of(job_id, window_s) < max(window_s, 1)


@PATIENT
@given(
    st.integers(1, 2**53),
    st.integers(0, 2**53),
    st.integers(-(2**61), 2**61),
    st.integers(-(2**61), 2**61),
)
def test_the_grid_is_the_same_in_c_and_in_python(every_s: int, phase_s: int, anchor: int, now: int) -> None:
    due = schedule.interval_next(every_s, phase_s, anchor, now)
    assert due == twin.interval_next(every_s, phase_s, anchor, now)
    assert now < due <= now + every_s
    assert (due - anchor - phase_s) % every_s == 0


@PATIENT
@given(st.integers(1, 10_000), job_ids, st.integers(-(10**10), 10**10), st.data())
def test_the_next_instant_is_the_same_asked_from_any_moment_before_it(
    every_s: int, job_id: int, now: int, data: st.DataObject
) -> None:
    plan = schedule.Plan(Schedule(every_s=every_s), job_id)
    due = plan.next(now)
    assert plan.next(data.draw(st.integers(now, due - 1))) == due


@pytest.mark.parametrize("edge", [2**31 - 1, 2**31, 2**32 - 1, 2**32, 0, -1, -(2**31)])
def test_nothing_breaks_in_1970_2038_and_2106(edge: int) -> None:
    for every_s in (1, 60, 86_400, 2**31 - 1):
        fires = schedule.next_fires(Schedule(every_s=every_s), 42, edge - 5, 4)
        assert fires == twin.next_fires(Schedule(every_s=every_s), 42, edge - 5, 4)
        assert set(np.diff(fires)) == {every_s}


def test_neighbouring_ids_use_every_phase_of_every_shard() -> None:
    seen: dict[int, set[int]] = {}
    for job_id in range(200_000):
        seen.setdefault(schedule.shard_of(job_id), set()).add(schedule.phase_of(job_id, 60))
    assert len(seen) == 256
    assert min(map(len, seen.values())) == 60


@pytest.mark.parametrize("every_s", [0, -1, 2**53 + 1])
def test_an_interval_that_cannot_be_is_refused_by_name(every_s: int) -> None:
    with pytest.raises(ScheduleError, match=rf"every_s: {every_s} is out of range; write a number from 1 to"):
        schedule.interval_next(every_s, 0, 0, 0)
    with pytest.raises(ScheduleError, match="every_s"):
        schedule.phase_of(7, every_s)


def test_an_instant_at_the_edge_of_64_bits_is_refused_rather_than_wrapped() -> None:
    for now in (2**63 - 2, -(2**63)):
        with pytest.raises(OverflowError, match="edge of 64 bits"):
            schedule.interval_next(60, 0, 0, now)


def test_a_plan_has_no_instant_past_the_edge_of_64_bits() -> None:
    for definition in (Schedule(every_s=60), Schedule(cron="* * * * *"), Schedule(run_at=5)):
        assert schedule.Plan(definition, 1).next(2**63 - 1) == 2**63 - 1
        assert schedule.Plan(definition, 1).next(-(2**63)) < 2**63 - 1
