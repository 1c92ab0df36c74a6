"""The conductor on a clock that the test steps: every second once, in order, and changes at their place."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from mainspring.changelog_tailer import OP_DELETE, OP_INSERT, OP_TRUNCATE, OP_UPDATE, ROW, Cursor, Rows
from mainspring.engine.applier import Applier
from mainspring.engine.changes import ROWS_MAX, ChangeQueue
from mainspring.engine.judge import Judge
from mainspring.engine.metrics import Metrics
from mainspring.engine.quarantine import Quarantine
from mainspring.engine.settlement import Settlement
from mainspring.engine.ticker import Ticker
from mainspring.wheel import NEVER, Frames, Wheel

START = 1_764_500_000
CURSORS = [Cursor(1, 1, f"{n}:{n}:") for n in range(1, 10)]


@dataclass
class SteppedClock:
    """Stands still until it is moved."""

    at: float

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


@dataclass
class RecordingPublisher:
    """Keeps (second, job id) of all that is submitted, and acknowledges it at once."""

    settlement: Settlement[Cursor]
    runs: list[tuple[int, int]] = field(default_factory=list)

    def next_number(self) -> int:
        return 0

    async def submit(self, frames: Frames) -> None:
        self.runs += [(frames.second, frames.job_id(n)) for n in range(len(frames))]
        self.settlement.settle(frames.second, len(frames))


class Stage:
    """A ticker with everything real but clock and broker."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self.clock = SteppedClock(START + 0.5)
        self.wheel = Wheel(START)
        self.metrics = Metrics()
        self.quarantine = Quarantine()
        self.judge = Judge(self.wheel, self.quarantine)
        self.changes = ChangeQueue(CURSORS[0])
        self.settlement: Settlement[Cursor] = Settlement(START, CURSORS[0])
        self.publisher = RecordingPublisher(self.settlement)
        self.refreshed = 0
        self.ticker = Ticker(
            self.wheel,
            self.publisher,  # type: ignore[arg-type]
            self.settlement,
            self.changes,
            Applier(self.wheel, self.quarantine, self.metrics, threads),
            clock=self.clock,
            metrics=self.metrics,
            threads=threads,
            read_changes=self._refresh,
        )

    async def _refresh(self) -> None:
        self.refreshed += 1
        await asyncio.sleep(0.01)

    async def change(self, op: int, job_id: int, changed_at: float, every_s: int = 1) -> None:
        """One row arrives from the log."""
        rows = row(op, job_id, every_s, changed_at)
        batch = self.judge.judge(Rows(rows, b"", ["default"], [("", "")]))
        await self.changes.put(batch, CURSORS[1])

    async def at(self, now: float) -> list[tuple[int, int]]:
        """Move the clock, tick until idle, and give the runs that this brought."""
        self.clock.at = now
        known = len(self.publisher.runs)
        while await self.ticker.run_once():
            pass
        return self.publisher.runs[known:]


def row(op: int, job_id: int, every_s: int, changed_at: float) -> NDArray[np.void]:
    rows = np.zeros(1, dtype=ROW)
    rows["op"], rows["job_id"], rows["every_s"], rows["changed_at"] = op, job_id, every_s, changed_at * 1e6
    rows["seq"], rows["enabled"] = 1 + int(changed_at - START), 1
    rows["run_at"] = rows["ends_at"] = NEVER
    rows["starts_at"] = rows["boost_until"] = -(2**63)
    rows["phase_s"] = rows["jitter_s"] = -1
    return rows


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    with ThreadPoolExecutor(1) as threads:
        yield Stage(threads)


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
    await stage.change(OP_DELETE, 1, START + 5.5)
    await stage.change(OP_INSERT, 2, START + 8.2)
    runs = await stage.at(START + 11)
    assert runs == [(START + n, 1) for n in (2, 3, 4, 5)] + [(START + n, 2) for n in (9, 10, 11)]


async def test_on_time_a_change_takes_effect_with_the_next_second_whatever_the_servers_clock_says(
    stage: Stage,
) -> None:
    await stage.change(OP_INSERT, 1, changed_at=START + 1000)
    assert await stage.at(START + 0.9) == []
    assert await stage.at(START + 1) == [(START + 1, 1)]


async def test_after_a_stall_the_log_is_read_before_the_owed_seconds_are_drained(stage: Stage) -> None:
    await stage.at(START + 1)
    assert stage.refreshed == 0
    await stage.at(START + 60)
    assert stage.refreshed == 1


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
    rows = np.repeat(row(OP_INSERT, 5, 1000, START + 2.5), ROWS_MAX)
    await stage.changes.put(stage.judge.judge(Rows(rows, b"", ["default"], [("", "")])), CURSORS[1])
    unread = asyncio.create_task(stage.change(OP_DELETE, 1, START + 4.5))
    await asyncio.sleep(0)
    assert stage.changes.full
    runs = await stage.at(START + 9)
    await unread
    assert [second for second, job in runs if job == 1] == [START + 2, START + 3, START + 4]
