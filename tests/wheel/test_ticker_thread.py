"""The tick thread: every second once and in order, whatever clock, takers and Python do."""

import os
import select
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from wheel_rows import Change, Job, Run, batch, drain, every, faults, put, runs_of

from mainspring.wheel import OP_UPDATE, SHARDS, ManualClock, Piece, Schedule, Ticker, Wheel, shard_of
from mainspring.wheel.memory import fail_allocation_in

NOW = 1_764_500_000
LATE_S = 3


class Stage:
    """A wheel, a clock that stands half a second after its last second, and what the thread gave."""

    def __init__(self, *jobs: Job, buffers: int = 8, max_frames: int = 4096, first: int = 0) -> None:
        self.wheel = Wheel(NOW)
        put(self.wheel, *jobs)
        self.clock = ManualClock(NOW + 0.5)
        self.ticker = Ticker(
            self.wheel,
            late_after_s=LATE_S,
            first=first,
            buffers=buffers,
            max_frames=max_frames,
            clock=self.clock,
        )
        self.runs: list[Run] = []
        self.whole: list[int] = []
        self.numbers: list[int] = []
        self.marks: list[int] = []
        self.late_s: list[float] = []

    def note(self, piece: Piece) -> None:
        self.runs += runs_of(piece)
        self.numbers.append(piece.first)
        if piece.whole:
            self.whole.append(piece.second)
            self.marks.append(piece.mark)
            self.late_s.append(piece.late_s)

    def take_all(self) -> None:
        while (piece := self.ticker.take()) is not None:
            self.note(piece)
            self.ticker.give_back(piece)

    def until(self, reason: str) -> None:
        """Take what comes until nothing but this holds the thread up."""

        def reached() -> bool:
            self.take_all()
            return self.ticker.waits_for == reason

        wait_for(reached)
        self.take_all()

    def at(self, now: float) -> list[Run]:
        """The runs that come when the clock is set to ``now``."""
        known = len(self.runs)
        self.clock.set(now)
        self.until("clock")
        return self.runs[known:]


def wait_for(condition: Callable[[], object], timeout_s: float = 20) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.001)


@contextmanager
def ticking(stage: Stage) -> Iterator[Stage]:
    stage.ticker.start()
    try:
        yield stage
    finally:
        stage.ticker.close()


# ----------------------------------------------------------------------------------- on its clock


def test_each_second_is_drained_once_it_has_begun_and_not_before() -> None:
    with ticking(Stage(every(1, 1))) as stage:
        assert stage.at(NOW + 0.999) == []
        assert stage.at(NOW + 1) == [(1, NOW + 1)]
        assert stage.at(NOW + 1.9) == []
        assert stage.at(NOW + 3.2) == [(1, NOW + 2), (1, NOW + 3)]
    assert stage.whole == [NOW + 1, NOW + 2, NOW + 3]
    assert faults(stage.wheel) == {}


def test_a_second_without_runs_is_told_as_well() -> None:
    with ticking(Stage()) as stage:
        assert stage.at(NOW + 2) == []
    assert stage.whole == [NOW + 1, NOW + 2]


def test_a_step_back_repeats_no_second() -> None:
    with ticking(Stage(every(1, 1))) as stage:
        stage.at(NOW + 2)
        assert stage.at(NOW - 3600) == []
        assert stage.at(NOW + 2.9) == []
        assert stage.at(NOW + 3) == [(1, NOW + 3)]


def test_lateness_is_told_by_the_clock_from_the_edge_of_the_second() -> None:
    with ticking(Stage()) as stage:
        stage.at(NOW + 1.25)
        stage.at(NOW + 3.5)
    assert stage.late_s == pytest.approx([0.25, 1.5, 0.5], abs=1e-6)


# ---------------------------------------------------------------------------------------- permits


@pytest.mark.parametrize("late_s", [LATE_S, 10])
def test_a_late_second_waits_for_its_permit_and_so_do_those_owed_with_it(late_s: int) -> None:
    with ticking(Stage(every(1, 1))) as stage:
        stage.clock.set(NOW + 1 + late_s)
        stage.until("permit")
        assert stage.whole == []
        for last in range(NOW + 1, NOW + 1 + late_s):
            stage.ticker.permit(last)
            stage.until("permit")
            assert stage.whole == list(range(NOW + 1, last + 1))
        stage.ticker.permit(NOW + 1 + late_s)
        stage.until("clock")
        assert stage.at(NOW + 2 + late_s) == [(1, NOW + 2 + late_s)]


