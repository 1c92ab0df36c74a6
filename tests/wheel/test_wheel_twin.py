"""Any sequence of edits, drains and mended faults gives the runs of the slow twin, and a wheel that is right.

The seconds of the wheel go forward alone; the clock, which may step either way, is an argument of the drain
and decides what is missed. `HYPOTHESIS_PROFILE=nightly` looks for longer.
"""

import random
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from twin_wheel import TwinWheel
from wheel_rows import Change, Job, batch, faults, found_in, runs_of

from mainspring.wheel import (
    NEVER,
    OP_DELETE,
    OP_INSERT,
    OP_LOAD,
    OP_UPDATE,
    Frames,
    Schedule,
    Wheel,
    shard_of,
)

STARTS = (1_764_500_000, 2**31 - 1800, 2**32 - 1800, 0, -5000)
EVERY = (1, 2, 5, 7, 60, 900, 3599, 3600, 3601, 7200, 86_400, 2**31 - 1)
CRONS = ("* * * * *", "*/5 * * * *", "0 * * * *", "30 2 * * *", "H/5 * * * *", "H H * * *", "*/20 * * * * *")
STEPS = (1, 1, 1, 2, 5, 59, 60)
LEAPS = (3599, 3600, 3601, 7201, 30_000)
# A job with more runs than this in a leap is paused before it: nothing new comes of the thousandth.
LEAP_RUNS = 1000
MENDED = ("dropped", "doubled", "wrong_slot", "unindexed", "index_stray", "miscounted", "orphan", "free_list")

# Most jobs share a shard, and with it lists, far hours and the places of an index.
NEIGHBOURS = [job_id for job_id in range(9000) if shard_of(job_id) == 3][:16]

ids = st.one_of(
    st.sampled_from(NEIGHBOURS),
    st.sampled_from((-(2**63), 2**63 - 1, -1, 2**31, 2**32)),
    st.integers(-(2**63), 2**63 - 1),
)
offsets = st.sampled_from((-90_000, -3600, -1, 0, 1, 2, 30, 3599, 3600, 3601, 7300, 100_000, 2**33))


def optional(strategy: st.SearchStrategy[int]) -> st.SearchStrategy[int | None]:
    return st.one_of(st.none(), st.none(), strategy)


@st.composite
def schedules(draw: st.DrawFn, now: int) -> Schedule:
    kind = draw(st.sampled_from(("every_s", "every_s", "cron", "run_at")))
    fields: dict[str, object] = {}
    if kind == "every_s":
        fields = {"every_s": draw(st.sampled_from(EVERY)), "phase_s": draw(optional(st.integers(0, 4000)))}
    elif kind == "cron":
        fields = {
            "cron": draw(st.sampled_from(CRONS)),
            "jitter_s": draw(optional(st.sampled_from((0, 10, 600)))),
        }
    else:
        fields = {"run_at": now + draw(offsets)}
    starts = draw(optional(offsets))
    if starts is not None:
        fields |= {"starts_at": now + starts, "ends_at": now + starts + draw(st.sampled_from((1, 30, 4000)))}
    if kind != "run_at" and draw(st.integers(0, 5)) == 0:
        fields |= {"boost_every_s": draw(st.sampled_from((1, 10, 4000))), "boost_until": now + draw(offsets)}
    return Schedule(**fields)  # type: ignore[arg-type]


def runs_a_second(job: Job) -> float:
    """At most."""
    schedule = job.schedule
    if not job.enabled or schedule.run_at is not None:
        return 0.0
    return 1 / min(schedule.every_s or 60, schedule.boost_every_s or 2**31)


