"""Gap records: one a stretch, whatever crashes in between."""

import json
from collections import Counter
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.changelog_tailer import Cursor
from mainspring.engine.broker.bucket import Bucket
from mainspring.engine.broker.connections import Broker
from mainspring.engine.config import load_settings
from mainspring.engine.failover.gaps import NOT_COUNTED, Gap, Gaps, Skipped, key_of
from mainspring.engine.failover.recovery import KEY, RecoveryPoint, RecoveryWriter, read_recovery_point
from mainspring.engine.publishing.settlement import Settlement

CURSOR = Cursor(1, 1, "1:1:")
INSTANCES = count()


def drain(settlement: Settlement[Cursor], skipped: dict[str, int], *, in_time: bool = False) -> None:
    """One second more, without runs."""
    second = settlement.watermark + 1
    settlement.begin(second, CURSOR)
    settlement.skip(second, skipped, (second, second))
    settlement.drained(second, in_time=in_time)


def skipped_in(second: int, count: int) -> Skipped:
    skipped = Skipped()
    skipped.add({"none": count}, (second, second))
    return skipped


def test_a_stretch_goes_from_the_first_second_that_skipped_to_the_last() -> None:
    settlement = Settlement(100, CURSOR)
    for skipped in ({}, {"window": 2}, {}, {"none": 1, "window": 1}, {}):
        drain(settlement, skipped)
    assert settlement.gaps.open == Gap(102, 104, {"window": 3, "none": 1})
    drain(settlement, {}, in_time=True)
    assert settlement.gaps.open is None
    assert settlement.gaps.over == [Gap(102, 104, {"window": 3, "none": 1})]


def test_two_stalls_leave_two_records() -> None:
    settlement = Settlement(100, CURSOR)
    drain(settlement, {"none": 1})
    drain(settlement, {}, in_time=True)
    drain(settlement, {"none": 1})
    drain(settlement, {}, in_time=True)
    assert [(gap.first, gap.last) for gap in settlement.gaps.over] == [(101, 101), (103, 103)]


def test_what_was_not_counted_stays_so() -> None:
    more = Skipped(Counter(window=5), 3, 3)
    assert Gap(1, 2, {"window": NOT_COUNTED}).with_skipped(more) == Gap(1, 3, {"window": None})


def test_what_a_leap_has_skipped_lies_where_it_was_due() -> None:
    settlement = Settlement(100, CURSOR)
    settlement.leapt(101, 900)
    settlement.begin(901, CURSOR)
    settlement.skip(901, {"window": 7, "none": 0}, (150, 890))
    settlement.skip(901, {"window": 0, "none": 2}, (901, 901))
    settlement.skip(901, {"window": 0}, (0, 0))
    settlement.drained(901, in_time=False)
    assert settlement.gaps.open == Gap(150, 901, {"window": 7, "none": 2})


def test_a_second_that_waits_for_an_acknowledgement_keeps_its_skips_out_of_the_gap() -> None:
    settlement = Settlement(100, CURSOR)
    settlement.begin(101, CURSOR)
    settlement.owe(101, 1)
    settlement.skip(101, {"none": 7}, (101, 101))
    settlement.drained(101, in_time=False)
    assert settlement.gaps.open is None
    settlement.settle(101)
    assert settlement.gaps.open == Gap(101, 101, {"none": 7})


def test_what_another_node_has_settled_is_in_its_gap_and_in_no_other() -> None:
    settlement = Settlement(100, CURSOR)
    settlement.settled_elsewhere(102, Gap(101, 102, {"none": 2}))
    for _ in range(3):
        drain(settlement, {"none": 1})
    assert settlement.gaps.open == Gap(101, 103, {"none": 3})


@given(
    seconds=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=30),
    crashes=st.lists(st.integers(0, 29), max_size=4),
)
def test_a_crash_at_any_second_loses_no_skip_and_counts_none_twice(
    seconds: list[tuple[int, bool]], crashes: list[int]
) -> None:
    """The bucket is what was written last; whoever comes next goes on from there, and skips the same."""
    bucket: dict[int, Gap] = {}
    gaps = Gaps()
    point: tuple[int, Gap | None] = (0, None)
    for second, (skipped, in_time) in enumerate(seconds, start=1):
        gaps.settled(skipped_in(second, skipped), in_time=in_time)
        if second in crashes:  # after the records were written, and before the recovery point is
            bucket.update({gap.first: gap for gap in gaps.over})
            gaps = Gaps(point[1])
            for again in range(point[0] + 1, second + 1):
                gaps.settled(skipped_in(again, seconds[again - 1][0]), in_time=seconds[again - 1][1])
        bucket.update({gap.first: gap for gap in gaps.over})
        gaps.over.clear()
        point = (second, gaps.open) if second % 3 else point
    told = sum(gap.skipped["none"] or 0 for gap in bucket.values())
    told += (gaps.open.skipped["none"] or 0) if gaps.open else 0
    assert told == sum(skipped for skipped, _ in seconds)


@pytest.fixture
async def bucket(nats_url: str) -> Any:
    broker = Broker(load_settings({"nats_url": nats_url, "instance": f"gaps{next(INSTANCES)}"}))
    await broker.connect()
    yield await broker.bucket()
    await broker.aclose()


async def test_a_record_is_written_before_the_recovery_point_drops_it(bucket: Bucket) -> None:
    settlement = Settlement(100, CURSOR)
    writer = RecoveryWriter(bucket, settlement)
    drain(settlement, {"none": 3})
    assert await writer.run_once()
    open_one = Gap(101, 101, {"none": 3})
    assert await read_recovery_point(bucket) == RecoveryPoint(101, CURSOR, open_one, CURSOR)
    assert await bucket.get(key_of(open_one)) is None
    drain(settlement, {}, in_time=True)
    assert await writer.run_once()
    assert await read_recovery_point(bucket) == RecoveryPoint(102, CURSOR, earlier=CURSOR)
    record = await bucket.get("gaps.101")
    assert record is not None
    assert json.loads(record) == {"from": 101, "to": 101, "skipped": {"none": 3}}
    assert settlement.gaps.over == []


async def test_a_standby_writes_nothing_and_no_watermark_below_the_other_nodes_is_written(
    bucket: Bucket,
) -> None:
    settlement = Settlement(100, CURSOR)
    assert await RecoveryWriter(bucket, settlement, lambda: False).run_once()
    settlement.settled_elsewhere(105, None)
    assert await RecoveryWriter(bucket, settlement).run_once()
    assert await bucket.get(KEY) is None
    for _ in range(5):
        drain(settlement, {})
    assert await RecoveryWriter(bucket, settlement).run_once()
    assert await read_recovery_point(bucket) == RecoveryPoint(105, CURSOR, earlier=CURSOR)
