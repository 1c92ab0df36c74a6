"""Each fault is found under its own name, mended in one sweep, and never becomes a run too many."""

import pytest
from wheel_rows import Job, drain, drain_until, every, faults, put

from mainspring.wheel import FAULTS, Frames, Schedule, Wheel, job_hash, next_fires, shard_of

NOW = 1_764_500_000
JOBS = [i for i in range(60_000) if job_hash(i) >> 56 == 3]
SCHEDULES = (
    Schedule(every_s=300),
    Schedule(every_s=86_400),
    Schedule(cron="*/7 * * * *"),
    Schedule(run_at=NOW + 900),
)


def crowd() -> Wheel:
    wheel = Wheel(NOW)
    put(wheel, *(every(i, 60 if i % 2 else 86_400) for i in JOBS))
    return wheel


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_by_name_and_mended_in_one_sweep(fault: str, schedule: Schedule) -> None:
    if fault == "one_period_late" and schedule.run_at is not None:
        pytest.skip("a one-shot has no later period")
    wheel = crowd()
    victim = JOBS[7]
    put(wheel, Job(victim, schedule))
    due = wheel.next_due(victim)
    wheel._inject(fault, victim)
    assert faults(wheel) == {fault: 1}
    assert {name: count for name, count in wheel.sweep(3).items() if count} == {fault: 1}
    assert faults(wheel) == {}
    assert wheel.next_due(victim) == (None if fault == "orphan" else due)


@pytest.mark.parametrize("fault", FAULTS)
def test_after_a_sweep_the_runs_are_those_of_a_wheel_without_fault(fault: str) -> None:
    wheel, sound = crowd(), crowd()
    wheel._inject(fault, JOBS[0])
    if fault == "orphan":
        put(sound, every(JOBS[0], 60), op=3)
    wheel.sweep(3)
    assert sorted(drain_until(wheel, NOW + 130)) == sorted(drain_until(sound, NOW + 130))
    assert faults(wheel) == {}


@pytest.mark.parametrize("fault", ["doubled", "orphan", "wrong_slot"])
def test_a_stray_entry_never_becomes_a_run_even_unswept(fault: str) -> None:
    wheel = Wheel(NOW)
    put(wheel, every(1, 60))
    due = wheel.next_due(1)
    assert due is not None
    wheel._inject(fault, 1)
    given = [at for _, at in drain_until(wheel, due + 61)]
    expected = [due, due + 60]
    assert given == {"doubled": expected, "orphan": []}.get(fault, expected[1:])
    assert faults(wheel) == {}
    # The drain has mended it, and the next sweep tells.
    assert wheel.sweep(shard_of(1))[fault] == 1
    assert wheel.sweep(shard_of(1))[fault] == 0


def test_a_change_beside_a_doubled_entry_keeps_both_findable() -> None:
    wheel = crowd()
    wheel._inject("doubled", JOBS[1])
    put(wheel, *(every(i, 30) for i in JOBS[:40]), op=2)
    found = {name: count for name, count in wheel.sweep(3).items() if count}
    assert found == {"doubled": 1}
    assert faults(wheel) == {}


def test_many_faults_at_once_are_each_counted() -> None:
    wheel = crowd()
    for i, fault in enumerate(FAULTS):
        wheel._inject(fault, JOBS[i * 3])
        wheel._inject(fault, JOBS[i * 3 + 1])
    found = wheel.sweep(3)
    assert {name: found[name] for name in FAULTS if name != "miscounted"} == dict.fromkeys(
        set(FAULTS) - {"miscounted"}, 2
    )
    assert found["miscounted"] == 1
    assert faults(wheel) == {}


def test_a_shard_swept_amid_a_second_keeps_what_is_left_of_it() -> None:
    wheel = Wheel(NOW)
    put(wheel, *(Job(i, Schedule(every_s=600, phase_s=(NOW + 1) % 600)) for i in JOBS))
    frames = Frames(max_frames=10)
    assert not wheel.drain(NOW + 1, NOW + 1, frames)
    wheel._inject("dropped", JOBS[0])
    assert wheel.sweep(3)["dropped"] == 1
    assert len(drain(wheel)) == len(JOBS) - 10
    assert faults(wheel) == {}


def test_a_fault_needs_an_armed_job() -> None:
    wheel = Wheel(NOW)
    with pytest.raises(KeyError, match="job 5"):
        wheel._inject("dropped", 5)


def test_shards_are_numbered_to_255() -> None:
    wheel = Wheel(NOW)
    for call in (wheel.check, wheel.sweep, wheel.begun):
        with pytest.raises(IndexError, match="shard=256"):
            call(256)


def test_next_due_tells_the_schedules_next_instant() -> None:
    wheel = crowd()
    assert shard_of(JOBS[0]) == 3
    assert wheel.next_due(JOBS[1]) in next_fires(Schedule(every_s=60), JOBS[1], NOW, 1) + next_fires(
        Schedule(every_s=86_400), JOBS[1], NOW, 1
    )