class WheelAgainstTwin(RuleBasedStateMachine):
    @initialize(start=st.sampled_from(STARTS), max_frames=st.sampled_from((1, 1, 3)))
    def begin(self, start: int, max_frames: int) -> None:
        self.start = start
        self.wheel = Wheel(start)
        self.twin = TwinWheel()
        self.seq = 0
        self.lateness = 0
        self.frames = Frames(max_frames=max_frames)
        self.half: int | None = None

    # ------------------------------------------------------------------------------------ edits

    def apply(self, job: Job, op: int, seq: int, later_s: int = 0) -> None:
        begun = self.wheel.begun(shard_of(job.id))
        change = Change(job, op, seq, at=begun + later_s if op == OP_INSERT or later_s else None)
        expected = self.twin.apply(change, begun)
        assert self.wheel.apply(*batch(self.wheel, [change])) == expected

    def next_seq(self) -> int:
        self.seq += 1
        return self.seq

    @rule(data=st.data(), job_id=ids, op=st.sampled_from((OP_LOAD, OP_INSERT, OP_UPDATE)))
    def write(self, data: st.DataObject, job_id: int, op: int) -> None:
        job = Job(
            job_id,
            data.draw(schedules(self.wheel.now)),
            key=data.draw(st.sampled_from((None, "check", 'a"b\n', "123e4567-e89b-12d3-a456-426614174000"))),
            data=data.draw(st.sampled_from((None, "1", '{"n":' + "7" * 40 + "}", '"' + "x" * 3000 + '"'))),
            route=data.draw(st.sampled_from(("default", "checks.http"))),
            enabled=data.draw(st.integers(0, 4)) > 0,
            first_run_soon=data.draw(st.booleans()),
            catch_up=data.draw(st.integers(0, 2)),
        )
        later_s = data.draw(st.sampled_from((0, 0, 1, 7)))
        self.apply(job, op, 0 if op == OP_LOAD else self.next_seq(), later_s)

    def pick(self, data: st.DataObject) -> Job:
        return self.twin.held[data.draw(st.sampled_from(sorted(self.twin.held)))].job

    def has_jobs(self) -> bool:
        return bool(self.twin.held)

    @precondition(has_jobs)
    @rule(data=st.data())
    def pause_or_resume(self, data: st.DataObject) -> None:
        job = self.pick(data)
        self.apply(replace(job, enabled=not job.enabled), OP_UPDATE, self.next_seq())

    @precondition(has_jobs)
    @rule(data=st.data(), payload=st.sampled_from((None, "2", '"' + "y" * 500 + '"')))
    def rewrite(self, data: st.DataObject, payload: str | None) -> None:
        self.apply(replace(self.pick(data), data=payload), OP_UPDATE, self.next_seq())

    @precondition(has_jobs)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.apply(self.pick(data), OP_DELETE, self.next_seq())

    @precondition(has_jobs)
    @rule(data=st.data(), op=st.sampled_from((OP_UPDATE, OP_DELETE)))
    def come_too_late(self, data: st.DataObject, op: int) -> None:
        self.apply(self.pick(data), op, max(1, self.seq - 3))

    # ----------------------------------------------------------------------------------- drains

    def piece(self) -> bool:
        """Drains until the frames are full or the second is whole, and compares what came."""
        second = self.wheel.now + 1
        now = second + self.lateness
        self.frames.reset(0)
        whole = self.wheel.drain(second, now, self.frames)
        for job_id, scheduled_at in runs_of(self.frames):
            assert job_id in self.twin.due(second)
            assert self.twin.skip_reason(job_id, second, now) is None
            assert self.twin.take(job_id, second) == scheduled_at
        assert self.frames.due_since == second
        self.half = None if whole else second
        self.compare_skipped(second, now)
        return whole

    def compare_skipped(self, second: int, now: int) -> None:
        """All that was due by now was given or skipped; the frames of one piece say how many were skipped."""
        skipped = dict.fromkeys(self.frames.skipped, 0)
        for job_id in self.twin.due(second):
            reason = self.twin.skip_reason(job_id, second, now)
            if self.wheel.next_due(job_id) == second or self.wheel.begun(shard_of(job_id)) < second:
                assert self.half == second
                continue
            assert reason is not None
            skipped[reason] += 1
            self.twin.take(job_id, second)
        assert self.frames.skipped == skipped
        assert self.frames.due == len(self.frames) + sum(skipped.values())

    @rule()
    def drain_a_piece(self) -> None:
        self.piece()

    @rule(seconds=st.sampled_from(STEPS))
    def step(self, seconds: int) -> None:
        end = self.wheel.now + seconds
        while self.wheel.now < end:
            while not self.piece():
                pass
            self.skip_idle(end)

    def skip_idle(self, end: int) -> None:
        """The twin has nothing due until then, so nothing may come."""
        quiet = min(end, self.twin.next_second() - 1)
        self.frames.reset(0)
        while self.wheel.now < quiet:
            assert self.wheel.drain(self.wheel.now + 1, self.wheel.now + 1, self.frames)
            self.frames.reset(0) if len(self.frames) == 0 else None
            assert len(self.frames) == self.frames.due == 0

    @rule(seconds=st.sampled_from(LEAPS))
    def leap(self, seconds: int) -> None:
        for job in [held.job for held in self.twin.held.values()]:
            if runs_a_second(job) * seconds > LEAP_RUNS:
                self.apply(replace(job, enabled=False), OP_UPDATE, self.next_seq())
        self.step(seconds)

    @rule(back=st.sampled_from((0, 1, 2, 60, 3600, -2, -3600)))
    def drain_out_of_turn(self, back: int) -> None:
        """No second twice and none left out, wherever the clock stands; the last one gives no more."""
        second = self.wheel.now - back
        self.frames.reset(0)
        if back == 0 and second > self.start:
            assert self.wheel.drain(second, second, self.frames)
            assert len(self.frames) == self.frames.due == 0
            return
        with pytest.raises(ValueError, match="the next second to drain is"):
            self.wheel.drain(second, second, self.frames)

    @rule(lateness=st.sampled_from((0, 0, -3600, -1, 5, 6, 90, 91, 3600, 3606, 90_000)))
    def let_the_clock_jump(self, lateness: int) -> None:
        self.lateness = lateness

    # ----------------------------------------------------------------------------------- faults

    @precondition(has_jobs)
    @rule(data=st.data(), fault=st.sampled_from(MENDED))
    def hurt_and_sweep(self, data: st.DataObject, fault: str) -> None:
        """Amid a second or not; mended before the next drain, a fault leaves no trace."""
        waiting = [] if self.half is None else sorted(self.twin.due(self.half))
        job_id = data.draw(st.sampled_from(waiting)) if waiting else self.pick(data).id
        try:
            self.wheel._inject(fault, job_id)
        except KeyError:
            return  # paused, or finished: it has no entry
        assert found_in(self.wheel.sweep(shard_of(job_id))) == {fault: 1}
        if fault in {"orphan", "free_list"}:
            del self.twin.held[job_id]

    # ------------------------------------------------------------------------------- invariants

    @invariant()
    def is_right(self) -> None:
        if not hasattr(self, "wheel"):
            return
        assert faults(self.wheel) == {}
        assert len(self.wheel) == len(self.twin.held)
        for job_id, held in self.twin.held.items():
            assert self.wheel.next_due(job_id) == (None if held.due == NEVER else held.due)


WheelAgainstTwin.TestCase.settings = settings(
    max_examples=settings().max_examples * 2 // 3, stateful_step_count=30
)
test_wheel_against_twin = WheelAgainstTwin.TestCase


@pytest.mark.parametrize("start", [1_764_500_000, 2**31 - 100_000, 2**32 - 100_000])
def test_three_days_give_the_runs_of_the_twin(start: int) -> None:
    chance = random.Random(start)
    machine = WheelAgainstTwin()
    machine.begin(start, 3)
    for _ in range(12):
        every_s = chance.choice([7200, 9973, 86_399, 86_400, 86_401, 200_000, 3600])
        schedule = chance.choice(
            [
                Schedule(every_s=every_s),
                Schedule(cron=f"{chance.randrange(60)} {chance.randrange(24)} * * *"),
                Schedule(run_at=start + chance.randrange(3 * 86_400)),
            ]
        )
        machine.apply(Job(chance.randrange(-(2**63), 2**63), schedule), OP_INSERT, machine.next_seq())
    for _ in range(3):
        machine.step(86_400)
        machine.is_right()
