"""Which seconds are settled, and so how far the watermark has come.

A second is settled when it is over, drained by every shard, and each of its runs is acknowledged,
or was skipped and counted. The watermark is the newest second such that it and every earlier one is
settled: one lost acknowledgement holds it, however many later seconds are complete.
"""

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

Mark = TypeVar("Mark")


@dataclass(slots=True)
class _Second(Generic[Mark]):
    second: int
    mark: Mark
    unsettled: int
    drained: bool = False


class Settlement(Generic[Mark]):
    """Counts what each second still owes.

    `mark` is whatever the caller wants to know of the watermark's second, here the cursor of the change
    log that was applied when it was drained: a recovery point has to name both from one moment.
    """

    def __init__(self, watermark: int, mark: Mark) -> None:
        self.watermark = watermark
        self.mark = mark
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

    def drained(self, second: int) -> None:
        """Every shard has drained `second`: it will owe nothing more."""
        self._at(second).drained = True
        self._advance()

    def _at(self, second: int) -> _Second[Mark]:
        place = second - self.watermark - 1
        if not 0 <= place < len(self._open):
            raise ValueError(f"second {second} is not open: {self!r}")
        return self._open[place]

    def _advance(self) -> None:
        while self._open and self._open[0].drained and self._open[0].unsettled == 0:
            settled = self._open.popleft()
            self.watermark, self.mark = settled.second, settled.mark
