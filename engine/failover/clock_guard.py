"""Whether the wall clock can be believed: after a step nothing is published until a second clock agrees.

The tick thread itself sees a step, wall time against the time since boot, and waits (`Ticker.trust`). The
guard asks the clocks of the servers, and lets it go on when one of them agrees. A clock that comes back by
itself needs nobody. A start asks first of all: what the clock did before nobody saw.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from nats.errors import Error as NatsError

from mainspring.changelog_tailer import LOST, ChangeLogError
from mainspring.engine.clock import Clock
from mainspring.wheel import Ticker

log = logging.getLogger(__name__)

AGREES_S: Final = 5.0
"""Two clocks that are no further apart agree; a step that is no larger is none."""

_LOOK_S = 0.2
_ASK_EVERY_S = 1.0
_ANSWER_S = 4.0

Ask = Callable[[], Awaitable[float]]


class ClockWentBack(Exception):
    """A second clock agrees that it is earlier than what has been drained: the wheel has to begin anew."""


class ClockGuard:
    """others: what gives the time of a second clock, by its name, epoch seconds."""

    def __init__(self, clock: Clock, others: Mapping[str, Ask]) -> None:
        self._clock = clock
        self._others = others
        self._offset = self._now_offset()
        self._told = False
        self.doubt = ""

    def __repr__(self) -> str:
        return f"ClockGuard(doubt={self.doubt!r})"

    async def settle(self) -> None:
        """Wait until a second clock agrees; `doubt` says meanwhile what is wrong."""
        while not await self.agreed():
            await asyncio.sleep(_ASK_EVERY_S)

    async def agreed(self) -> bool:
        """Ask all others whether the clock is right; from then on it is trusted as it was then."""
        offset = self._now_offset()
        answers = await asyncio.gather(*(self._compare(name, ask) for name, ask in self._others.items()))
        # A step while they were asked makes the answers worthless.
        if "" in answers and abs(self._now_offset() - offset) <= AGREES_S:
            self._trust()
            return True
        self.doubt = f"the clock may be wrong: {'; '.join(answer for answer in answers if answer)}"
        if not self._told:
            self._told = True
            log.warning("nothing is published, for %s. Mend: set the clock of this machine", self.doubt)
        return False

    async def watch(self, ticker: Ticker, drained: Callable[[], int], *, window_s: float) -> None:
        """For ever. Raises ClockWentBack when the clock is rightly earlier than what is `drained`."""
        ticker.trust(self._offset)
        while True:
            await asyncio.sleep(_LOOK_S)
            if ticker.waits_for != "step":
                self._note_trusted()
                continue
            if await self.agreed():
                self._require_not_drained(drained(), window_s)
                ticker.trust(self._offset)
            else:
                await self._back_or_later(ticker)

    async def _back_or_later(self, ticker: Ticker) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + _ASK_EVERY_S
        while ticker.waits_for == "step" and loop.time() < until:
            await asyncio.sleep(_LOOK_S)

    def _require_not_drained(self, drained: int, window_s: float) -> None:
        ahead_s = drained - self._clock.now()
        if ahead_s > min(window_s, AGREES_S):
            raise ClockWentBack(f"the clock was {ahead_s:.0f} s ahead, and is right now")

    def _note_trusted(self) -> None:
        """The thread follows what the clock is moved by from look to look."""
        offset = self._now_offset()
        if abs(offset - self._offset) <= AGREES_S:
            self._trust()

    def _trust(self) -> None:
        if self._told:
            log.warning("the clock is right again")
        self._offset, self._told, self.doubt = self._now_offset(), False, ""

    def _now_offset(self) -> float:
        return self._clock.now() - self._clock.boot()

    async def _compare(self, name: str, ask: Ask) -> str:
        """Empty where it agrees, else what it says."""
        asked_at = self._clock.now()
        try:
            async with asyncio.timeout(_ANSWER_S):
                there = await ask()
        except (NatsError, *LOST, ChangeLogError) as error:
            return f"{name} does not answer ({str(error) or 'in time'})"
        off_s = min(there - asked_at, 0.0) or max(there - self._clock.now(), 0.0)
        if abs(off_s) <= AGREES_S:
            return ""
        return f"{name} is {abs(off_s):.0f} s {'ahead of' if off_s > 0 else 'behind'} it"
