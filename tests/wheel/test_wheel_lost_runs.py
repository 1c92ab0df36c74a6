"""What a lost entry kept from its second is owed as after a stall: by the job's catch-up, and exactly once.

The oracle is the stall itself: a sound wheel with the same job, whose seconds are drained late, at the clock
at which the faulty one gives its arrears.
"""

from collections import Counter
from dataclasses import replace

import pytest
from wheel_rows import Job, Run, drain, drain_until, faults, found_in, put, runs_of

from mainspring.wheel import (
    CATCH_UP_ALL,
    CATCH_UP_LATEST,
    CATCH_UP_NONE,
    FAULTS,
    OP_DELETE,
    OP_UPDATE,
    Frames,
    Schedule,
    Wheel,
    shard_of,
)

NOW = 1_764_500_000
DUE = NOW + 20
# Where "wrong_slot" puts an entry: seconds after its own.
ASTRAY_S = 7
SCHEDULES = {
    "each second": Schedule(every_s=1),
    "7 s": Schedule(every_s=7, phase_s=DUE % 7),
    "a minute": Schedule(every_s=60, phase_s=DUE % 60),
    "an hour and more": Schedule(every_s=4000, phase_s=DUE % 4000),
    "a day": Schedule(every_s=86_400, phase_s=DUE % 86_400),
    "far ahead": Schedule(every_s=86_400, phase_s=(NOW + 3700) % 86_400),
    "cron": Schedule(cron="* * * * *"),
    "nightly": Schedule(cron="54 10 * * *", jitter_s=0),
    "ending": Schedule(every_s=60, phase_s=DUE % 60, ends_at=DUE + 70),
    "boosted": Schedule(every_s=3600, boost_every_s=5, boost_until=DUE + 50),
    "once": Schedule(run_at=DUE),
    "once, committed late": Schedule(run_at=NOW - 500),
}
POLICIES = {"all": CATCH_UP_ALL, "latest": CATCH_UP_LATEST, "none": CATCH_UP_NONE}


def drained_late(wheel: Wheel, last: int, clock: int) -> tuple[list[Run], Counter[str]]:
    """Runs and skips of all seconds up to `last`, drained at the clock, or on time where that is later."""
    runs: list[Run] = []
    skipped: Counter[str] = Counter()
    frames = Frames()
    while wheel.now < last:
        second, whole = wheel.now + 1, False
        while not whole:
            frames.reset(0)
            whole = wheel.drain(second, max(clock, second), frames)
            runs += runs_of(frames)
            skipped.update(frames.skipped)
    return runs, +skipped


def lost_in(fault: str, job: Job) -> tuple[Wheel, int]:
    """A wheel whose only job has the fault, and the instant it was armed for."""
    wheel = Wheel(NOW)
    put(wheel, job)
    due = wheel.next_due(job.id)
    assert due is not None
    wheel._inject(fault, job.id)
    return wheel, due


def stalled_until(job: Job, due: int, clock: int, last: int) -> tuple[list[Run], Counter[str]]:
    sound = Wheel(NOW)
    put(sound, job)
    before, _ = drained_late(sound, due - 1, NOW)
    runs, skipped = drained_late(sound, last, clock)
    return before + runs, skipped


@pytest.mark.parametrize("late_s", [1, 5, 6, 65, 90, 91, 200, 4100])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_sweep_owes_what_a_dropped_entry_missed(name: str, policy: str, late_s: int) -> None:
    job = Job(8, SCHEDULES[name], catch_up=POLICIES[policy])
    wheel, due = lost_in("dropped", job)
    clock = due + late_s
    assert drain_until(wheel, clock - 1) == []
    assert wheel.sweep(shard_of(job.id))["dropped"] == 1
    assert faults(wheel) == {}
    assert drained_late(wheel, clock + 130, NOW) == stalled_until(job, due, clock, clock + 130)
    assert faults(wheel) == {}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_drain_that_meets_a_stray_owes_what_it_missed(name: str, policy: str) -> None:
    job = Job(8, SCHEDULES[name], catch_up=POLICIES[policy])
    wheel, due = lost_in("wrong_slot", job)
    # One that is far ahead is met before its time, and misses nothing.
    clock = due + ASTRAY_S + 1 if due <= NOW + 3600 else NOW
    assert drained_late(wheel, due + 300, NOW) == stalled_until(job, due, clock, due + 300)
    assert wheel.sweep(shard_of(job.id))["wrong_slot"] == 1


