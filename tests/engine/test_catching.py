"""Catching up with the change log: for how long owed seconds wait for it, and when no longer."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from mainspring.engine.intake import catching
from mainspring.engine.intake.catching import Catching

ANSWER_S = 0.2
SOON_S = 0.05


@dataclass
class Log:
    """A tailer and its queue. on_wake: what becomes of the reading that is asked for, SOON_S later."""

    on_wake: Callable[["Log", float], None] = lambda _log, _began_at: None
    polled_at: float | None = None
    failed_from: float | None = None
    full: bool = False
    woken: int = 0
    timers: list[asyncio.TimerHandle] = field(default_factory=list)

    def wake(self) -> None:
        self.woken += 1
        loop = asyncio.get_running_loop()
        self.timers.append(loop.call_later(SOON_S, self.on_wake, self, loop.time()))


def succeeds(log: Log, began_at: float) -> None:
    log.polled_at = began_at


def fails(log: Log, began_at: float) -> None:
    log.failed_from = began_at


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catching, "ANSWER_S", ANSWER_S)


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_reading_that_began_after_the_call_is_waited_for() -> None:
    log = Log(succeeds, polled_at=now())
    begun = now()
    assert await Catching(log).up(log, 9)
    assert SOON_S <= now() - begun < ANSWER_S


async def test_a_reading_that_failed_and_had_begun_before_the_call_says_nothing() -> None:
    """As it is for a process that stood still while it waited for the server's answer."""
    log = Log(succeeds, failed_from=now() - 60)
    asyncio.get_running_loop().call_later(SOON_S / 2, fails, log, now() - 50)
    begun = now()
    assert await Catching(log).up(log, 70)
    assert log.polled_at is not None
    assert log.polled_at >= begun


async def test_one_that_began_after_it_says_that_the_server_is_away() -> None:
    log = Log(fails)
    begun = now()
    assert not await Catching(log).up(log, 9)
    assert now() - begun < ANSWER_S


async def test_a_server_that_says_nothing_is_waited_for_once_and_no_more_for_the_same_seconds() -> None:
    log = Log()
    waiting = Catching(log)
    begun = now()
    assert not await waiting.up(log, 9)
    assert now() - begun >= ANSWER_S
    late_s = ANSWER_S
    for _ in range(3):
        assert await waiting.up(log, late_s)
        await asyncio.sleep(0.01)
        late_s += 0.01
    assert log.woken == 1


async def test_it_is_asked_again_after_another_standstill_and_once_it_has_answered() -> None:
    log = Log()
    waiting = Catching(log)
    assert not await waiting.up(log, 9)
    await asyncio.sleep(0.05)
    log.on_wake = succeeds
    assert await waiting.up(log, 0.01)  # owed since after the last time it was asked
    assert log.woken == 2
    assert await waiting.up(log, 60)  # it has answered since it was asked in vain
    assert log.woken == 3


async def test_what_waits_already_is_enough() -> None:
    log = Log(full=True)
    begun = now()
    assert await Catching(log).up(log, 9)
    assert now() - begun < SOON_S
