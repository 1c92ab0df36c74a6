"""Runs beside every grid: one-shots, also those committed after their instant, and first runs soon."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mainspring.changelog_tailer import NEVER, OP_INSERT
from mainspring.engine.verify.grids import window_of
from mainspring.engine.verify.history import History
from mainspring.engine.verify.runs import Runs, ragged

LATE_ONCE_MAX_S: Final = 86_400
"""A one-shot committed no later than that after its instant runs as soon as it is applied."""

_SOON_S: Final = 5


class OnceWithin(NamedTuple):
    """Of a step. known: before their instant. sure: whenever the change took effect. maybe: neither."""

    known: Runs
    sure: Runs
    maybe: Runs


class Once:
    """One-shots. settled: up to this second all runs are, of later ones some may not be."""

    def __init__(self, history: History, settled: int) -> None:
        rows = history.rows
        opens, closes = window_of(rows)
        once = history.alive & (rows["run_at"] != NEVER)
        once &= (rows["run_at"] > opens) & (rows["run_at"] <= closes)
        known = once & (rows["run_at"] > history.may_after) & (rows["run_at"] <= history.may_until)
        late = once & _is_news(history) & (rows["run_at"] <= history.sure_after)
        late &= rows["run_at"] > history.may_after - LATE_ONCE_MAX_S
        # Applied before or after its instant, it runs, unless the next change may have come first.
        sure = late & (history.sure_after < history.sure_until) & (history.sure_after < settled)
        self._known, self._sure = _runs_of(rows, known & ~sure), _runs_of(rows, sure)
        self._maybe = _runs_of(rows, late & ~sure & ~known)

    def within(self, first: int, stop: int) -> OnceWithin:
        """Their runs in [first, stop)."""
        kinds = (self._known, self._sure, self._maybe)
        return OnceWithin(*(runs.where((runs.at >= first) & (runs.at < stop)) for runs in kinds))


def _runs_of(rows: NDArray[np.void], chosen: NDArray[np.bool_]) -> Runs:
    version = np.flatnonzero(chosen)
    return Runs(version, rows["run_at"][version])


def _is_news(history: History) -> NDArray[np.bool_]:
    """Whether a change brought the instant; what has run already does not run again for an edit."""
    changed = history.rows["seq"] != 0
    same = np.zeros(len(changed), np.bool_)
    same[1:] = (history.job[1:] == history.job[:-1]) & (
        history.rows["run_at"][1:] == history.rows["run_at"][:-1]
    )
    news: NDArray[np.bool_] = changed & ~same
    return news


class Soon:
    """The first runs of new jobs that ask for one: at which instants each may lie. One of them it is."""

    def __init__(self, history: History) -> None:
        rows = history.rows
        opens, closes = window_of(rows)
        soon = history.alive & (rows["seq"] != 0) & (rows["op"] == OP_INSERT)
        soon &= (rows["first_run_soon"] != 0) & (rows["run_at"] == NEVER)
        self._version = np.flatnonzero(soon)
        every = rows["every_s"][soon].astype(np.int64)
        spread = np.where(every > 0, np.clip(every // 2, 1, _SOON_S), _SOON_S)
        lag = (history.hashes[history.job[soon]] % spread.astype(np.uint64)).astype(np.int64)
        # Applied in the second of the change at the earliest; `may_after` allows for the clocks as well.
        self._first = np.maximum(history.may_after[soon] + 1 + lag, opens[soon] + 1)
        self._last = np.minimum(history.sure_after[soon] + 1 + lag, closes[soon])

    def within(self, first: int, stop: int) -> Runs:
        """Where they may lie in [first, stop)."""
        start, end = np.maximum(self._first, first), np.minimum(self._last, stop - 1)
        row, place = ragged(np.maximum(end - start + 1, 0))
        return Runs(self._version[row], start[row] + place)
