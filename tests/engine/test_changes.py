"""The queue says that the wheel is exactly at its cursor when it is, and never between two cursors."""

import asyncio

import numpy as np

from mainspring.changelog_tailer import Cursor
from mainspring.engine.intake.changes import SLICE_ROWS, ChangeQueue
from mainspring.engine.intake.judge import Batch
from mainspring.wheel import DEFINITION

A, B, C = (Cursor(1, 1, f"{n}:{n}:") for n in (1, 2, 3))
NOW = 100


def page(rows: int) -> Batch:
    return Batch(np.zeros(rows, DEFINITION), b"", np.zeros(rows), np.ones(rows, np.uint8))


def apply_slice(queue: ChangeQueue) -> None:
    batch = queue.ready(NOW, NOW)
    assert batch is not None
    queue.applied(len(batch))


async def test_a_look_is_had_at_once_at_rest_and_only_after_the_end_of_a_reading_otherwise() -> None:
    queue, seen = ChangeQueue(A), list[Cursor]()
    queue.when_exact(lambda: seen.append(queue.cursor))
    assert seen == [A]
    await queue.put(page(2 * SLICE_ROWS), A)  # a page within a reading carries the cursor before it
    queue.when_exact(lambda: seen.append(queue.cursor))
    assert seen == [A, A]  # it waits: nothing of it is applied yet
    apply_slice(queue)
    queue.when_exact(lambda: seen.append(queue.cursor))
    apply_slice(queue)
    assert len(seen) == 2
    await queue.put(page(5), A)
    apply_slice(queue)
    assert len(seen) == 2
    await queue.put(page(0), B)
    assert seen == [A, A, B]


async def test_a_look_is_not_had_while_a_slice_is_being_applied() -> None:
    queue, seen = ChangeQueue(A), list[Cursor]()
    await queue.put(page(3), B)
    batch = queue.ready(NOW, NOW)
    assert batch is not None
    queue.when_exact(lambda: seen.append(queue.cursor))
    await asyncio.sleep(0)
    assert seen == []
    queue.applied(len(batch))
    assert seen == [B]


async def test_a_reading_whose_end_joins_its_last_page_is_over_with_that_page() -> None:
    queue, seen = ChangeQueue(A), list[Cursor]()
    await queue.put(page(3), A)
    await queue.put(page(0), B)
    await queue.put(page(4), B)
    apply_slice(queue)
    queue.when_exact(lambda: seen.append(queue.cursor))
    assert seen == [B]
    apply_slice(queue)
    queue.when_exact(lambda: seen.append(queue.cursor))
    await queue.put(page(0), C)
    assert seen == [B, C]


def test_changes_that_were_read_before_leave_it_inexact_until_their_last() -> None:
    queue, seen = ChangeQueue(A), list[Cursor]()
    queue.preload([page(3), page(4)], B)
    apply_slice(queue)
    queue.when_exact(lambda: seen.append(queue.cursor))
    assert seen == []
    apply_slice(queue)
    assert seen == [B]
