"""Numbers that stand for cursors, from the tick thread and back."""

import pytest

from mainspring.changelog_tailer import Cursor
from mainspring.engine.marks import Marks

CURSORS = [Cursor(1, 1, f"{n}:{n}:") for n in range(1, 6)]


def test_a_mark_gives_its_cursor_back_and_the_first_is_the_one_at_the_start() -> None:
    marks = Marks(CURSORS[0])
    numbers = [marks.note(cursor) for cursor in CURSORS]
    assert numbers[0] == 0
    assert [marks.cursor_at(number) for number in numbers] == CURSORS


def test_the_same_cursor_keeps_its_mark() -> None:
    marks = Marks(CURSORS[0])
    assert marks.note(CURSORS[1]) == marks.note(CURSORS[1])
    assert marks.cursor_at(marks.note(CURSORS[1])) == CURSORS[1]


def test_seconds_that_share_a_mark_find_it_until_a_newer_one_was_asked_for() -> None:
    marks = Marks(CURSORS[0])
    older, newer = (marks.note(cursor) for cursor in CURSORS[1:3])
    assert marks.cursor_at(older) == marks.cursor_at(older) == CURSORS[1]
    assert marks.cursor_at(newer) == CURSORS[2]
    for gone in (older, newer + 1):
        with pytest.raises(ValueError, match=f"mark {gone} is not kept"):
            marks.cursor_at(gone)
