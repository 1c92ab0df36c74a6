"""What a histogram of a node's metrics says, and of which stretch of time."""

from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Self

from prometheus_client.metrics_core import Metric


@dataclass(frozen=True, slots=True)
class Distribution:
    """How many values did not exceed each bound, the last of which is infinite.

    >>> Distribution((0.1, 0.2, float("inf")), (50.0, 100.0, 100.0)).quantile(0.75)
    0.15
    """

    bounds: tuple[float, ...]
    counts: tuple[float, ...]

    @classmethod
    def of(cls, histogram: Metric) -> Self:
        """As a node tells it."""
        buckets = [sample for sample in histogram.samples if sample.name.endswith("_bucket")]
        return cls(
            tuple(float(sample.labels["le"]) for sample in buckets), tuple(sample.value for sample in buckets)
        )

    def since(self, earlier: "Distribution") -> "Distribution":
        """What was counted after that one."""
        return Distribution(
            self.bounds, tuple(now - then for now, then in zip(self.counts, earlier.counts, strict=True))
        )

    @property
    def count(self) -> float:
        """All values."""
        return self.counts[-1]

    def quantile(self, share: float) -> float:
        """The value that so large a share does not exceed, taken as if each bucket were filled evenly.

        Infinite where it lies beyond the last bound.
        """
        wanted = share * self.count
        edges = pairwise(zip((0.0, *self.bounds), (0.0, *self.counts), strict=True))
        for (low, below), (high, within) in edges:
            if within >= wanted and within > below:
                part = (wanted - below) / (within - below)
                return low + (high - low) * part if isfinite(high) else high
        return 0.0
