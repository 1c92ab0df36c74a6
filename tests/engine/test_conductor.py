"""Conductor and tick thread on a clock that the test sets: each second once, changes at their place."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray
from wheel_rows import drain_until

from mainspring.changelog_tailer import OP_DELETE, OP_INSERT, OP_TRUNCATE, OP_UPDATE, ROW, Cursor, Rows
from mainspring.engine.clock import SystemClock
from mainspring.engine.conductor import LATE_S, Conductor
from mainspring.engine.failover.gaps import Gap
from mainspring.engine.intake.applier import Applier
from mainspring.engine.intake.changes import ROWS_MAX, ChangeQueue
from mainspring.engine.intake.judge import Judge
from mainspring.engine.intake.quarantine import Quarantine
from mainspring.engine.metrics import Metrics
from mainspring.engine.publishing.settlement import Settlement
from mainspring.wheel import NEVER, Frames, ManualClock, Ticker, Wheel, job_hash
from mainspring.wheel.memory import fail_allocation_in

START = 1_764_500_000
CURSORS = [Cursor(1, 1, f"{n}:{n}:") for n in range(1, 10)]


@dataclass
class RecordingPublisher:
    """Keeps (second, job id) of all that is submitted, and acknowledges it; waits while not `open`."""

    settlement: Settlement[Cursor]
    runs: list[tuple[int, int]] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.open.set()

    async def submit(self, frames: Frames) -> None:
        self.runs += [(frames.second, frames.job_id(n)) for n in range(len(frames))]
        self.settlement.settle(frames.second, len(frames))
        await self.open.wait()


class Stage:
    """A conductor with everything real but clock and broker."""

    def __init__(self, threads: ThreadPoolExecutor, *, start: int = START, by_hand: bool = True) -> None:
        self.clock = ManualClock(start + 0.5)
        self.wheel = Wheel(start)
        self.metrics = Metrics()
        self.quarantine = Quarantine()
        self.judge = Judge(self.wheel, self.quarantine)
        self.changes = ChangeQueue(CURSORS[0])
        self.settlement: Settlement[Cursor] = Settlement(start, CURSORS[0])
        self.publisher = RecordingPublisher(self.settlement)
        self.unread: list[NDArray[np.void]] = []
        self.read_at: list[int] = []
        self.ticker = Ticker(
            self.wheel, late_after_s=LATE_S, buffers=2, max_frames=64, clock=self.clock if by_hand else None
        )
        self.conductor = Conductor(
            self.wheel,
            self.ticker,
            self.publisher,
            self.settlement,
            self.changes,
            applier=Applier(self.wheel, self.quarantine, self.metrics, threads),
            clock=self.clock if by_hand else SystemClock(),
            metrics=self.metrics,
            read_changes=self._read_changes,
        )

    async def _read_changes(self, _late_s: float) -> bool:
        """As the tailer does it: reads on, and is waited for until it has read all or the queue is full."""
        self.read_at.append(self.wheel.now)
        reading = asyncio.create_task(self._read())
        while not reading.done() and not self.changes.full:
            await asyncio.sleep(0.001)
        return True

    async def _read(self) -> None:
        while self.unread:
            await self.arrive(self.unread.pop(0))

    async def arrive(self, rows: NDArray[np.void], cursor: Cursor = CURSORS[1]) -> None:
        """A page arrives from the log."""
        await self.changes.put(self.judge.judge(Rows(rows, b"", ["default"], [("", "")])), cursor)

    async def change(self, op: int, job_id: int, changed_at: float, every_s: int = 1) -> None:
        """One row arrives from the log."""
        await self.arrive(row(op, job_id, every_s, changed_at))

    async def insert(self, *job_ids: int) -> None:
        """Jobs of one second arrive from the log and are applied."""
        for job_id in job_ids:
            await self.change(OP_INSERT, job_id, self.wheel.now + 0.1)
        await self.idle()

    async def at(self, now: float) -> list[tuple[int, int]]:
        """Set the clock once nothing is left to do, and give the runs that this brought."""
        await self.idle()
        known = len(self.publisher.runs)
        self.clock.set(now)
        await self.idle()
        return self.publisher.runs[known:]

    async def idle(self) -> None:
        """Until all seconds that have begun are drained and published, and all that may be applied is."""
        await wait_for(self._is_idle)

    def _is_idle(self) -> bool:
        waits = self.ticker.waits_for == "clock" and self.settlement.watermark == self.wheel.now
        return waits and self.changes.ready(self.wheel.now, int(self.clock.now())) is None


async def wait_for(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


def row(op: int, job_id: int, every_s: int, changed_at: float) -> NDArray[np.void]:
    rows = np.zeros(1, dtype=ROW)
    rows["op"], rows["job_id"], rows["every_s"], rows["changed_at"] = op, job_id, every_s, changed_at * 1e6
    rows["seq"], rows["enabled"] = 1 + int(changed_at - START), 1
    rows["run_at"] = rows["ends_at"] = NEVER
    rows["starts_at"] = rows["boost_until"] = -(2**63)
    rows["phase_s"] = rows["jitter_s"] = -1
    return rows


@pytest.fixture
async def threads() -> AsyncIterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


@pytest.fixture
async def stage(threads: ThreadPoolExecutor) -> AsyncIterator[Stage]:
    stage = Stage(threads)
    running = asyncio.create_task(stage.conductor.run())
    yield stage
    stage.conductor.stop()
    await running


async def test_every_second_since_the_last_is_drained_once_and_in_order(stage: Stage) -> None:
    await stage.change(OP_INSERT, 1, START + 0.4)
    assert await stage.at(START + 0.9) == []
    assert await stage.at(START + 1.0) == [(START + 1, 1)]
    assert await stage.at(START + 1.9) == []
    assert await stage.at(START + 4.2) == [(START + n, 1) for n in (2, 3, 4)]
    assert stage.settlement.watermark == START + 4


async def test_a_step_back_of_the_clock_repeats_no_second(stage: Stage) -> None:
    await stage.change(OP_INSERT, 1, START + 0.4)
    await stage.at(START + 10)
    assert await stage.at(START - 3600) == []
    assert await stage.at(START + 10.9) == []
    assert await stage.at(START + 11) == [(START + 11, 1)]


async def test_a_late_second_is_owed_under_the_definition_of_its_time(stage: Stage) -> None:
    await stage.change(OP_INSERT, 1, START + 0.4)
    await stage.at(START + 1)
    stage.unread = [row(OP_DELETE, 1, 1, START + 5.5), row(OP_INSERT, 2, 1, START + 8.2)]
    runs = await stage.at(START + 11)
    assert runs == [(START + n, 1) for n in (2, 3, 4, 5)] + [(START + n, 2) for n in (9, 10, 11)]


async def test_a_permit_is_given_after_what_changed_before_its_second(threads: ThreadPoolExecutor) -> None:
    """Also where the second before was drained between the conductor's look at the changes and the permit."""
    stage = Stage(threads)
    stage.conductor._fresh_until = START + 11
    drain_until(stage.wheel, START + 5)
    stage.clock.set(START + 11.5)
    await stage.change(OP_INSERT, 1, START + 5.5)
    await stage.change(OP_INSERT, 2, START + 6.5)
    await stage.conductor._permit(START + 6)
    assert (1 in stage.wheel, 2 in stage.wheel) == (True, False)
    stage.ticker.close()


