"""Which seconds are settled, and so how far the watermark has come.

A second is settled when it is over, drained by every shard, and each of its runs is acknowledged,
or was skipped and counted. The watermark is the newest second such that it and every earlier one is
settled: one lost acknowledgement holds it, however many later seconds are complete.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from mainspring.engine.failover.gaps import Gap, Gaps, Skipped

Mark = TypeVar("Mark")

EARLIER_S: Final = 12
"""`earlier` lies so many seconds back: longer than a first run soon waits, and clocks may differ by some."""


@dataclass(slots=True)
class _Second(Generic[Mark]):
    second: int
    mark: Mark
    unsettled: int
    drained: bool = False
    in_time: bool = True
    skipped: Skipped = field(default_factory=Skipped)


class Settlement(Generic[Mark]):
    """Counts what each second still owes.

    `mark` is whatever the caller wants to know of the watermark's second, here the cursor of the change
    log that was applied when it was drained: a recovery point has to name both from one moment. `gaps` is
    what was skipped up to the watermark, of that moment too. `elsewhere` is the last second that another node
    has settled: what this one drains up to there is its own affair. `earlier` is the mark of some seconds
    before the watermark, or an older one.
    """

    def __init__(
        self, watermark: int, mark: Mark, gap: Gap | None = None, *, earlier: Mark | None = None
    ) -> None:
        self.watermark = watermark
        self.mark = mark
        self.gaps = Gaps(gap)
        self.elsewhere = watermark
        self._marks = deque([mark if earlier is None else earlier] * EARLIER_S + [mark], EARLIER_S + 1)
        self._open: dict[int, _Second[Mark]] = {}
        self._leaps: dict[int, int] = {}

    @property
    def earlier(self) -> Mark:
        """What `mark` was `EARLIER_S` before the watermark, as far as it is known."""
        return self._marks[0]

    def __repr__(self) -> str:
        waiting = [(second.second, second.unsettled) for second in self._open.values()]
        return f"Settlement(watermark={self.watermark}, open={waiting})"

    @property
    def newest(self) -> int:
        """The last second that was begun: what a leap after it owes is nobody's yet."""
        return next(reversed(self._open), self.watermark)

    def begin(self, second: int, mark: Mark) -> None:
        """Open `second`, the one after the last that was begun, or that one again if it is not drained.

        After a leap it stands for all the seconds leapt over.
        """
        newest = self.newest
        if second == newest and self._open and not self._open[second].drained:
            return
        if newest + 1 not in (second, self._leaps.get(second)):
            raise ValueError(f"second {second} does not follow {newest}: seconds are drained in order")
        self._leaps.pop(second, None)
        self._open[second] = _Second(second, mark, unsettled=0)

    def leapt(self, first: int, last: int) -> None:
        """The wheel has leapt over these: what they owe comes with the second after them."""
        self._leaps[last + 1] = first

    def owe(self, second: int, runs: int) -> None:
        """`runs` of `second` went to the publisher."""
        self._at(second).unsettled += runs

    def settle(self, second: int, runs: int = 1) -> None:
        """`runs` of `second` are acknowledged for good."""
        self._at(second).unsettled -= runs
        self._advance()

    def skip(self, second: int, skipped: Mapping[str, int], span: tuple[int, int]) -> None:
        """Catch-up left so many runs out while `second` was drained, by reason, due in that span."""
        self._at(second).skipped.add(skipped, span)

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
        self._leaps.clear()
        self._marks.extend([mark] * len(self._marks))
        self.watermark = self.elsewhere = watermark
        self.mark = mark

    def _at(self, second: int) -> _Second[Mark]:
        if second not in self._open:
            raise ValueError(f"second {second} is not open: {self!r}")
        return self._open[second]

    def _advance(self) -> None:
        while self._open:
            oldest = next(iter(self._open.values()))
            if not oldest.drained or oldest.unsettled:
                return
            self._settled(self._open.pop(oldest.second))

    def _settled(self, settled: _Second[Mark]) -> None:
        self._marks.extend([settled.mark] * min(settled.second - self.watermark, len(self._marks)))
        self.watermark, self.mark = settled.second, settled.mark
        if settled.second > self.elsewhere:
            self.gaps.settled(settled.skipped, in_time=settled.in_time)
