"""The node's Prometheus metrics. Every label value exists from the start, so that a rate is never a gap."""

from collections.abc import Iterator
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from mainspring.wheel import FAULTS, SKIP_REASONS

KINDS = ("interval", "cron", "once", "paused")
OPS = ("insert", "update", "delete", "truncate")
PUBLISH_ERRORS = ("timeout", "no_responders", "stream_full", "refused", "disconnected")

_LATENESS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 90, 300, 3600)
_TICK_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class ArrayHistogram(Collector):
    """A histogram that takes many values at once: to observe runs singly costs more than to publish them."""

    def __init__(self, name: str, text: str, *, buckets: tuple[float, ...]) -> None:
        self._name = name
        self._text = text
        self._edges = np.array(buckets, dtype=np.float64)
        self._counts = np.zeros(len(buckets) + 1, dtype=np.int64)
        self._sum = 0.0

    def observe(self, values: NDArray[np.float64]) -> None:
        """Count values of shape (n,); each falls into the first bucket whose bound it does not exceed."""
        places = np.searchsorted(self._edges, values, side="left")
        self._counts += np.bincount(places, minlength=len(self._counts))
        self._sum += float(values.sum())

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """For the registry."""
        bounds = [*map(str, self._edges.tolist()), "+Inf"]
        below = np.cumsum(self._counts).tolist()
        buckets = list(zip(bounds, map(float, below), strict=True))
        yield HistogramMetricFamily(self._name, self._text, buckets=buckets, sum_value=self._sum)


class Metrics:
    """One registry a node, so that several nodes in one process do not meet."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._add_state()
        self._add_runs()
        self._add_changes_and_watchdog()

    def render(self) -> bytes:
        """The text exposition format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, label: str = "", values: tuple[str, ...] = ()) -> Counter:
        counter = Counter(name, text, [label] if label else [], registry=self.registry)
        for value in values:
            counter.labels(value)
        return counter

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, registry=self.registry)

    def _add_state(self) -> None:
        build = Info("mainspring_build", "The version of the engine", registry=self.registry)
        build.info({"version": version("mainspring")})
        self.active = self._gauge("mainspring_active", "1 while this node publishes runs, else 0")
        self.jobs = Gauge("mainspring_jobs", "Jobs in the wheel by kind", ["kind"], registry=self.registry)
        for kind in KINDS:
            self.jobs.labels(kind)
        self.quarantined = self._gauge(
            "mainspring_quarantined_jobs", "Jobs that do not fire because the engine cannot judge them good"
        )
        self.in_flight = self._gauge("mainspring_in_flight", "Runs sent and not yet acknowledged")
        self.watermark = self._gauge(
            "mainspring_watermark_timestamp_seconds",
            "The newest second that is settled, as are all before it",
        )

    def _add_runs(self) -> None:
        self.due = self._counter("mainspring_runs_due", "Runs that came due")
        self.acknowledged = self._counter("mainspring_runs_acknowledged", "Runs that JetStream acknowledged")
        self.duplicate = self._counter(
            "mainspring_runs_duplicate", "Acknowledged runs that the stream had already"
        )
        self.skipped = self._counter(
            "mainspring_runs_skipped",
            "Missed runs that their job's catch-up left out",
            "reason",
            SKIP_REASONS,
        )
        self.dead_letters = self._counter("mainspring_dead_letters", "Runs given up and set aside")
        self.publish_errors = self._counter(
            "mainspring_publish_errors", "Sendings without success, each sent again", "reason", PUBLISH_ERRORS
        )
        self.lateness = ArrayHistogram(
            "mainspring_lateness_seconds", "Acknowledged minus scheduled", buckets=_LATENESS_S
        )
        self.registry.register(self.lateness)
        self.tick = Histogram(
            "mainspring_tick_duration_seconds",
            "Time to drain one second out of all shards",
            buckets=_TICK_S,
            registry=self.registry,
        )
        self.tick_lateness = Histogram(
            "mainspring_tick_lateness_seconds",
            "From the edge of a second to the end of its draining",
            buckets=_LATENESS_S,
            registry=self.registry,
        )

    def _add_changes_and_watchdog(self) -> None:
        self.changes = self._counter("mainspring_changes_applied", "Change-log rows applied", "op", OPS)
        self.change_lag = self._gauge(
            "mainspring_change_lag_seconds", "Applied minus changed_at of the newest change applied"
        )
        self.sweeps = self._counter("mainspring_watchdog_sweeps", "Shards that the watchdog has proved")
        self.rearms = self._counter(
            "mainspring_watchdog_rearms", "Entries the watchdog found wrong and put right", "fault", FAULTS
        )