async def test_on_time_a_change_takes_effect_with_the_next_second_whatever_the_servers_clock_says(
    stage: Stage,
) -> None:
    await stage.change(OP_INSERT, 1, changed_at=START + 1000)
    assert await stage.at(START + 0.9) == []
    assert await stage.at(START + 1) == [(START + 1, 1)]


async def test_what_is_owed_at_the_start_is_drained_with_the_changes_at_their_places(
    threads: ThreadPoolExecutor,
) -> None:
    """As after a restart within two seconds: the changes since the recovery point wait in the queue."""
    stage = Stage(threads)
    insert, delete = (
        (row(op, 1, 1, START + at), CURSORS[1]) for op, at in ((OP_INSERT, 0.1), (OP_DELETE, 1.5))
    )
    await stage.arrive(*insert)
    await stage.arrive(*delete)
    stage.clock.set(START + 2.9)
    running = asyncio.create_task(stage.conductor.run())
    await stage.idle()
    assert stage.publisher.runs == [(START + 1, 1)]
    assert stage.read_at == [START]
    stage.conductor.stop()
    await running


async def test_after_a_stall_the_log_is_read_before_the_owed_seconds_are_drained(stage: Stage) -> None:
    await stage.at(START + 1)
    assert stage.read_at == []
    await stage.at(START + 60)
    assert stage.read_at == [START + 1]


