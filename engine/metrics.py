"""The node's Prometheus metrics. Every label value exists from the start, so that a rate is never a gap."""

from bisect import bisect_left
from collections.abc import Iterator
from importlib.metadata import version
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from mainspring.wheel import FAULTS, SKIP_REASONS

KINDS = ("interval", "cron", "once", "paused")
OPS = ("insert", "update", "delete", "truncate")
PUBLISH_ERRORS = (
    *("timeout", "no_responders", "stream_full", "no_space", "too_many", "too_large", "no_permission"),
    *("refused", "disconnected"),
)

# In steps of a tenth where the burst of a busy second lies: a 99.9th percentile is told as closely.
_LATENESS_S = (
    *(0.005, 0.01, 0.025, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.11, 0.12, 0.135, 0.15, 0.17, 0.19, 0.21, 0.23),
    *(0.25, 0.275, 0.3, 0.33, 0.36, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1, 1.5, 2.5, 5, 10, 30, 60, 90),
    *(300, 3600),
)
_TICK_LATENESS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 90, 300, 3600)
_TICK_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class BulkCounter(Collector):
    """A counter without the library's lock: the event loop alone counts here, and reads."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text
        self.count = 0

    def inc(self, by: int = 1) -> None:
        """Count."""
        self.count += by

    def collect(self) -> Iterator[CounterMetricFamily]:
        """For the registry."""
        yield CounterMetricFamily(self._name, self._text, value=self.count)


class BulkHistogram(Collector):
    """A histogram that takes one value many times: to observe runs singly costs more than to publish them."""

    def __init__(self, name: str, text: str, *, buckets: tuple[float, ...]) -> None:
        self._name = name
        self._text = text
        self._edges = buckets
        self._counts = [0] * (len(buckets) + 1)
        self._sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count it, so many times, in the first bucket whose bound it does not exceed."""
        self._counts[bisect_left(self._edges, value)] += times
        self._sum += value * times

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """For the registry."""
        bounds = [*(str(float(edge)) for edge in self._edges), "+Inf"]
        buckets = list(zip(bounds, map(float, accumulate(self._counts)), strict=True))
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
        self.behind = self._gauge(
            "mainspring_behind_seconds", "By how much the seconds are drained late; 0 when they are on time"
        )

    def _add_runs(self) -> None:
        self.due = self._counter("mainspring_runs_due", "Runs that came due")
        self.acknowledged = BulkCounter("mainspring_runs_acknowledged", "Runs that JetStream acknowledged")
        self.duplicate = BulkCounter(
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
        self.lateness = BulkHistogram(
            "mainspring_lateness_seconds", "Acknowledged minus scheduled", buckets=_LATENESS_S
        )
        for collector in (self.acknowledged, self.duplicate, self.lateness):
            self.registry.register(collector)
        self.tick = Histogram(
            "mainspring_tick_duration_seconds",
            "Time to drain one second out of all shards",
            buckets=_TICK_S,
            registry=self.registry,
        )
        self.tick_lateness = Histogram(
            "mainspring_tick_lateness_seconds",
            "From the edge of a second to the end of its draining",
            buckets=_TICK_LATENESS_S,
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
