"""Reading on after a lost connection: nothing lost, nothing twice, and what was taken back is noticed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.changelog_tailer import ROW, Cursor, CursorVoid, Rows
from mainspring.changelog_tailer.position import Position
from mainspring.changelog_tailer.reading import LogEnd


def cursor(xmax: int) -> Cursor:
    return Cursor(1, 1, f"{xmax}:{xmax}:")


def rows(*seqs: int) -> Rows:
    found = np.zeros(len(seqs), ROW)
    found["seq"] = seqs
    return Rows(found, b"", ["default"], [("", "")])


def taken(position: Position, *seqs: int) -> list[int]:
    fresh = position.fresh(rows(*seqs))
    position.handed_over(fresh)
    return [int(seq) for seq in fresh.rows["seq"]]


def end(xmax: int, *, written: int, flushed: int) -> LogEnd:
    return LogEnd(cursor(xmax), written, flushed)


def test_a_reading_starts_where_the_last_one_ended() -> None:
    position = Position(cursor(1))
    assert taken(position, 1, 2) == [1, 2]
    position.arrive(end(5, written=100, flushed=100))
    assert position.since == position.cursor == cursor(5)


def test_after_a_loss_it_starts_from_what_was_flushed() -> None:
    position = Position(cursor(1))
    position.arrive(end(5, written=100, flushed=100))
    position.arrive(end(6, written=200, flushed=150))
    position.rewind()
    assert position.since == cursor(5)
    assert position.cursor == cursor(6)


def test_a_later_flush_makes_an_earlier_cursor_safe() -> None:
    position = Position(cursor(1))
    position.arrive(end(5, written=100, flushed=50))
    position.arrive(end(6, written=200, flushed=50))
    position.flushed(150)
    position.rewind()
    assert position.since == cursor(5)


def test_rows_that_come_again_are_left_out() -> None:
    position = Position(cursor(1))
    taken(position, 1, 3)
    position.arrive(end(5, written=100, flushed=50))
    position.rewind()
    assert taken(position, 1, 2, 3, 4) == [2, 4]
    position.arrive(end(6, written=200, flushed=200))
    assert position.since == cursor(6)


def test_rows_of_a_reading_that_broke_off_are_left_out_too() -> None:
    position = Position(cursor(1))
    assert taken(position, 1, 2) == [1, 2]
    position.rewind()
    assert taken(position, 1) == []
    position.rewind()
    assert taken(position, 1, 2, 3) == [3]
    position.rewind()
    assert taken(position, 1, 2, 3) == []
    position.arrive(end(5, written=100, flushed=0))
    position.rewind()
    assert taken(position, 1, 2, 3, 4) == [4]


def test_a_row_that_was_refused_comes_again() -> None:
    position = Position(cursor(1))
    position.fresh(rows(1))
    position.rewind()
    assert taken(position, 1) == [1]


def test_a_row_that_was_shown_and_does_not_come_again_voids_the_cursor() -> None:
    position = Position(cursor(1))
    taken(position, 1, 2)
    position.arrive(end(5, written=100, flushed=50))
    position.rewind()
    taken(position, 1, 3)
    with pytest.raises(CursorVoid, match="lost 1 changes"):
        position.arrive(end(6, written=200, flushed=200))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.booleans()), max_size=30))
def test_however_readings_break_off_each_row_comes_once_and_a_whole_log_voids_nothing(
    readings: list[tuple[int, int, bool]],
) -> None:
    """Of each reading: new rows, rows after which it breaks off (9: it does not), whether all is flushed."""
    position, logged, got = Position(cursor(0)), 0, list[int]()
    for new, broken_after, flushed in [*readings, (0, 9, True)]:
        logged += new
        seqs = range(position.since.xmax + 1, logged + 1)  # a cursor sees as many rows as its xmax says
        if broken_after < 9:
            got += taken(position, *seqs[:broken_after])
            position.rewind()
        else:
            got += taken(position, *seqs)
            position.arrive(end(logged, written=logged, flushed=logged if flushed else -1))
    assert got == list(range(1, logged + 1))