async def test_the_recovery_mark_is_the_cursor_that_the_settled_second_was_drained_under(
    stage: Stage,
) -> None:
    await stage.at(START + 1)
    assert stage.settlement.mark == CURSORS[0]
    await stage.change(OP_INSERT, 1, START + 1.5)
    await stage.at(START + 2)
    assert (stage.settlement.watermark, stage.settlement.mark) == (START + 2, CURSORS[1])


async def test_a_truncate_empties_the_wheel_at_its_place_among_the_changes(stage: Stage) -> None:
    await stage.change(OP_INSERT, 1, START + 0.1)
    await stage.change(OP_TRUNCATE, 0, START + 0.2)
    await stage.change(OP_INSERT, 2, START + 0.3)
    assert await stage.at(START + 1) == [(START + 1, 2)]


async def test_changes_are_counted_by_operation(stage: Stage) -> None:
    await stage.change(OP_INSERT, 1, START + 0.1)
    await stage.change(OP_UPDATE, 1, START + 0.2, every_s=2)
    await stage.change(OP_DELETE, 1, START + 0.3)
    await stage.at(START + 0.9)
    counts = {op: stage.metrics.changes.labels(op)._value.get() for op in ("insert", "update", "delete")}
    assert counts == {"insert": 1, "update": 1, "delete": 1}


async def test_many_small_readings_do_not_fill_the_queue(stage: Stage) -> None:
    empty = stage.judge.judge(Rows(np.empty(0, ROW), b"", ["default"], [("", "")]))
    async with asyncio.timeout(5):
        for n in range(2000):
            await stage.change(OP_INSERT, n, START + 0.1)
            await stage.changes.put(empty, CURSORS[2])
    assert not stage.changes.full
    await stage.at(START + 0.9)
    assert (len(stage.wheel), stage.changes.cursor) == (2000, CURSORS[2])


async def test_a_full_queue_is_read_on_before_the_seconds_after_it_are_drained(stage: Stage) -> None:
    """The job is deleted by a change that is not read yet, because so many wait before it."""
    await stage.change(OP_INSERT, 1, START + 0.1)
    await stage.at(START + 1)
    crowd = np.repeat(row(OP_INSERT, 5, 1000, START + 2.5), ROWS_MAX)
    stage.unread = [crowd, row(OP_DELETE, 1, 1, START + 4.5)]
    runs = await stage.at(START + 9)
    assert len(stage.read_at) > 1
    assert [second for second, job in runs if job == 1] == [START + 2, START + 3, START + 4]


async def test_changes_are_applied_while_a_second_is_held_up_amid_its_draining(stage: Stage) -> None:
    """Those that were made before it: it is settled under the cursor that was applied when it began."""
    await stage.insert(*range(1000))
    stage.publisher.open.clear()
    stage.clock.set(START + 1)
    await wait_for(lambda: stage.ticker.waits_for == "room")
    assert stage.wheel.now == START
    await stage.arrive(row(OP_INSERT, 5000, 1, START + 0.9), CURSORS[2])
    await wait_for(lambda: 5000 in stage.wheel)
    stage.publisher.open.set()
    await stage.idle()
    assert (stage.settlement.watermark, stage.settlement.mark) == (START + 1, CURSORS[1])
    assert await stage.at(START + 2) != []
    assert (stage.settlement.watermark, stage.settlement.mark) == (START + 2, CURSORS[2])
    assert set(stage.publisher.runs) >= {(START + 2, 5000), *((START + 1, n) for n in range(1000))}
    assert len(stage.publisher.runs) == len(set(stage.publisher.runs))


