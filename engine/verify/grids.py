"""Runs on a grid, of intervals and of boosts: every instant that is congruent to the phase."""

import numpy as np
from numpy.typing import NDArray

from mainspring.changelog_tailer import BEGINNING, NEVER
from mainspring.engine.verify.effect import EVER, Instants
from mainspring.engine.verify.history import History
from mainspring.engine.verify.runs import Runs, ragged


class Grids:
    """All grids of a history, each with the instants in (after, until] that its version may give."""

    def __init__(self, history: History) -> None:
        rows, hashes = history.rows, history.hashes[history.job]
        boosted = history.alive & (rows["boost_every_s"] > 0)
        own = history.alive & (rows["every_s"] > 0)
        opens, closes = window_of(rows)
        boost_ends = np.where(boosted, np.clip(rows["boost_until"], -EVER, EVER) - 1, -EVER)
        self._version = np.concatenate([np.flatnonzero(own), np.flatnonzero(boosted)])
        self._every = np.concatenate([rows["every_s"][own], rows["boost_every_s"][boosted]]).astype(np.int64)
        hashed = (hashes[self._version] % self._every.astype(np.uint64)).astype(np.int64)
        phases = np.concatenate([rows["phase_s"][own], np.full(int(boosted.sum()), -1)])
        self._phase = np.where(phases >= 0, phases, hashed)
        after = np.concatenate([np.maximum(opens, boost_ends)[own], opens[boosted]])
        until = np.concatenate([closes[own], np.minimum(closes, boost_ends)[boosted]])
        self._after = np.maximum(after, history.may_after[self._version])
        self._until = np.minimum(until, history.may_until[self._version])

    def within(self, first: int, stop: int) -> Runs:
        """Their runs in [first, stop)."""
        after = np.maximum(self._after, first - 1)
        until = np.minimum(self._until, stop - 1)
        start = after + 1 + (self._phase - after - 1) % self._every
        counts = np.maximum((until - start) // self._every + 1, 0)
        row, place = ragged(counts)
        return Runs(self._version[row], start[row] + place * self._every[row])


def window_of(rows: NDArray[np.void]) -> tuple[Instants, Instants]:
    """The instants in (opens, closes] that each row's window leaves."""
    starts, ends = rows["starts_at"], rows["ends_at"]
    opens = np.where(starts == BEGINNING, -EVER, np.clip(starts, -EVER, EVER) - 1)
    closes = np.where(ends == NEVER, EVER, np.clip(ends, -EVER, EVER) - 1)
    return opens, closes
