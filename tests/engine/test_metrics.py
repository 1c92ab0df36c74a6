"""The metrics that are counted in bulk say what the client library would say."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from mainspring.engine.metrics import BulkHistogram, Metrics

BUCKETS = (0.5, 1.0, 2.0)


VALUES = st.sampled_from([-1.0, 0.0, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 100.0])


@given(st.lists(st.tuples(VALUES, st.integers(1, 5))))
def test_a_bulk_histogram_is_exposed_like_the_librarys_own(values: list[tuple[float, int]]) -> None:
    own, library = CollectorRegistry(), CollectorRegistry()
    histogram = BulkHistogram("late", "text", buckets=BUCKETS)
    own.register(histogram)
    reference = Histogram("late", "text", buckets=BUCKETS, registry=library)
    for value, times in values:
        histogram.observe(value, times)
        for _ in range(times):
            reference.observe(value)
    assert samples(own) == samples(library)


def samples(registry: CollectorRegistry) -> list[str]:
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if not line.startswith("#") and "_created" not in line]


def test_two_nodes_in_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.acknowledged.inc(3)
    assert b"mainspring_runs_acknowledged_total 0.0" in other.render()
