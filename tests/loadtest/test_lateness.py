"""The load test of lateness: every run is accounted for, every figure is measured, and it can fail."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Ended, mainspring
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from mainspring.engine.metrics import Metrics
from mainspring.loadtest.distribution import Distribution
from mainspring.loadtest.lateness import Limits, figures_of, jobs_for
from mainspring.loadtest.steady import Look

SHORT = ("--rate", "200", "--minutes", "0.05", "--warm-up-s", "1", "--raw-runs", "4000")
LAX = ("--p99-ms", "60000", "--p999-ms", "60000")
PROMISED = {"jobs", "seconds", "runs_per_s", "raw_runs_per_s", "burst_ms", "p50_ms", "p99_ms", "p999_ms"}
ROUNDING = 1e-9


def lateness(folder: Path, *flags: str) -> Ended:
    return mainspring("loadtest", "lateness", *SHORT, "--embedded", str(folder), *flags)


def test_every_figure_is_measured_and_nothing_is_left(server_folder: Path) -> None:
    ended = lateness(server_folder, *LAX, "--json")
    assert ended.status in (0, 1), ended.err  # a busy machine may be later than its own bursts allow
    (figures,) = ended.json_lines()
    assert all(figures[name] > 0 for name in PROMISED)
    assert None not in figures.values()
    assert figures["runs"] == pytest.approx(200 * figures["seconds"], rel=0.2)
    assert figures["p50_ms"] <= figures["p99_ms"] <= figures["p999_ms"]
    assert figures["holds"] == (ended.status == 0)
    assert list(server_folder.iterdir()) == []


def test_runs_later_than_the_limit_fail_it(server_folder: Path) -> None:
    ended = lateness(server_folder, "--p99-ms", "0")
    assert ended.status == 1, ended.err
    assert "p99_limit_ms" in ended.out


def told(values_s: Sequence[float]) -> Distribution:
    """What a node would tell that has counted these."""
    metrics = Metrics()
    for value_s in values_s:
        metrics.lateness.observe(value_s)
    families = text_string_to_metric_families(metrics.render().decode())
    (histogram,) = (family for family in families if family.name == "mainspring_lateness_seconds")
    return Distribution.of(histogram)


@given(
    st.lists(st.floats(0.05, 0.9, exclude_min=True), min_size=20, max_size=60),
    st.sampled_from([0.5, 0.9, 0.99, 0.999]),
)
def test_a_quantile_is_told_within_a_step_of_the_histogram(values_s: list[float], share: float) -> None:
    wanted = share * len(values_s)
    exact = sorted(values_s)[math.ceil(wanted - ROUNDING) - 1 : math.floor(wanted + ROUNDING) + 1]
    assert exact[0] * 0.8 <= told(values_s).quantile(share) <= exact[-1] * 1.2


def test_what_was_counted_before_is_left_out() -> None:
    before, after = told([0.5] * 10), told([0.5] * 10 + [0.1] * 10)
    assert after.since(before).count == 10
    assert after.since(before).quantile(0.99) == pytest.approx(0.1, rel=0.1)
    assert after.since(after).quantile(0.99) == 0


def test_what_lies_beyond_every_bound_is_infinitely_late() -> None:
    assert told([0.1, 5000.0]).quantile(0.99) == float("inf")


NOTHING_YET = Look(
    at=0.0,
    due=0,
    acknowledged=0,
    duplicates=0,
    left_out=0,
    errors=0,
    in_flight=0,
    lateness=told([]),
    node_cpu_s=0.0,
    server_cpu_s=0.0,
    others_cpu_s=0.0,
)


@pytest.mark.parametrize(
    ("late_s", "raw_per_s", "limit_ms", "holds"),
    [
        (0.24, 1000, 250, True),
        (0.26, 1000, 250, False),
        (0.15, 10_000, 180, True),
        (0.20, 10_000, 180, False),  # the broker could have had them sooner
    ],
)
def test_the_limit_is_the_lesser_of_the_promise_and_what_the_broker_allows(
    late_s: float, raw_per_s: float, limit_ms: float, holds: bool
) -> None:
    last = replace(NOTHING_YET, at=1.0, acknowledged=1000, lateness=told([late_s] * 1000))
    figures = figures_of([NOTHING_YET, last], raw_per_s, Limits())
    assert figures["p99_limit_ms"] == pytest.approx(limit_ms)
    assert figures["holds"] is holds


def test_so_many_jobs_give_the_rate() -> None:
    assert jobs_for(20_000) == pytest.approx(20_000 / 15.7 * 1000, rel=0.01)
