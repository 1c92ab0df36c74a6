"""Runs beside every grid: one-shots, also those committed after their instant, and first runs soon."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mainspring.changelog_tailer import NEVER, OP_INSERT
from mainspring.engine.verify.effect import Instants
from mainspring.engine.verify.grids import window_of
from mainspring.engine.verify.history import History
from mainspring.engine.verify.runs import Runs

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
        self._known, self._sure = _runs_at(rows["run_at"], known & ~sure), _runs_at(rows["run_at"], sure)
        self._maybe = _runs_at(rows["run_at"], late & ~sure & ~known)

    def within(self, first: int, stop: int) -> OnceWithin:
        """Their runs in [first, stop)."""
        kinds = (self._known, self._sure, self._maybe)
        return OnceWithin(*(runs.where((runs.at >= first) & (runs.at < stop)) for runs in kinds))


def _is_news(history: History) -> NDArray[np.bool_]:
    """Whether a change brought the instant; what has run already does not run again for an edit."""
    changed = history.rows["seq"] != 0
    same = np.zeros(len(changed), np.bool_)
    same[1:] = (history.job[1:] == history.job[:-1]) & (
        history.rows["run_at"][1:] == history.rows["run_at"][:-1]
    )
    news: NDArray[np.bool_] = changed & ~same
    return news


class SoonWithin(NamedTuple):
    """Of a step. sure: whenever the insert took effect. maybe: unless the next change came first."""

    sure: Runs
    maybe: Runs


class Soon:
    """The first runs of new jobs that ask for one: their instants follow from the second of the insert.

    One that is applied too late for its instant comes with the next second, under its own id all the same.
    settled: up to this second all runs are, of later ones some may not be.
    """

    def __init__(self, history: History, settled: int) -> None:
        rows = history.rows
        soon = history.alive & (rows["seq"] != 0) & (rows["op"] == OP_INSERT)
        soon &= (rows["first_run_soon"] != 0) & (rows["run_at"] == NEVER)
        every = rows["every_s"].astype(np.int64)
        spread = np.where(every > 0, np.clip(every // 2, 1, _SOON_S), _SOON_S)
        lag = (history.hashes[history.job] % spread.astype(np.uint64)).astype(np.int64)
        at = rows["changed_at"] // 1_000_000 + 1 + lag
        opens, closes = window_of(rows)
        soon &= (at > opens) & (at <= closes)
        given = np.maximum(at, history.sure_after + 1)
        sure = soon & (given <= history.sure_until) & (given <= settled)
        self._sure, self._maybe = _runs_at(at, sure), _runs_at(at, soon & ~sure)

    def within(self, first: int, stop: int) -> SoonWithin:
        """Their runs in [first, stop)."""
        kinds = (self._sure, self._maybe)
        return SoonWithin(*(runs.where((runs.at >= first) & (runs.at < stop)) for runs in kinds))


def _runs_at(at: Instants, chosen: NDArray[np.bool_]) -> Runs:
    version = np.flatnonzero(chosen)
    return Runs(version, at[version])