def test_a_permit_holds_for_all_seconds_up_to_it() -> None:
    with ticking(Stage(every(1, 1))) as stage:
        stage.clock.set(NOW + 100)
        stage.until("permit")
        stage.ticker.permit(NOW + 50)
        stage.ticker.permit(NOW + 20)  # takes nothing back
        stage.until("permit")
        assert stage.whole == list(range(NOW + 1, NOW + 51))
        stage.ticker.permit(NOW + 100)
        stage.until("clock")
    assert stage.whole == list(range(NOW + 1, NOW + 101))


def test_what_is_owed_at_the_start_waits_for_a_permit_as_well() -> None:
    stage = Stage(every(1, 1))
    stage.clock.set(NOW + 2.5)
    with ticking(stage):
        stage.until("permit")
        assert stage.whole == []
        stage.ticker.permit(NOW + 1)
        stage.until("permit")
        assert stage.whole == [NOW + 1]
        stage.ticker.permit(NOW + 2)
        stage.until("clock")
        assert len(stage.at(NOW + 4.5)) == 2


def test_a_second_that_is_less_late_needs_no_permit() -> None:
    with ticking(Stage(every(1, 1))) as stage:
        assert len(stage.at(NOW + LATE_S + 0.999)) == LATE_S


def test_the_bell_tells_of_a_wish_for_a_permit() -> None:
    with ticking(Stage()) as stage:
        stage.until("clock")
        assert not rings(stage.ticker)
        stage.clock.set(NOW + 100)
        wait_for(lambda: rings(stage.ticker))
        stage.ticker.hear()
        assert stage.ticker.waits_for == "permit"


# ----------------------------------------------------------------------------------- pieces, room


def rings(ticker: Ticker) -> bool:
    return bool(select.select([ticker], [], [], 0)[0])


def test_the_bell_rings_for_a_piece_until_it_is_heard() -> None:
    with ticking(Stage()) as stage:
        stage.clock.set(NOW + 1)
        wait_for(lambda: rings(stage.ticker))
        stage.ticker.hear()
        assert not rings(stage.ticker)
        piece = stage.ticker.take()
        assert piece is not None
        assert (piece.second, piece.whole, len(piece)) == (NOW + 1, True, 0)
        assert stage.ticker.take() is None


def test_a_crowded_second_comes_in_several_pieces_of_which_the_last_is_the_end() -> None:
    with ticking(Stage(*(every(i, 1) for i in range(1000)), max_frames=64)) as stage:
        assert sorted(stage.at(NOW + 1)) == [(i, NOW + 1) for i in range(1000)]
        assert sorted(stage.at(NOW + 2)) == [(i, NOW + 2) for i in range(1000)]
    assert stage.whole == [NOW + 1, NOW + 2]


def test_each_piece_has_reply_numbers_of_its_own_from_the_first_on() -> None:
    with ticking(Stage(*(every(i, 1) for i in range(100)), max_frames=16, first=48)) as stage:
        stage.at(NOW + 3)
    assert stage.numbers == list(range(48, 48 + 16 * len(stage.numbers), 16))
    assert len(stage.numbers) >= 3 * 7


def test_without_a_free_buffer_it_waits_and_goes_on_where_it_was() -> None:
    with ticking(Stage(*(every(i, 1) for i in range(1000)), buffers=3, max_frames=64)) as stage:
        stage.clock.set(NOW + 2)
        wait_for(lambda: stage.ticker.waits_for == "room")
        taken = [stage.ticker.take() for _ in range(3)]
        assert stage.ticker.take() is None
        assert stage.ticker.waits_for == "room"
        for piece in taken:
            assert piece is not None
            stage.note(piece)
            stage.ticker.give_back(piece)
        stage.until("clock")
    assert len(stage.runs) == len(set(stage.runs)) == 2000
    assert stage.whole == [NOW + 1, NOW + 2]


def test_pieces_come_back_in_their_order() -> None:
    with ticking(Stage()) as stage:
        stage.clock.set(NOW + 2)
        wait_for(lambda: stage.wheel.now == NOW + 2)
        first, second = stage.ticker.take(), stage.ticker.take()
        assert first is not None
        assert second is not None
        with pytest.raises(ValueError, match="oldest"):
            stage.ticker.give_back(second)
        stage.ticker.give_back(first)
        with pytest.raises(ValueError, match="oldest"):
            stage.ticker.give_back(first)
        stage.ticker.give_back(second)


def test_a_second_shows_the_mark_of_its_beginning() -> None:
    jobs = [every(i, 1) for i in range(300)]
    with ticking(Stage(*jobs, buffers=2, max_frames=64)) as stage:
        stage.at(NOW + 1)
        stage.ticker.mark = 7
        stage.clock.set(NOW + 2)
        wait_for(lambda: stage.ticker.waits_for == "room")
        stage.ticker.mark = 8
        stage.until("clock")
        stage.at(NOW + 3)
    assert stage.marks == [0, 7, 8]


