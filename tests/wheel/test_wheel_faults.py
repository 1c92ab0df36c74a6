"""Each fault is found under its own name, mended in one sweep, and never becomes a run too many."""

import random

import pytest
from wheel_rows import Job, drain, drain_until, every, faults, found_in, put

from mainspring.wheel import (
    FAULTS,
    OP_DELETE,
    OP_UPDATE,
    Frames,
    Schedule,
    Wheel,
    job_hash,
    next_fires,
    shard_of,
)

NOW = 1_764_500_000
JOBS = [i for i in range(60_000) if job_hash(i) >> 56 == 3]
SCHEDULES = (
    Schedule(every_s=300),
    Schedule(every_s=86_400),
    Schedule(cron="*/7 * * * *"),
    Schedule(run_at=NOW + 900),
    Schedule(run_at=NOW + 90_000),
    Schedule(every_s=600, starts_at=NOW - 5, ends_at=NOW + 5000),
)
# These take the job away with its entry, its record, or both.
DELETING = ("orphan", "free_list")


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
    assert found_in(wheel.sweep(3)) == {fault: 1}
    assert faults(wheel) == {}
    assert wheel.next_due(victim) == (None if fault in DELETING else due)


@pytest.mark.parametrize("fault", FAULTS)
def test_after_a_sweep_the_runs_are_those_of_a_wheel_without_fault(fault: str) -> None:
    wheel, sound = crowd(), crowd()
    wheel._inject(fault, JOBS[0])
    if fault in DELETING:
        put(sound, every(JOBS[0], 60), op=OP_DELETE)
    wheel.sweep(3)
    assert sorted(drain_until(wheel, NOW + 130)) == sorted(drain_until(sound, NOW + 130))
    assert faults(wheel) == {}


@pytest.mark.parametrize("fault", ["doubled", "orphan", "wrong_slot"])
def test_a_stray_entry_never_becomes_a_run_of_its_own_even_unswept(fault: str) -> None:
    wheel = Wheel(NOW)
    put(wheel, every(1, 60))
    due = wheel.next_due(1)
    assert due is not None
    wheel._inject(fault, 1)
    given = [at for _, at in drain_until(wheel, due + 61)]
    # What stood in a wrong place is owed its run all the same, once the drain has met it.
    assert given == ([] if fault == "orphan" else [due, due + 60])
    assert faults(wheel) == {}
    # The drain has mended it, and the next sweep tells.
    assert wheel.sweep(shard_of(1))[fault] == 1
    assert wheel.sweep(shard_of(1))[fault] == 0


def test_a_change_beside_a_doubled_entry_keeps_both_findable() -> None:
    wheel = crowd()
    wheel._inject("doubled", JOBS[1])
    put(wheel, *(every(i, 30) for i in JOBS[:40]), op=OP_UPDATE)
    assert found_in(wheel.sweep(3)) == {"doubled": 1}
    assert faults(wheel) == {}


def test_many_faults_at_once_are_each_counted() -> None:
    wheel = crowd()
    for i, fault in enumerate(FAULTS):
        wheel._inject(fault, JOBS[i * 3])
        wheel._inject(fault, JOBS[i * 3 + 1])
    once = {"miscounted", "free_list", "index_miscounted"}
    assert wheel.sweep(3) == {fault: 1 if fault in once else 2 for fault in FAULTS}
    assert faults(wheel) == {}


@pytest.mark.parametrize("schedule", [SCHEDULES[0], SCHEDULES[4]], ids=str)
@pytest.mark.parametrize("second", FAULTS)
@pytest.mark.parametrize("first", FAULTS)
def test_two_faults_of_one_job_are_mended_together(first: str, second: str, schedule: Schedule) -> None:
    wheel, sound = crowd(), crowd()
    for each in (wheel, sound):
        put(each, Job(JOBS[7], schedule))
    inflicted = inject(wheel, JOBS[7], first, second)
    # The one undoes the other: of two places in the index one is left, and a count too many is taken back.
    undone = (first, second) in {("index_stray", "unindexed"), ("index_miscounted", "index_miscounted")}
    assert bool(found_in(wheel.sweep(3))) != undone
    assert faults(wheel) == {}
    gone = not inflicted.isdisjoint(DELETING)
    assert wheel.next_due(JOBS[7]) == (None if gone else sound.next_due(JOBS[7]))
    assert len(wheel) == len(sound) - gone
    assert (JOBS[7] in wheel) != gone


def inject(wheel: Wheel, job_id: int, *wanted: str) -> set[str]:
    """Those faults that can still befall the job after the ones before."""
    inflicted = set()
    for fault in wanted:
        try:
            wheel._inject(fault, job_id)
        except KeyError:
            continue
        inflicted.add(fault)
    return inflicted


@pytest.mark.parametrize("seed", range(30))
def test_whatever_befalls_a_shard_one_sweep_mends_it(seed: int) -> None:
    chance = random.Random(seed)
    wheel, sound = crowd(), crowd()
    gone: set[int] = set()
    frames = Frames(max_frames=7)
    for each in (wheel, sound):
        drain_until(each, NOW + seed)
    # Half of the shards are swept amid the second after the faults. What was armed for a wrong instant may
    # have missed its run by then, and nobody can know.
    amid = seed % 2 == 1
    kinds = [fault for fault in FAULTS if not (amid and fault in {"one_period_late", "not_rearmed"})]
    for _ in range(chance.randint(1, 60)):
        victim, fault = chance.choice(JOBS), chance.choice(kinds)
        if inject(wheel, victim, fault) & set(DELETING):
            gone.add(victim)
    if amid:
        wheel.drain(wheel.now + 1, wheel.now + 1, frames)
    wheel.sweep(3)
    assert faults(wheel) == {}
    put(sound, *(every(i, 60) for i in gone), op=OP_DELETE)
    given = [(frames.job_id(i), frames.scheduled_at(i)) for i in range(len(frames))]
    assert sorted(given + drain_until(wheel, NOW + 300)) == sorted(drain_until(sound, NOW + 300))
    assert faults(wheel) == {}


def test_a_free_record_that_was_linked_twice_is_given_out_once() -> None:
    wheel = crowd()
    wheel._inject("free_list", JOBS[5])
    wheel.sweep(3)
    put(wheel, *(every(i, 60) for i in fresh_ids(3)))
    assert all(i in wheel for i in fresh_ids(3))
    assert len(wheel) == len(JOBS) + 2
    assert faults(wheel) == {}


def fresh_ids(count: int) -> list[int]:
    """Ids of the shard that no job has yet."""
    return [i for i in range(60_000, 70_000) if job_hash(i) >> 56 == 3][:count]


def test_a_stray_of_the_index_never_finds_a_job_that_is_gone() -> None:
    wheel = crowd()
    wheel._inject("index_stray", JOBS[5])
    put(wheel, every(JOBS[5], 60), op=OP_DELETE)
    assert found_in(wheel.sweep(3)) == {"index_stray": 1}
    assert JOBS[5] not in wheel
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
    put(wheel, Job(6, enabled=False))
    for job_id in (5, 6):
        with pytest.raises(KeyError, match=f"job {job_id}"):
            wheel._inject("dropped", job_id)


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
