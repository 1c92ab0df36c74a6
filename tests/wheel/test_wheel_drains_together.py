"""Several threads drain the same seconds: each run comes once, to one of them, and the seconds in order."""

import threading
from collections import Counter
from itertools import pairwise

import pytest
from together import together
from wheel_rows import Change, Job, Run, batch, drain, every, faults, put, runs_of

from mainspring.wheel import OP_UPDATE, Frames, Schedule, Wheel, shard_of

NOW = 1_764_500_000
SECONDS = 60
WAIT_S = 60.0


class Taker:
    """Drains second after second to ``last`` beside others, and keeps what came in the order it came."""

    def __init__(self, wheel: Wheel, last: int, frames: Frames) -> None:
        self.wheel, self.last, self.frames = wheel, last, frames
        self.runs: list[Run] = []
        self.calls = 0

    def __call__(self) -> None:
        while self.wheel.now < self.last:
            second, whole = self.wheel.now + 1, False
            while not whole:
                self.frames.reset(0)
                try:
                    whole = self.wheel.drain(second, second, self.frames)
                except ValueError:  # the others have come further meanwhile
                    break
                self.calls += 1
                self.runs += runs_of(self.frames)


def crowd() -> list[Job]:
    return [Job(i, Schedule(every_s=1 + i % 7)) for i in range(6000)]


@pytest.mark.parametrize("threads", [2, 3, 5])
@pytest.mark.parametrize("max_frames", [3, 400, 4096])
def test_each_run_comes_once_and_the_seconds_come_in_order(threads: int, max_frames: int) -> None:
    wheel, sound = Wheel(NOW), Wheel(NOW)
    seconds = 5 if max_frames == 3 else SECONDS
    for each in (wheel, sound):
        put(each, *crowd())
    takers = [Taker(wheel, NOW + seconds, Frames(max_frames=max_frames)) for _ in range(threads)]
    together(*takers)
    given = [run for taker in takers for run in taker.runs]
    assert sorted(given) == sorted(run for _ in range(seconds) for run in drain(sound))
    for taker in takers:
        assert all(earlier[1] <= later[1] for earlier, later in pairwise(taker.runs))
    assert wheel.now == NOW + seconds
    assert faults(wheel) == {}


def test_an_editing_thread_beside_them_makes_no_steady_run_come_twice_or_never() -> None:
    wheel = Wheel(NOW)
    put(wheel, *(every(i, 3) for i in range(3000)))
    over = threading.Event()
    takers = [Taker(wheel, NOW + SECONDS, Frames(max_frames=50)) for _ in range(2)]

    def edit() -> None:
        seq = 0
        while not over.is_set():
            seq += 1
            jobs = [
                Job(10_000 + i, Schedule(every_s=1 + (seq + i) % 9), data="1" * (seq % 70))
                for i in range(150)
            ]
            wheel.apply(*batch(wheel, [Change(job, OP_UPDATE, seq) for job in jobs]))

    def take_both() -> None:
        together(*takers)
        over.set()

    together(take_both, edit)
    runs = Counter(run for taker in takers for run in taker.runs if run[0] < 3000)
    assert len(runs) == 1000 * SECONDS
    assert set(runs.values()) == {1}
    assert faults(wheel) == {}


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("max_frames", [1, 50, 4096])
def test_what_lost_entries_missed_comes_once_too_whichever_thread_gives_it(
    threads: int, max_frames: int
) -> None:
    wheel, sound = Wheel(NOW), Wheel(NOW)
    for each in (wheel, sound):
        put(each, *crowd())
    for i in range(0, 6000, 10):
        wheel._inject("dropped", i)
    before = [run for _ in range(3) for run in drain(wheel)]
    assert sum(wheel.sweep(shard)["dropped"] for shard in range(256)) == 600
    takers = [Taker(wheel, NOW + 5, Frames(max_frames=max_frames)) for _ in range(threads)]
    together(*takers)
    given = before + [run for taker in takers for run in taker.runs]
    assert sorted(given) == sorted(run for _ in range(5) for run in drain(sound))
    assert faults(wheel) == {}


def test_what_one_thread_leaves_half_drained_the_next_call_goes_on_with() -> None:
    wheel, sound = Wheel(NOW), Wheel(NOW)
    for each in (wheel, sound):
        put(each, *(every(i, 1) for i in range(2000)))
    runs: list[Run] = []
    whole, turn = False, 0
    buffers = [Frames(max_frames=7), Frames(max_frames=11)]
    while not whole:
        frames = buffers[turn % 2]
        frames.reset(0)
        together(lambda frames=frames: wheel.drain(NOW + 1, NOW + 1, frames))  # type: ignore[misc]
        whole = wheel.now == NOW + 1
        runs += runs_of(frames)
        turn += 1
    assert runs == drain(sound)
    assert [shard_of(job_id) for job_id, _ in runs] == sorted(shard_of(job_id) for job_id, _ in runs)


def test_the_second_completed_last_is_whole_at_once_and_gives_nothing() -> None:
    wheel, frames = Wheel(NOW), Frames()
    put(wheel, *(every(i, 1) for i in range(100)))
    drain(wheel)
    assert wheel.drain(NOW + 1, NOW + 1, frames)
    assert (len(frames), frames.due, wheel.now) == (0, 0, NOW + 1)
    drain(wheel)
    with pytest.raises(ValueError, match="next second to drain"):
        wheel.drain(NOW + 1, NOW + 1, frames)


def test_a_thread_with_nothing_left_to_claim_waits_for_what_is_left_over() -> None:
    """One run a call, all in one shard: whoever comes finds the shard taken, waits, and goes on with it."""
    wheel = Wheel(NOW)
    herd = [i for i in range(60_000) if shard_of(i) == 255][:200]
    put(wheel, *(every(i, 1) for i in herd))
    takers = [Taker(wheel, NOW + 10, Frames(max_frames=1)) for _ in range(4)]
    together(*takers)
    runs = Counter(run for taker in takers for run in taker.runs)
    assert len(runs) == 2000
    assert set(runs.values()) == {1}


def test_clearing_beside_drains_leaves_a_right_wheel() -> None:
    wheel = Wheel(NOW)
    put(wheel, *(every(i, 1) for i in range(500)))
    takers = [Taker(wheel, NOW + SECONDS, Frames(max_frames=20)) for _ in range(2)]
    over = threading.Event()

    def clear_and_fill() -> None:
        while not over.is_set():
            wheel.clear()
            put(wheel, *(every(i, 1) for i in range(500)))

    def take_both() -> None:
        together(*takers)
        over.set()

    together(take_both, clear_and_fill)
    runs = Counter(run for taker in takers for run in taker.runs)
    # Whoever drains may meet an empty wheel each time; after the last filling all are due.
    assert max(runs.values(), default=1) == 1
    assert faults(wheel) == {}
    assert sorted(drain(wheel)) == sorted((i, NOW + SECONDS + 1) for i in range(500))