# ---------------------------------------------------------------------------------------- edits


def one_shard(count: int) -> list[int]:
    return [job_id for job_id in range(200_000) if shard_of(job_id) == 3][:count]


def test_an_edit_amid_a_second_takes_no_run_that_both_definitions_owe() -> None:
    """Each of them owes the second; half of the runs are given before the edit and half after it."""
    ids = one_shard(20)
    stage = Stage(*(every(i, 1, data='"old"') for i in ids), buffers=1, max_frames=10)
    with ticking(stage):
        stage.clock.set(NOW + 1)
        wait_for(lambda: stage.ticker.waits_for == "room")
        edited = [Change(every(i, 1 + i % 2, data='"new"'), OP_UPDATE, 1) for i in ids]
        stage.wheel.apply(*batch(stage.wheel, edited))
        assert faults(stage.wheel) == {}
        bodies = []
        while len(stage.whole) < 1:
            piece = stage.ticker.take()
            if piece is not None:
                bodies += [bytes(piece.frame(i)) for i in range(len(piece))]
                stage.note(piece)
                stage.ticker.give_back(piece)
    kept = {job_id for job_id, _ in stage.runs}
    assert len(stage.runs) == len(kept)
    assert {i for i in ids if i % 2 == 0} <= kept
    assert sum(b'"data":"old"' in body for body in bodies) == 10
    assert sum(b'"data":"new"' in body for body in bodies) == len(bodies) - 10
    assert faults(stage.wheel) == {}


def test_a_wheel_cleared_amid_a_second_gives_nothing_more_and_goes_on() -> None:
    with ticking(Stage(*(every(i, 1) for i in range(1000)), buffers=1, max_frames=64)) as stage:
        stage.clock.set(NOW + 1)
        wait_for(lambda: stage.ticker.waits_for == "room")
        stage.wheel.clear()
        put(stage.wheel, every(5000, 1))
        stage.until("clock")
        assert len(stage.runs) in (64, 65)
        assert stage.at(NOW + 2) == [(5000, NOW + 2)]
    assert stage.whole == [NOW + 1, NOW + 2]


def test_steady_jobs_run_once_a_second_while_others_are_edited_swept_and_taken_slowly() -> None:
    stage, over = Stage(*(every(i, 2) for i in range(3000)), buffers=4, max_frames=64), threading.Event()

    def edit() -> None:
        seq = 0
        while not over.is_set():
            seq += 1
            jobs = [
                Job(10_000 + i, Schedule(every_s=1 + (seq + i) % 5), data="1" * (seq % 90)) for i in range(99)
            ]
            stage.wheel.apply(*batch(stage.wheel, [Change(job, OP_UPDATE, seq) for job in jobs]))

    def sweep() -> None:
        shard = 0
        while not over.is_set():
            assert not any(stage.wheel.sweep(shard).values())
            shard = (shard + 1) % SHARDS

    beside = [threading.Thread(target=duty) for duty in (edit, sweep)]
    with ticking(stage):
        for thread in beside:
            thread.start()
        for second in range(1, 101):
            stage.at(NOW + second)
        over.set()
        for thread in beside:
            thread.join()
    steady = [run for run in stage.runs if run[0] < 3000]
    assert len(steady) == len(set(steady)) == 3000 * 100 // 2
    assert stage.whole == list(range(NOW + 1, NOW + 101))
    assert faults(stage.wheel) == {}


# ------------------------------------------------------------------------------ ends and failures


def test_what_is_drained_can_be_taken_after_the_end_and_another_ticker_goes_on() -> None:
    stage = Stage(*(every(i, 1) for i in range(300)), buffers=2, max_frames=64)
    with ticking(stage):
        stage.clock.set(NOW + 1)
        wait_for(lambda: stage.ticker.waits_for == "room")
    assert stage.ticker.ended
    assert stage.ticker.error is None
    stage.take_all()
    assert (len(stage.runs), stage.whole) == (128, [])
    stage.ticker = Ticker(stage.wheel, late_after_s=LATE_S, first=2 * 64, clock=stage.clock)
    with ticking(stage):
        stage.until("clock")
    assert len(stage.runs) == len(set(stage.runs)) == 300
    assert stage.whole == [NOW + 1]
    assert stage.numbers == [0, 64, 128]


def test_a_thread_is_started_once() -> None:
    with ticking(Stage()) as stage, pytest.raises(RuntimeError, match="another Ticker"):
        stage.ticker.start()


@pytest.mark.parametrize("settings", [{"buffers": 0}, {"late_after_s": 0}, {"capacity": 10}, {"first": -1}])
def test_settings_that_make_no_sense_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(settings))}="):
        Ticker(Wheel(NOW), **{"late_after_s": LATE_S, **settings})  # type: ignore[arg-type]


