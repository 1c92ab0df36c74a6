"""A leap gives what draining each second at the same clock gives: the same runs, skips, span, and wheel.

Held against the wheel that steps, and the slow twin.
"""

from collections import Counter
from dataclasses import dataclass, field

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from twin_wheel import TwinWheel
from wheel_rows import Change, Job, Run, batch, drain, drain_until, faults, put, runs_of

from mainspring.wheel import NEVER, OP_INSERT, OP_UPDATE, Frames, Schedule, Wheel, shard_of
from mainspring.wheel.memory import fail_allocation_in

NOW = 1_764_500_000
DAY = 86_400
STEPPED_S = 3700
"""Longer gaps are held against the twin alone, who goes from run to run."""

SPRING_FORWARD = 1_774_746_000
"""The clocks of Vienna go from 2 to 3."""


@dataclass
class Outcome:
    """What an outage brings. span: of the skipped, where there are any."""

    runs: Counter[Run] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    span: tuple[int, int] | None = None

    def add(self, frames: Frames) -> None:
        self.runs.update(runs_of(frames))
        self.skipped += Counter(frames.skipped)
        if any(frames.skipped.values()):
            first, last = frames.skipped_span
            self.span = (
                (first, last) if self.span is None else (min(self.span[0], first), max(self.span[1], last))
            )


def drained(wheel: Wheel, last: int, clock: int, outcome: Outcome) -> Outcome:
    frames = Frames()
    while wheel.now < last:
        second, whole = wheel.now + 1, False
        while not whole:
            frames.reset(0)
            whole = wheel.drain(second, clock, frames)
            outcome.add(frames)
    return outcome


def stepped(jobs: list[Change], start: int, gap_s: int) -> tuple[Wheel, Outcome]:
    wheel = Wheel(start)
    wheel.apply(*batch(wheel, jobs))
    return wheel, drained(wheel, start + gap_s, start + gap_s, Outcome())


def leapt(jobs: list[Change], start: int, gap_s: int, to: int | None = None) -> tuple[Wheel, Outcome]:
    wheel, clock = Wheel(start), start + gap_s
    wheel.apply(*batch(wheel, jobs))
    wheel.leap(wheel.farthest_leap(clock) if to is None else to, clock)
    assert faults(wheel) == {}
    return wheel, drained(wheel, clock, clock, Outcome())


def of_twin(jobs: list[Change], start: int, gap_s: int) -> Outcome:
    twin, outcome, clock = TwinWheel(), Outcome(), start + gap_s
    for change in jobs:
        twin.apply(change, start)
        job_id = change.job.id
        while (held := twin.held[job_id]).due <= clock:
            second = held.due
            reason = twin.skip_reason(job_id, second, clock)
            scheduled_at = twin.take(job_id, second)
            if reason is None:
                outcome.runs[job_id, scheduled_at] += 1
                continue
            outcome.skipped[reason] += 1
            first, last = outcome.span or (second, second)
            outcome.span = (min(first, second), max(last, second))
    return outcome


def agree(jobs: list[Change], start: int, gap_s: int) -> None:
    by_leap, found = leapt(jobs, start, gap_s)
    assert found == of_twin(jobs, start, gap_s)
    if gap_s <= STEPPED_S:
        by_steps, expected = stepped(jobs, start, gap_s)
        assert found == expected
        ids = [change.job.id for change in jobs]
        assert [by_leap.next_due(job_id) for job_id in ids] == [by_steps.next_due(job_id) for job_id in ids]
        later = start + gap_s + 100
        assert Counter(drain_until(by_leap, later)) == Counter(drain_until(by_steps, later))


offsets = st.one_of(st.sampled_from((-DAY, -1, 0, 1, 600, 3600)), st.integers(-2 * DAY, 3 * DAY))


