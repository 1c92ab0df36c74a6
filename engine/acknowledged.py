"""The runs that were acknowledged last, for people to look at."""

from collections import deque
from typing import NamedTuple

import numpy as np

from mainspring.engine.frame import run_id, subject
from mainspring.engine.inflight import Batch

_RUNS = 20
_LATENESSES = 4096


class Acknowledged(NamedTuple):
    """A run that the stream holds."""

    run_id: str
    subject: str
    lateness_s: float


class AcknowledgedRuns:
    """Counts all of them, and keeps the last; what a frame says is read only when somebody looks."""

    def __init__(self) -> None:
        self.count = 0
        self.duplicates = 0
        self._last: deque[tuple[Batch, int, float]] = deque(maxlen=_RUNS)
        self._lateness: deque[float] = deque(maxlen=_LATENESSES)

    def note(self, batch: Batch, index: int, lateness_s: float, *, duplicate: bool) -> None:
        """One more."""
        self.count += 1
        self.duplicates += duplicate
        self._last.append((batch, index, lateness_s))
        self._lateness.append(lateness_s)

    def last(self) -> list[Acknowledged]:
        """The newest last."""
        frames = [(batch.frame(index), lateness_s) for batch, index, lateness_s in self._last]
        return [Acknowledged(run_id(frame), subject(frame), lateness_s) for frame, lateness_s in frames]

    def lateness_quantiles(self) -> tuple[float, float]:
        """Median and 99th percentile of the last few thousand, seconds; zeros before the first."""
        if not self._lateness:
            return 0.0, 0.0
        median, high = np.percentile(np.fromiter(self._lateness, dtype=np.float64), (50, 99))
        return float(median), float(high)
