"""The runs that were acknowledged last, for people to look at."""

from collections import deque
from itertools import islice
from typing import NamedTuple

import numpy as np

from mainspring.engine.publishing.frame import run_id, subject
from mainspring.engine.publishing.inflight import Batch, Stored

_RUNS = 20
_LATENESSES = 4096


class Acknowledged(NamedTuple):
    """A run that the stream holds."""

    run_id: str
    subject: str
    lateness_s: float


class AcknowledgedRuns:
    """Counts all of them, and keeps the last; what a frame says is read only when somebody looks.

    Both deques hold an entry for some runs of one batch at a time, which have their lateness in common.
    """

    def __init__(self) -> None:
        self.count = 0
        self.duplicates = 0
        self._last: deque[tuple[Batch, list[int], float]] = deque(maxlen=_RUNS)
        self._lateness: deque[tuple[float, int]] = deque(maxlen=_LATENESSES)

    def note(self, stored: Stored, lateness_s: float) -> None:
        """Some more."""
        self.count += stored.runs
        self.duplicates += stored.duplicates
        self._last.append((stored.batch, stored.newest, lateness_s))
        self._lateness.append((lateness_s, stored.runs))

    def last(self) -> list[Acknowledged]:
        """The newest last."""
        newest_first = (
            (batch.frame(index), lateness_s)
            for batch, indices, lateness_s in reversed(self._last)
            for index in reversed(indices)
        )
        frames = list(islice(newest_first, _RUNS))
        return [Acknowledged(run_id(frame), subject(frame), late_s) for frame, late_s in reversed(frames)]

    def lateness_quantiles(self) -> tuple[float, float]:
        """Median and 99th percentile of the last few thousand, seconds; zeros before the first."""
        if not self._lateness:
            return 0.0, 0.0
        lateness, runs = (np.array(column[::-1]) for column in zip(*self._lateness, strict=True))
        enough = int(np.searchsorted(np.cumsum(runs), _LATENESSES)) + 1
        newest_first = np.repeat(lateness[:enough], runs[:enough])[:_LATENESSES]
        median, high = np.percentile(newest_first, (50, 99))
        return float(median), float(high)
