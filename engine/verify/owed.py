"""What a step of the span owes: runs that must be in the stream, and runs that may be.

A run is a *key* here: (instant - first instant of the step) * jobs + index of the job, one 64-bit number.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mainspring.engine.verify.crons import Crons
from mainspring.engine.verify.effect import EVER, Instants
from mainspring.engine.verify.grids import Grids
from mainspring.engine.verify.history import History
from mainspring.engine.verify.once import Once, Soon
from mainspring.engine.verify.runs import Runs, ragged


@dataclass(frozen=True, slots=True)
class Step:
    """The seconds in [first, stop). must, may: sorted keys, none in both."""

    first: int
    stop: int
    must: Instants
    may: Instants


class Owed:
    """Computes steps of one history. settled: the second up to which all runs are."""

    def __init__(self, history: History, settled: int = EVER) -> None:
        self.history = history
        self._grids, self._crons = Grids(history), Crons(history)
        self._once, self._soon = Once(history, settled), Soon(history, settled)
        self._begin = history.first_version()
        self.jobs = max(1, len(history.ids))

    def step(self, first: int, stop: int) -> Step:
        """All runs of [first, stop)."""
        once, soon = self._once.within(first, stop), self._soon.within(first, stop)
        regular = Runs.joined([self._grids.within(first, stop), self._crons.within(first, stop), once.known])
        certain = self._in_effect(regular)
        open_ = regular.where(~certain)
        agreed = self._agreed(open_, first)
        sure = Runs.joined([regular.where(certain), open_.where(agreed), once.sure, soon.sure])
        maybe = Runs.joined([open_.where(~agreed), once.maybe, soon.maybe])
        must, may = np.unique(self._keys(sure, first)), np.unique(self._keys(maybe, first))
        return Step(first, stop, must, np.setdiff1d(may, must, assume_unique=True))

    def _in_effect(self, runs: Runs) -> NDArray[np.bool_]:
        """Whether the version of each run was surely in effect at its instant."""
        history = self.history
        after, until = history.sure_after[runs.version], history.sure_until[runs.version]
        certain: NDArray[np.bool_] = (runs.at > after) & (runs.at <= until)
        return certain

    def _agreed(self, runs: Runs, first: int) -> NDArray[np.bool_]:
        """Whether every version that may have been in effect at a run's instant gives it."""
        history, job = self.history, self.history.job[runs.version]
        _, which, givers = np.unique(self._keys(runs, first), return_inverse=True, return_counts=True)
        row, place = ragged(self._begin[job + 1] - self._begin[job])
        version, at = self._begin[job][row] + place, runs.at[row]
        may = (at > history.may_after[version]) & (at <= history.may_until[version])
        agreed: NDArray[np.bool_] = givers[which] >= np.bincount(row[may], minlength=len(runs))
        return agreed

    def _keys(self, runs: Runs, first: int) -> Instants:
        return (runs.at - first) * self.jobs + self.history.job[runs.version]

    def run_ids(self, keys: Instants, first: int) -> list[str]:
        """As they stand in the stream."""
        ids, at = self.history.ids[keys % self.jobs], first + keys // self.jobs
        return [f"{job}@{instant}" for job, instant in zip(ids.tolist(), at.tolist(), strict=True)]
