"""Numbers for cursors: the tick thread carries a number through a second, here it becomes a cursor again."""

from mainspring.changelog_tailer import Cursor


class Marks:
    """Keeps the cursors from the oldest mark that is still asked for to the newest.

    >>> marks = Marks(loaded_at)                # is mark 0
    >>> ticker.mark = marks.note(applied_to)
    >>> marks.cursor_at(piece.mark)             # pieces come in order: older cursors are forgotten
    """

    def __init__(self, cursor: Cursor) -> None:
        self._first = 0
        self._cursors = [cursor]

    def __repr__(self) -> str:
        return f"Marks({self._first} to {self._first + len(self._cursors) - 1})"

    def note(self, cursor: Cursor) -> int:
        """The mark of this cursor, a new one unless it is the newest's."""
        if cursor != self._cursors[-1]:
            self._cursors.append(cursor)
        return self._first + len(self._cursors) - 1

    def cursor_at(self, mark: int) -> Cursor:
        """The cursor of a mark no older than the last that was asked for."""
        if not self._first <= mark < self._first + len(self._cursors):
            raise ValueError(f"mark {mark} is not kept: {self!r}")
        del self._cursors[: mark - self._first]
        self._first = mark
        return self._cursors[0]
