"""The runs that were acknowledged last, and how late they were."""

import numpy as np
import pytest

from mainspring.engine.publishing.acknowledged import AcknowledgedRuns
from mainspring.engine.publishing.inflight import Batch, InFlight, Stored


def batch(runs: int) -> Batch:
    frames = [
        b"HPUB m.run.r in.%d 1 2\r\nNATS/1.0\r\nNats-Msg-Id: %d@5\r\n\r\n" % (i, i) for i in range(runs)
    ]
    offsets = np.cumsum([0, *map(len, frames)]).astype(np.uint32)
    return InFlight().add(0, 5, b"".join(frames), offsets)


def test_the_newest_twenty_are_told_in_order_and_all_are_counted() -> None:
    acknowledged, runs = AcknowledgedRuns(), batch(100)
    acknowledged.note(Stored(runs, 70, 3, list(range(50, 70))), 0.5)
    acknowledged.note(Stored(runs, 5, 0, [70, 71, 72, 73, 74]), 0.75)
    acknowledged.note(Stored(runs, 1, 1, [99]), 1.0)
    assert (acknowledged.count, acknowledged.duplicates) == (76, 4)
    last = acknowledged.last()
    assert [run.run_id for run in last] == [f"{i}@5" for i in [*range(56, 75), 99]]
    assert [run.lateness_s for run in last] == [0.5] * 14 + [0.75] * 5 + [1.0]
    assert {run.subject for run in last} == {"m.run.r"}


def test_quantiles_are_those_of_the_last_few_thousand_runs() -> None:
    acknowledged, runs = AcknowledgedRuns(), batch(1)
    assert acknowledged.lateness_quantiles() == (0.0, 0.0)
    for _ in range(3):
        acknowledged.note(Stored(runs, 4000, 0, [0]), 9.0)
    for lateness_s, times in ((0.25, 3900), (1.0, 196)):
        acknowledged.note(Stored(runs, times, 0, [0]), lateness_s)
    assert acknowledged.lateness_quantiles() == (0.25, 1.0)
    acknowledged.note(Stored(runs, 4096, 0, [0]), 2.0)
    assert acknowledged.lateness_quantiles() == pytest.approx((2.0, 2.0))