async def test_a_publisher_that_takes_no_more_holds_the_seconds_and_after_it_the_log_is_read(
    stage: Stage,
) -> None:
    await stage.insert(*range(300))
    stage.publisher.open.clear()
    stage.clock.set(START + 1)
    await wait_for(lambda: stage.ticker.waits_for == "room")
    stage.clock.set(START + 9)
    await stage.change(OP_DELETE, 7, START + 5.5)
    await asyncio.sleep(0.05)
    assert stage.settlement.watermark == START
    assert stage.ticker.waits_for == "room"
    stage.publisher.open.set()
    await stage.idle()
    assert stage.read_at == [START + 1]
    assert [second for second, job in stage.publisher.runs if job == 7] == [START + n for n in range(1, 6)]
    assert [second for second, job in stage.publisher.runs if job == 8] == [START + n for n in range(1, 10)]


async def test_a_stop_publishes_what_is_drained_and_leaves_the_rest_of_its_second_unsettled(
    threads: ThreadPoolExecutor,
) -> None:
    stage = Stage(threads)
    running = asyncio.create_task(stage.conductor.run())
    await stage.insert(*range(1000))
    stage.publisher.open.clear()
    stage.clock.set(START + 1)
    await wait_for(lambda: stage.ticker.waits_for == "room")
    stage.conductor.stop()
    stage.publisher.open.set()
    await running
    assert len(stage.publisher.runs) == 2 * 64
    assert (stage.wheel.now, stage.settlement.watermark) == (START, START)


async def test_memory_that_stays_away_ends_the_conductor_loudly(
    threads: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(threads)
    running = asyncio.create_task(stage.conductor.run())
    await stage.insert(*range(1000))
    for every_s in (4000, 90_000):
        for job_id in range(every_s, every_s + 1500):
            await stage.change(OP_INSERT, job_id, START + 0.2, every_s)
    await stage.idle()
    fail_allocation_in(1)
    try:
        async with asyncio.timeout(60):
            while not running.done():
                stage.clock.set(stage.wheel.now + 2)
                await asyncio.wait([running], timeout=0.005)
    finally:
        fail_allocation_in(0)
    with pytest.raises(MemoryError, match="to drain second"):
        await running
    assert "trying again" in caplog.text


async def test_a_conductor_that_is_cancelled_leaves_no_thread_behind(threads: ThreadPoolExecutor) -> None:
    stage = Stage(threads)
    running = asyncio.create_task(stage.conductor.run())
    await stage.insert(1)
    running.cancel()
    await asyncio.wait([running])
    assert stage.ticker.ended
    assert stage.ticker.fileno() == -1


async def test_seconds_are_drained_on_time_while_the_loop_is_blocked_and_settled_after_it(
    threads: ThreadPoolExecutor,
) -> None:
    """Three seconds without a turn for the loop or for any other thread of Python."""
    start = int(time.time()) + 1
    stage = Stage(threads, start=start, by_hand=False)
    running = asyncio.create_task(stage.conductor.run())
    await asyncio.sleep(0.01)
    end = start + 3.5
    while time.time() < end:
        sum(range(1_000_000))  # never lets go of the GIL
    drained, settled = stage.wheel.now, stage.settlement.watermark
    assert drained >= int(end) - 1 > settled
    await wait_for(lambda: stage.settlement.watermark >= drained)
    stage.conductor.stop()
    await running
    assert stage.read_at == []


async def test_a_long_gap_is_leapt_over_between_the_changes_that_fell_into_it(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    await stage.insert(1, 2)
    await stage.at(START + 1)
    stage.unread = [row(OP_DELETE, 1, 1, START + 2000.5), row(OP_INSERT, 3, 7, START + 2000.6)]
    runs = await stage.at(START + 4000)
    each_seventh = [at for at in range(START + 2001, START + 4001) if at % 7 == job_hash(3) % 7]
    expected = {(at, 2) for at in range(START + 3910, START + 4001)}
    expected |= {(at, 3) for at in each_seventh if at >= START + 3910}
    assert set(runs) == expected
    skipped = (2000 - 1) + (3909 - 1) + sum(at < START + 3910 for at in each_seventh)
    assert stage.settlement.gaps.over == [Gap(START + 2, START + 3909, {"window": skipped})]
    assert stage.settlement.watermark == START + 4000
    assert [record.args for record in caplog.records if "beyond catch-up" in record.message] == [
        (1998,),
        (1909,),
    ]
