"""What a tailer has handed over, and from where it reads on when the connection was lost.

A server that crashes forgets transaction ids it had shown, if nothing had flushed them, and gives them to
other transactions afterwards; with `synchronous_commit` off it also forgets commits. So a tailer goes back to
the last cursor that was flushed when it lost the connection, and leaves out by seq what it has handed over.
"""

from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from mainspring.changelog_tailer.cursor import Cursor
from mainspring.changelog_tailer.errors import CursorVoid
from mainspring.changelog_tailer.layout import Rows
from mainspring.changelog_tailer.reading import LogEnd

Seqs = NDArray[np.int64]


@dataclass(slots=True)
class _Mark:
    """One completed reading that a crash of the server may still undo."""

    end: LogEnd
    seqs: Seqs


@dataclass(slots=True)
class _Replay:
    """A reading from the flushed cursor: `known` (sorted, unique) was handed over, `met` of it came again."""

    known: Seqs
    met: int = 0


@dataclass(slots=True)
class Position:
    """`cursor` is what has been handed over completely; `since` is where the next reading starts."""

    cursor: Cursor
    _flushed: Cursor = field(init=False)
    _marks: deque[_Mark] = field(init=False, default_factory=deque)
    _unfinished: list[Seqs] = field(init=False, default_factory=list)
    _replay: _Replay | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._flushed = self.cursor

    @property
    def replaying(self) -> bool:
        """Whether the connection was lost and the reading after it has not arrived."""
        return self._replay is not None

    @property
    def since(self) -> Cursor:
        """The cursor from which the next reading starts."""
        return self._flushed if self.replaying else self.cursor

    def rewind(self) -> None:
        """The connection was lost: start from the last flushed cursor."""
        seqs = [mark.seqs for mark in self._marks] + self._unfinished
        # Once each: what a reading had handed over when it broke off also stands among the next one's.
        self._replay = _Replay(np.unique(_joined(seqs)))

    def fresh(self, rows: Rows) -> Rows:
        """The rows among these that were not handed over before."""
        if self._replay is None or not len(self._replay.known):
            return rows
        old = np.isin(rows.rows["seq"], self._replay.known)
        self._replay.met += int(np.count_nonzero(old))
        return replace(rows, rows=rows.rows[~old])

    def handed_over(self, rows: Rows) -> None:
        """These have been handed over."""
        self._unfinished.append(rows.rows["seq"].copy())

    def arrive(self, end: LogEnd) -> None:
        """All up to `end` has been handed over. Raises CursorVoid where the server lost what it had shown."""
        seqs = self._unfinished
        if self._replay is not None:
            self._require_met(self._replay)
            seqs = [self._replay.known, *seqs]
            self._marks.clear()
        self._replay, self._unfinished = None, []
        self.cursor = end.cursor
        self._marks.append(_Mark(end, _joined(seqs)))
        self.flushed(end.flushed_lsn)

    def flushed(self, lsn: int) -> None:
        """The server's WAL is safe from a crash up to `lsn`."""
        while self._marks and self._marks[0].end.written_lsn <= lsn:
            self._flushed = self._marks.popleft().end.cursor

    def _require_met(self, replay: _Replay) -> None:
        lost = len(replay.known) - replay.met
        if lost:
            raise CursorVoid(
                f"the server lost {lost} changes that it had shown; the jobs have to be loaded again "
                "(synchronous_commit = on would have kept them)"
            )


def _joined(seqs: list[Seqs]) -> Seqs:
    return np.concatenate(seqs) if seqs else np.empty(0, dtype=np.int64)
