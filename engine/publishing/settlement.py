"""Which seconds are settled, and so how far the watermark has come.

A second is settled when it is over, drained by every shard, and each of its runs is acknowledged,
or was skipped and counted. The watermark is the newest second such that it and every earlier one is
settled: one lost acknowledgement holds it, however many later seconds are complete.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from mainspring.engine.failover.gaps import Gap, Gaps

Mark = TypeVar("Mark")


@dataclass(slots=True)
class _Second(Generic[Mark]):
    second: int
    mark: Mark
    unsettled: int
    drained: bool = False
    in_time: bool = True
    skipped: Counter[str] = field(default_factory=Counter)


class Settlement(Generic[Mark]):
    """Counts what each second still owes.

    `mark` is whatever the caller wants to know of the watermark's second, here the cursor of the change
    log that was applied when it was drained: a recovery point has to name both from one moment. `gaps` is
    what was skipped up to the watermark, of that moment too. `elsewhere` is the last second that another node
    has settled: what this one drains up to there is its own affair.
    """

    def __init__(self, watermark: int, mark: Mark, gap: Gap | None = None) -> None:
        self.watermark = watermark
        self.mark = mark
        self.gaps = Gaps(gap)
        self.elsewhere = watermark
        self._open: deque[_Second[Mark]] = deque()

    def __repr__(self) -> str:
        return f"Settlement(watermark={self.watermark}, open={[(s.second, s.unsettled) for s in self._open]})"

    def begin(self, second: int, mark: Mark) -> None:
        """Open `second`, the one after the last that was begun, or that one again if it is not drained."""
        newest = self._open[-1].second if self._open else self.watermark
        if second == newest and self._open and not self._open[-1].drained:
            return
        if second != newest + 1:
            raise ValueError(f"second {second} does not follow {newest}: seconds are drained in order")
        self._open.append(_Second(second, mark, unsettled=0))

    def owe(self, second: int, runs: int) -> None:
        """`runs` of `second` went to the publisher."""
        self._at(second).unsettled += runs

    def settle(self, second: int, runs: int = 1) -> None:
        """`runs` of `second` are acknowledged for good."""
        self._at(second).unsettled -= runs
        self._advance()

    def skip(self, second: int, skipped: dict[str, int]) -> None:
        """Catch-up left so many runs out while `second` was drained, by reason."""
        self._at(second).skipped.update(skipped)

    def drained(self, second: int, *, in_time: bool = True) -> None:
        """Every shard has drained `second`: it will owe nothing more. in_time: no stall goes on with it."""
        found = self._at(second)
        found.drained, found.in_time = True, in_time
        self._advance()

    def settled_elsewhere(self, upto: int, gap: Gap | None) -> None:
        """Another node has settled all seconds up to this one; `gap` is the stretch that was open there."""
        self.elsewhere = max(self.elsewhere, upto)
        if upto > self.watermark:
            self.gaps = Gaps(gap)

    def begin_anew(self, watermark: int, mark: Mark) -> None:
        """Forget what is open: the seconds after `watermark` are drained (again)."""
        self._open.clear()
        self.watermark = self.elsewhere = watermark
        self.mark = mark

    def _at(self, second: int) -> _Second[Mark]:
        place = second - self.watermark - 1
        if not 0 <= place < len(self._open):
            raise ValueError(f"second {second} is not open: {self!r}")
        return self._open[place]

    def _advance(self) -> None:
        while self._open and self._open[0].drained and self._open[0].unsettled == 0:
            settled = self._open.popleft()
            self.watermark, self.mark = settled.second, settled.mark
            if settled.second > self.elsewhere:
                self.gaps.settled(settled.second, settled.skipped, in_time=settled.in_time)