def test_memory_that_comes_back_is_waited_for_and_nothing_is_lost() -> None:
    stage = Stage(*crowd())
    fail_allocation_in(1)
    try:
        stage.ticker.start()
        stage.clock.set(NOW + 1)
        wait_for(lambda: stage.ticker.refused)
        assert not stage.whole
    finally:
        fail_allocation_in(0)
    stage.until("clock")
    assert stage.runs == drain(sound_wheel())
    stage.ticker.close()
    assert stage.ticker.error is None
    assert faults(stage.wheel) == {}


def crowd() -> list[Job]:
    """So many due in the first second that draining it needs memory."""
    return [
        Job(i, Schedule(every_s=(1, 4000, 90_000)[i % 3], phase_s=(NOW + 1) % 4000)) for i in range(3000)
    ] + [Job(-1 - i, Schedule(every_s=7000, phase_s=(NOW + 1) % 7000)) for i in range(1000)]


def sound_wheel() -> Wheel:
    wheel = Wheel(NOW)
    put(wheel, *crowd())
    return wheel


def test_what_was_drained_before_memory_ran_out_can_be_taken_at_once() -> None:
    stage = Stage(*crowd())
    fail_allocation_in(3)
    try:
        with ticking(stage):
            stage.clock.set(NOW + 1)
            wait_for(lambda: stage.ticker.refused)
    finally:
        fail_allocation_in(0)
    stage.take_all()
    assert 0 < len(stage.runs) < len(sound_runs := drain(sound_wheel()))
    assert stage.runs + drain(stage.wheel) == sound_runs


def test_memory_that_stays_away_ends_the_thread_with_an_error() -> None:
    stage = Stage(*crowd())
    fail_allocation_in(1)
    try:
        stage.ticker.start()
        stage.clock.set(NOW + 1)
        wait_for(lambda: stage.ticker.ended)
    finally:
        fail_allocation_in(0)
    assert rings(stage.ticker)
    assert isinstance(stage.ticker.error, MemoryError)
    assert str(NOW + 1) in str(stage.ticker.error)
    stage.take_all()
    assert stage.whole == []
    assert stage.runs + drain(stage.wheel) == drain(sound_wheel())
    assert faults(stage.wheel) == {}


def test_a_second_drainer_is_told() -> None:
    with ticking(Stage()) as stage:
        stage.at(NOW + 1)
        drain(stage.wheel)
        stage.clock.set(NOW + 2)
        wait_for(lambda: stage.ticker.ended)
        assert isinstance(stage.ticker.error, RuntimeError)


def test_a_ticker_that_is_forgotten_ends_its_thread() -> None:
    before = threads()
    stage = Stage(every(1, 1))
    stage.ticker.start()
    assert len(threads()) == len(before) + 1
    del stage
    assert threads() == before


def threads() -> set[str]:
    return set(os.listdir("/proc/self/task"))


def test_a_thousand_starts_leave_no_thread_no_file_and_no_buffer_behind() -> None:
    wheel = Wheel(NOW)

    def live() -> None:
        ticker = Ticker(wheel, late_after_s=LATE_S, buffers=2, capacity=70_000, max_frames=8)
        ticker.start()
        ticker.close()

    live()
    tracemalloc.start()
    before = threads(), set(os.listdir("/proc/self/fd")), tracemalloc.get_traced_memory()[0]
    for _ in range(1000):
        live()
    after = threads(), set(os.listdir("/proc/self/fd")), tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after[:2] == before[:2]
    assert after[2] - before[2] < 70_000


def test_seconds_are_drained_on_the_machines_clock_while_python_is_blocked() -> None:
    """For three seconds no other thread of Python gets a turn: `sum` never lets go of the GIL."""
    wheel = Wheel(int(time.time()) + 1)
    put(wheel, *(every(i, 1) for i in range(1000)))
    ticker, start = Ticker(wheel, late_after_s=LATE_S), wheel.now
    ticker.start()
    end = start + 3.5
    while time.time() < end:
        sum(range(1_000_000))
    drained = wheel.now
    ticker.close()
    assert drained >= int(end) - 1
    pieces = iter(ticker.take, None)
    stamps = {piece.second: piece.second + piece.late_s for piece in pieces if piece.whole}
    assert list(stamps) == list(range(start + 1, wheel.now + 1))
    assert stamps[drained] <= time.time()


def test_the_thread_is_found_where_the_system_lists_it() -> None:
    with ticking(Stage()):
        names = [Path(f"/proc/self/task/{task}/comm").read_text().strip() for task in threads()]
    assert names.count("tick") == 1