@pytest.mark.parametrize("late_s", [1, 4, ASTRAY_S])
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_sweep_owes_what_a_misplaced_entry_missed(name: str, late_s: int) -> None:
    job = Job(8, SCHEDULES[name])
    wheel, due = lost_in("wrong_slot", job)
    before = drain_until(wheel, due + late_s - 1)
    wheel.sweep(shard_of(job.id))
    runs, skipped = drained_late(wheel, due + 300, NOW)
    # One that is far ahead was met before its time, and missed nothing.
    clock = due + late_s if due <= NOW + 3600 else NOW
    assert (before + runs, skipped) == stalled_until(job, due, clock, due + 300)


@pytest.mark.parametrize("late_s", [1, 6, 100])
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {"dropped", "wrong_slot"}))
def test_other_faults_make_nothing_up(fault: str, name: str, late_s: int) -> None:
    """Either the entry stood right, or nobody can know when it should have been armed."""
    job = Job(8, SCHEDULES[name])
    if fault == "one_period_late" and job.schedule.run_at is not None:
        pytest.skip("a one-shot has no later period")
    wheel, due = lost_in(fault, job)
    sound, _ = stalled_until(job, due, NOW, due + 300)
    given, _ = drained_late(wheel, due + late_s, NOW)
    if fault == "not_rearmed" and (8, due + 1) in given and (8, due + 1) not in sound:
        given.remove((8, due + 1))  # the fault itself: what it was armed for came before the sweep
    wheel.sweep(shard_of(job.id))
    given += drained_late(wheel, due + 300, NOW)[0]
    assert Counter(given) <= Counter(sound)
    if fault in {"doubled", "miscounted", "unindexed", "index_stray", "index_miscounted"}:
        assert given == sound
    assert faults(wheel) == {}


@pytest.mark.parametrize("sweeps", [1, 3])
@pytest.mark.parametrize("max_frames", [1, 4096])
@pytest.mark.parametrize(
    "hurts",
    [
        ("dropped",),
        ("doubled", "dropped"),
        ("doubled", "wrong_slot"),
        ("wrong_slot", "doubled"),
        ("wrong_slot", "doubled", "doubled"),
    ],
)
@pytest.mark.parametrize("name", ["each second", "7 s", "a minute", "an hour and more", "cron", "once"])
def test_whatever_befell_an_entry_each_run_comes_once(
    name: str, hurts: tuple[str, ...], max_frames: int, sweeps: int
) -> None:
    """Strays that a drain meets, then sweeps one after the other, some amid what is owed."""
    job = Job(8, SCHEDULES[name])
    wheel, due = lost_in(hurts[0], job)
    for fault in hurts[1:]:
        wheel._inject(fault, job.id)
    frames, runs = Frames(max_frames=max_frames), []
    while wheel.now < due + 80:
        whole = False
        while not whole:
            frames.reset(0)
            whole = wheel.drain(wheel.now + 1, wheel.now + 1, frames)
            runs += runs_of(frames)
            if wheel.now >= due + ASTRAY_S:
                for _ in range(sweeps):
                    wheel.sweep(shard_of(job.id))
    sound, _ = stalled_until(job, due, NOW, due + 80)
    assert Counter(runs) == Counter(sound)
    assert faults(wheel) == {}


@pytest.mark.parametrize("late_s", [1, 50])
def test_a_sweep_in_time_owes_nothing(late_s: int) -> None:
    job = Job(8, SCHEDULES["a minute"])
    wheel, due = lost_in("dropped", job)
    wheel.sweep(shard_of(job.id))
    frames = Frames()
    while wheel.now < due + late_s:
        frames.reset(0)
        assert wheel.drain(wheel.now + 1, wheel.now + 1, frames)
        assert runs_of(frames) == ([(8, due)] if frames.second == due else [])
        assert frames.due_since == frames.second


def test_arrears_go_first_and_by_themselves_and_tell_since_when_they_were_due() -> None:
    wheel = Wheel(NOW)
    others = [Job(i, Schedule(every_s=1)) for i in range(1000)]
    put(wheel, *others, Job(-8, SCHEDULES["7 s"]))
    drain_until(wheel, DUE - 1)
    wheel._inject("dropped", -8)
    drain_until(wheel, DUE + 10)
    wheel.sweep(shard_of(-8))
    frames, batches, whole = Frames(), [], False
    while not whole:
        frames.reset(0)
        whole = wheel.drain(DUE + 11, DUE + 11, frames)
        batches.append((runs_of(frames), frames.due_since, frames.second))
    with_lost = [batch for batch in batches if any(job_id == -8 for job_id, _ in batch[0])]
    assert with_lost == [([(-8, DUE), (-8, DUE + 7)], DUE, DUE + 11)]
    assert sum(len(runs) for runs, _, _ in batches) == 1002
    assert all(since == second for runs, since, second in batches if len(runs) > 2)