@st.composite
def schedules(draw: st.DrawFn, start: int) -> Schedule:
    kind = draw(st.sampled_from(("every_s", "every_s", "cron", "cron", "run_at")))
    fields: dict[str, object] = {}
    if kind == "every_s":
        every_s = draw(st.sampled_from((30, 60, 61, 900, 3600, 3601, 7200, DAY - 1, DAY, 200_000)))
        fields = {"every_s": every_s, "phase_s": draw(st.one_of(st.none(), st.integers(0, DAY)))}
    elif kind == "cron":
        crons = (
            "*/5 * * * *",
            "0 * * * *",
            "30 2 * * *",
            "15 2 * * 0",
            "H H * * *",
            "H/20 * * * *",
            "*/40 * * * * *",
        )
        zones = ("UTC", "Europe/Vienna", "America/New_York")
        fields = {"cron": draw(st.sampled_from(crons)), "tz": draw(st.sampled_from(zones))}
        fields["jitter_s"] = draw(st.sampled_from((None, None, 0, 1, 10, 7200)))
    else:
        fields = {"run_at": start + draw(offsets)}
    if draw(st.integers(0, 2)) == 0:
        starts = start + draw(offsets)
        fields |= {"starts_at": starts, "ends_at": starts + draw(st.sampled_from((1, 600, 7200, DAY)))}
    if kind != "run_at" and draw(st.integers(0, 3)) == 0:
        fields |= {
            "boost_every_s": draw(st.sampled_from((20, 60, 4000))),
            "boost_until": start + draw(offsets),
        }
    return Schedule(**fields)  # type: ignore[arg-type]


@st.composite
def fleets(draw: st.DrawFn, start: int) -> list[Change]:
    ids = draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5, unique=True))
    return [
        Change(
            Job(
                job_id,
                draw(schedules(start)),
                catch_up=draw(st.integers(0, 2)),
                enabled=draw(st.integers(0, 7)) > 0,
                first_run_soon=draw(st.booleans()),
            ),
            OP_INSERT,
            at=start + draw(st.sampled_from((0, 0, 3, 5000))),
        )
        for job_id in ids
    ]


