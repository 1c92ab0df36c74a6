"""The wheel and what else keeps timers, behind one interface, so that one bench drives all.

A rival is made with a count of jobs and gives a function: called, it lets the next `SECONDS` pass, fires what
is due in them, arms each for its next instant, and returns how many that were. The wheel does more than the
rest: it writes an envelope for every run. The others count.
"""

import asyncio
import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.base import BaseScheduler
from apscheduler.triggers.interval import IntervalTrigger

from mainspring.loadtest.draining import drain_for
from mainspring.loadtest.fleet import NOW, Fleet, intervals
from mainspring.loadtest.loading import loaded
from mainspring.wheel import Frames, interval_next, phase_of

SECONDS = 30
Drain = Callable[[], int]


def first_instants(jobs: int) -> Iterator[tuple[int, int, int]]:
    """Due, job id, interval in seconds."""
    for job_id, every_s in enumerate(intervals(np.arange(jobs)).tolist()):
        yield interval_next(every_s, phase_of(job_id, every_s), 0, NOW), job_id, every_s


def wheel(jobs: int) -> Drain:
    held, frames = loaded(Fleet(jobs)), Frames()
    return lambda: drain_for(held, frames, SECONDS)


def binary_heap(jobs: int) -> Drain:
    """`heapq`, with the one call that pops and pushes."""
    heap, now = list(first_instants(jobs)), NOW
    heapq.heapify(heap)

    def drain() -> int:
        nonlocal now
        runs, now = 0, now + SECONDS
        while heap[0][0] <= now:
            due, job_id, every_s = heap[0]
            heapq.heapreplace(heap, (due + every_s, job_id, every_s))
            runs += 1
        return runs

    return drain


def dict_wheel(jobs: int) -> Drain:
    """A dictionary of seconds, a list of jobs in each: the same idea in plain Python."""
    slots: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    now = NOW
    for due, job_id, every_s in first_instants(jobs):
        slots[due].append((job_id, every_s))

    def drain() -> int:
        nonlocal now
        runs = 0
        for second in range(now + 1, now + 1 + SECONDS):
            due = slots.pop(second, [])
            for job in due:
                slots[second + job[1]].append(job)
            runs += len(due)
        now += SECONDS
        return runs

    return drain


class SteppedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is set by hand."""

    now = float(NOW)

    def time(self) -> float:
        return self.now

    def step(self) -> None:
        """Let a second pass and call back what is due."""
        self.now += 1
        self.call_soon(self.stop)
        self.run_forever()


def event_loop(jobs: int) -> Drain:
    """`asyncio.call_at`, each callback setting its own next one."""
    loop, runs = SteppedLoop(), 0

    def fire(due: int, every_s: int) -> None:
        nonlocal runs
        runs += 1
        loop.call_at(due + every_s, fire, due + every_s, every_s)

    for due, _, every_s in first_instants(jobs):
        loop.call_at(due, fire, due, every_s)

    def drain() -> int:
        before = runs
        for _ in range(SECONDS):
            loop.step()
        return runs - before

    return drain


class UnthreadedScheduler(BaseScheduler):  # type: ignore[misc]
    """APScheduler without a thread of its own: it is here to make jobs."""

    def wakeup(self) -> None:
        """Nobody sleeps."""

    def shutdown(self, wait: bool = True) -> None:
        super().shutdown(wait)


def apscheduler(jobs: int) -> Drain:
    """APScheduler's store in memory, driven as its scheduler drives it, without handing to an executor."""
    store, now = MemoryJobStore(), NOW
    scheduler = UnthreadedScheduler(timezone=UTC)
    scheduler.add_jobstore(store)
    scheduler.start(paused=True)
    for due, job_id, every_s in sorted(first_instants(jobs)):
        start = datetime.fromtimestamp(due, UTC)
        trigger = IntervalTrigger(seconds=every_s, start_date=start, timezone=UTC)
        scheduler.add_job(print, trigger, id=str(job_id), next_run_time=start)

    def drain() -> int:
        nonlocal now
        runs = 0
        for second in range(now + 1, now + 1 + SECONDS):
            runs += _process(store, datetime.fromtimestamp(second, UTC))
        now += SECONDS
        return runs

    return drain


def _process(store: MemoryJobStore, now: datetime) -> int:
    """What APScheduler's own `_process_jobs` does with a store."""
    due: list[Any] = store.get_due_jobs(now)
    for job in due:
        run_times = job._get_run_times(now)
        job._modify(next_run_time=job.trigger.get_next_fire_time(run_times[-1], now))
        store.update_job(job)
    return len(due)