@pytest.mark.parametrize("max_frames", [1, 2, 5])
def test_arrears_that_fill_the_frames_go_on_where_they_stopped(max_frames: int) -> None:
    wheel, due = lost_in("dropped", Job(8, SCHEDULES["each second"]))
    drain_until(wheel, due + 9)
    wheel.sweep(shard_of(8))
    assert drain(wheel, frames=Frames(max_frames=max_frames)) == [(8, due + i) for i in range(11)]
    assert faults(wheel) == {}


@pytest.mark.parametrize("change", ["delete", "pause"])
def test_a_job_that_is_gone_or_paused_meanwhile_is_owed_nothing(change: str) -> None:
    job = Job(8, SCHEDULES["each second"])
    wheel, due = lost_in("dropped", job)
    drain_until(wheel, due + 9)
    wheel.sweep(shard_of(8))
    put(wheel, replace(job, enabled=False), op=OP_DELETE if change == "delete" else OP_UPDATE)
    assert drained_late(wheel, due + 20, NOW) == ([], Counter())


def test_a_job_that_changed_meanwhile_is_owed_what_it_was_owed_before() -> None:
    job = Job(8, SCHEDULES["7 s"])
    wheel, due = lost_in("dropped", job)
    drain_until(wheel, due + 9)
    wheel.sweep(shard_of(8))
    put(wheel, replace(job, schedule=Schedule(every_s=86_400), data="1"), op=OP_UPDATE)
    assert drain(wheel) == [(8, due), (8, due + 7)]


def test_a_cleared_wheel_owes_nothing() -> None:
    wheel, due = lost_in("dropped", Job(8, SCHEDULES["each second"]))
    drain_until(wheel, due + 9)
    wheel.sweep(shard_of(8))
    wheel.clear()
    put(wheel, Job(8, Schedule(run_at=due + 15)))
    assert drain_until(wheel, due + 20) == [(8, due + 15)]


def test_an_entry_lost_amid_its_second_is_put_back_into_it() -> None:
    jobs = [Job(i, Schedule(every_s=600, phase_s=(NOW + 1) % 600)) for i in range(60_000) if shard_of(i) == 3]
    wheel = Wheel(NOW)
    put(wheel, *jobs)
    frames = Frames(max_frames=10)
    assert not wheel.drain(NOW + 1, NOW + 1, frames)
    left = next(job.id for job in jobs if wheel.next_due(job.id) == NOW + 1)
    wheel._inject("dropped", left)
    assert found_in(wheel.sweep(3)) == {"dropped": 1}
    rest = drain(wheel)
    assert rest.count((left, NOW + 1)) == 1
    assert len(rest) == len(jobs) - 10


def test_what_was_lost_while_the_wheel_itself_was_late_is_judged_by_the_clock() -> None:
    """A sweep knows the wheel's second; the drain after it knows how late that is."""
    job = Job(8, SCHEDULES["7 s"], catch_up=CATCH_UP_LATEST)
    wheel, due = lost_in("dropped", job)
    drain_until(wheel, due + 9)
    wheel.sweep(shard_of(8))
    clock = due + 1000
    assert drained_late(wheel, due + 2000, clock) == stalled_until(job, due, clock, due + 2000)


@pytest.mark.parametrize("name", SCHEDULES)
def test_without_a_fault_nothing_is_ever_in_arrears(name: str) -> None:
    wheel, sound = Wheel(NOW), Wheel(NOW)
    for each in (wheel, sound):
        put(each, Job(8, SCHEDULES[name]))
    frames, runs = Frames(), []
    while wheel.now < NOW + 400:
        frames.reset(0)
        assert wheel.drain(wheel.now + 1, wheel.now + 1, frames)
        runs += runs_of(frames)
        assert not found_in(wheel.sweep(shard_of(8)))
        assert frames.due_since == frames.second
    assert runs == drain_until(sound, NOW + 400)
