"""A life of several wheels, after which LeakSanitizer is asked what nobody points to any more.

`make sanitize` runs it. The check comes while the interpreter is whole: at its end it leaves much behind that
is no leak of ours. To show that the check finds anything, one leak is made on purpose at the end.
"""

import ctypes
import gc
import os
import sys
import time
from collections.abc import Callable

from wheel_life import lead
from wheel_rows import Change, Job, batch, drain_until, every, faults, put

import mainspring.wheel.wheel as compiled
from mainspring.wheel import (
    OP_DELETE,
    OP_LOAD,
    OP_UPDATE,
    Digester,
    Frames,
    ManualClock,
    Schedule,
    ScheduleError,
    Ticker,
    Wheel,
)
from mainspring.wheel.memory import fail_allocation_in

NOW = 1_764_500_000
JOBS = 3000
OPERATIONS = int(os.environ.get("OPERATIONS", "1000000"))


def job(number: int, turn: int) -> Job:
    schedules = (
        Schedule(every_s=60),
        Schedule(every_s=90_000, starts_at=NOW),
        Schedule(run_at=NOW + 30 + number),
        Schedule(cron="*/5 * * * *", tz="Europe/Vienna"),
    )
    size = (number * 37 + turn * 411) % 5000
    return Job(number, schedules[number % 4], key=f"key {number}", data='"' + "x" * size + '"')


def live() -> None:
    wheel = Wheel(NOW)
    for turn in range(4):
        changed = [Change(job(number, turn), OP_UPDATE, turn + 1) for number in range(JOBS)]
        wheel.apply(*batch(wheel, changed))
        drain_until(wheel, wheel.now + 90)
    put(wheel, *(every(number, 5) for number in range(0, JOBS, 3)), op=OP_DELETE)
    wheel.clear()
    put(wheel, *(job(number, 9) for number in range(JOBS)))
    assert faults(wheel) == {}


def fail() -> None:
    """Every way out by an error: refused definitions, refused numbers, memory that runs out in between."""
    wheel, frames = Wheel(NOW), Frames()
    refused: list[Callable[[], object]] = [
        lambda: wheel.cron("0 0 30 2 *", "UTC"),
        lambda: wheel.cron("* * * * *", "Nowhere/Land"),
        lambda: wheel.route("not a route"),
        lambda: wheel.drain(NOW, NOW, frames),
    ]
    for call in refused:
        try:
            call()
        except (ValueError, ScheduleError):
            continue
        raise AssertionError("was not refused")
    for count in range(1, 400):
        fail_allocation_in(count)
        try:
            put(Wheel(NOW), *(job(number, count) for number in range(60)))
        except MemoryError:
            continue
        finally:
            fail_allocation_in(0)


def loaded(wheel: Wheel, jobs: int, *, finishes: bool) -> None:
    definitions, texts = batch(wheel, [Change(job(number, 1), OP_LOAD) for number in range(jobs)])
    with wheel.loader() as loader:
        loader.add(definitions, texts)
        if finishes:
            loader.finish()


def load() -> None:
    """Loads that finish, that are given up, and for which memory runs out."""
    loaded(Wheel(NOW), JOBS, finishes=True)
    loaded(Wheel(NOW), JOBS, finishes=False)
    for count in range(1, 400):
        fail_allocation_in(count)
        try:
            loaded(Wheel(NOW), 60, finishes=True)
        except MemoryError:
            continue
        finally:
            fail_allocation_in(0)


def tick() -> None:
    """A ticker that is closed with pieces not taken, and one that is dropped at work; a digester amid it."""
    for closes in (True, False):
        wheel, clock = Wheel(NOW), ManualClock(NOW + 0.5)
        put(wheel, *(every(number, 1) for number in range(JOBS)))
        ticker = Ticker(wheel, late_after_s=60, buffers=4, clock=clock)
        ticker.start()
        clock.set(NOW + 20.5)
        while ticker.waits_for != "room":
            time.sleep(0.001)
        piece = ticker.take()
        assert piece is not None
        assert len(piece)
        with Digester(wheel) as digester:
            digester.walk()
        ticker.give_back(piece)
        if closes:
            ticker.close()


def leaks() -> bool:
    gc.collect()
    return bool(ctypes.CDLL(None).__lsan_do_recoverable_leak_check())


def main() -> int:
    assert "sanitize" in str(compiled.__file__), f"{compiled.__file__} is not of the build for sanitizers"
    for _ in range(3):
        live()
        fail()
        load()
        tick()
    lead(OPERATIONS)
    if leaks():
        return 1
    ctypes.CDLL(None).malloc(77)
    if not leaks():
        print("a leak made on purpose was not found: the check is blind here", file=sys.stderr)
        return 2
    print("no leaks, but for the one of 77 bytes made on purpose to see the check work")
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # the sanitizer's own check at the end would tell of the interpreter