@pytest.mark.parametrize("start", [NOW, SPRING_FORWARD - DAY // 2])
@given(data=st.data(), gap_s=st.sampled_from((97, 400, 400, 1000, 3700, 9000)))
@settings(max_examples=settings().max_examples // 4)
def test_a_leap_gives_what_stepping_gives(start: int, data: st.DataObject, gap_s: int) -> None:
    agree(data.draw(fleets(start)), start, gap_s)


@pytest.mark.parametrize("catch_up", [0, 1, 2])
def test_many_jobs_of_every_kind_in_many_shards(catch_up: int) -> None:
    kinds = [
        Schedule(every_s=60),
        Schedule(every_s=DAY),
        Schedule(every_s=7 * DAY),
        Schedule(cron="*/10 * * * *"),
        Schedule(cron="H 3 * * *", tz="Asia/Kathmandu"),
        Schedule(run_at=NOW + 30_000),
        Schedule(run_at=NOW - 100),
        Schedule(every_s=300, ends_at=NOW + 40_000),
        Schedule(every_s=3600, boost_every_s=20, boost_until=NOW + 5000),
    ]
    jobs = [Change(Job(n, kinds[n % len(kinds)], catch_up=catch_up)) for n in range(270)]
    agree(jobs, NOW, STEPPED_S)
    agree(jobs, NOW, DAY)


def test_it_may_go_less_far_and_several_times() -> None:
    jobs = [Change(Job(n, Schedule(every_s=every_s))) for n, every_s in enumerate((7, 60, 4000, DAY))]
    expected = of_twin(jobs, NOW, DAY)
    wheel, found = Wheel(NOW), Outcome()
    wheel.apply(*batch(wheel, jobs))
    for last in (NOW + 1, NOW + 5000, NOW + 5011, NOW + 70_000):
        wheel.leap(last, NOW + DAY)
        assert (wheel.now, faults(wheel)) == (last, {})
        drained(wheel, last + 10, NOW + DAY, found)
    assert drained(wheel, NOW + DAY, NOW + DAY, found) == expected


def test_an_edit_after_it_ends_what_is_owed_and_not_yet_given() -> None:
    wheel = Wheel(NOW)
    put(wheel, Job(1, Schedule(run_at=NOW + 50)), Job(2, Schedule(run_at=NOW + 60)))
    wheel.leap(NOW + 1000, NOW + 2000)
    put(wheel, Job(1, Schedule(run_at=NOW + 50), enabled=False), op=OP_UPDATE, seq=1)
    assert drain(wheel, NOW + 2000) == [(2, NOW + 60)]


def test_what_it_owes_comes_in_frames_of_their_own_that_tell_since_when() -> None:
    wheel, frames = Wheel(NOW), Frames()
    at = NOW + 1001
    put(wheel, Job(1, Schedule(run_at=NOW + 50)), Job(2, Schedule(every_s=DAY, phase_s=at % DAY)))
    wheel.leap(NOW + 1000, NOW + 2000)
    found = []
    whole = False
    while not whole:
        frames.reset(0)
        whole = wheel.drain(at, NOW + 2000, frames)
        found += [(runs_of(frames), frames.due_since)] if len(frames) else []
    assert sorted(found) == [([(1, NOW + 50)], NOW + 50), ([(2, at)], at)]


@pytest.mark.parametrize("to", [NOW, NOW - 1, NOW + 910, 2**62])
def test_it_goes_ahead_and_not_into_the_window(to: int) -> None:
    wheel = Wheel(NOW)
    put(wheel, Job(1))
    with pytest.raises(ValueError, match=f"after {NOW} and not after {NOW + 909}"):
        wheel.leap(to, NOW + 1000)
    assert wheel.now == NOW


def test_it_waits_for_the_end_of_a_second() -> None:
    wheel, frames = Wheel(NOW), Frames(max_frames=1)
    put(wheel, *(Job(n, Schedule(every_s=1)) for n in range(5)))
    assert not wheel.drain(NOW + 1, NOW + 1, frames)
    with pytest.raises(ValueError, match="between two seconds"):
        wheel.leap(NOW + 100, NOW + 1000)


def test_without_memory_it_is_repeated_and_nothing_is_counted_twice() -> None:
    jobs = [Change(Job(n, Schedule(every_s=(60, DAY)[n % 2]), catch_up=n % 3)) for n in range(300)]
    jobs += [Change(Job(n, Schedule(cron="*/5 * * * *"))) for n in range(300, 310)]
    expected = of_twin(jobs, NOW, 50_000)
    failures = 0
    for failing_at in (1, 2, 3, 10, 100, 300, 500, 700):
        wheel = Wheel(NOW)
        wheel.apply(*batch(wheel, jobs))
        fail_allocation_in(failing_at)
        try:
            wheel.leap(NOW + 49_900, NOW + 50_000)
        except MemoryError:
            failures += 1
            with pytest.raises(ValueError, match="the next second to drain"):
                wheel.drain(NOW + 1, NOW + 50_000, Frames())
            fail_allocation_in(0)
            wheel.leap(NOW + 49_900, NOW + 50_000)
        finally:
            fail_allocation_in(0)
        assert faults(wheel) == {}
        assert drained(wheel, NOW + 50_000, NOW + 50_000, Outcome()) == expected
    assert failures >= 4


def test_a_job_that_a_fault_had_left_behind_is_armed_again() -> None:
    wheel = Wheel(NOW)
    put(wheel, Job(1, Schedule(every_s=60)))
    wheel._inject("dropped", 1)
    wheel.leap(NOW + 1000, NOW + 2000)
    assert faults(wheel) == {}
    assert wheel.next_due(1) not in (None, NEVER)
    assert wheel.begun(shard_of(1)) == NOW + 1000
