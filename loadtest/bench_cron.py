"""The cron evaluator: `pytest loadtest/bench_cron.py --benchmark-only`. Its promises, which no test may time:

* a warm `next`, which finds its answer in the memo, costs at most 2 us, the call from Python included;
* no call takes 5 ms, however rare the date; one that finds nothing in the memo costs some microseconds;
* jobs that share an expression share its evaluations: one for each outcome that fires.
"""

import itertools
import json
from collections.abc import Iterator

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from mainspring.engine.cli.next_batch import answer
from mainspring.loadtest.fleet import NOW
from mainspring.wheel import parse_cron
from mainspring.wheel.cron_eval import CompiledCron

TYPICAL = "*/15 9-17 * * MON-FRI"
RARE = ("0 0 29 2 *", "0 0 29 2 0", "0 0 29 2 */7", "0 0 * 2 MON#5", "0 0 L-28 2 ?", "59 59 23 29 2 */7")
ZONE = "America/New_York"
LINES = 20_000


def asked_in_turn(instants: int, step: int) -> Iterator[int]:
    """Moments that never stop, so that a round can be as long as it likes."""
    return itertools.cycle(range(NOW, NOW + instants * step, step))


@pytest.mark.benchmark(group="next, warm")
@pytest.mark.parametrize("expression", [TYPICAL, "H H * * *"])
def test_warm(benchmark: BenchmarkFixture, expression: str) -> None:
    cron = CompiledCron(expression, ZONE)
    cron.next(NOW, 42)
    benchmark(cron.next, NOW, 42)


@pytest.mark.benchmark(group="next, evaluated")
@pytest.mark.parametrize("expression", [TYPICAL, "* * * * * *", "H H * * *", *RARE])
def test_evaluated(benchmark: BenchmarkFixture, expression: str) -> None:
    cron = CompiledCron(expression, ZONE)
    moments = asked_in_turn(1000, 40 * 86_400)
    benchmark(lambda: cron.next_unremembered(next(moments), 42))


@pytest.mark.benchmark(group="next, a memo that starts afresh")
@pytest.mark.parametrize("expression", [TYPICAL, *RARE[:3]])
def test_afresh(benchmark: BenchmarkFixture, expression: str) -> None:
    cron = CompiledCron(expression, ZONE)
    moments = asked_in_turn(1000, 40 * 86_400)
    benchmark(lambda: cron.next(next(moments)))


@pytest.mark.benchmark(group="a fire of 100,000 jobs")
@pytest.mark.parametrize("expression", ["0 * * * *", "H * * * *", "H H H * * *"])
def test_one_expression(benchmark: BenchmarkFixture, expression: str) -> None:
    """The last one has 86,400 outcomes, more than the shared table has places."""
    cron = CompiledCron(expression, ZONE)
    hours = asked_in_turn(10_000, 3600)

    def fire() -> None:
        hour, ask = next(hours), cron.next
        for job_id in range(100_000):
            ask(hour, job_id)

    started_with = cron.evaluations
    benchmark.pedantic(fire, rounds=5, warmup_rounds=1)  # type: ignore[no-untyped-call]
    benchmark.extra_info["evaluations"] = (cron.evaluations - started_with) / 6


@pytest.mark.benchmark(group="reading an expression")
@pytest.mark.parametrize("read", [parse_cron, lambda expression: CompiledCron(expression, ZONE)])
def test_read(benchmark: BenchmarkFixture, read: object) -> None:
    distinct = itertools.cycle(
        f"{m} {h}-{h + 3}/2 * {d} *" for m in range(60) for h in range(20) for d in range(1, 13)
    )
    assert callable(read)
    benchmark(lambda: read(next(distinct)))


@pytest.mark.benchmark(group=f"{LINES:,} lines of `next --batch`")
@pytest.mark.parametrize("kind", ["every_s", "cron"])
def test_batch(benchmark: BenchmarkFixture, kind: str) -> None:
    rows = (
        {"every_s": i % 86_400 + 1, "id": i, "anchor": 0, "from": NOW}
        if kind == "every_s"
        else {"cron": f"{i % 60} {i // 60 % 24} {i // 1440 + 1} * *", "tz": ZONE, "from": NOW}
        for i in range(LINES)
    )
    lines = [json.dumps(row).encode() for row in rows]
    benchmark.pedantic(lambda: [answer(line) for line in lines], rounds=3)  # type: ignore[no-untyped-call]
    if benchmark.stats is not None:
        benchmark.extra_info["lines_per_s"] = LINES / benchmark.stats.stats.min
