"""Holds what was owed against what arrives, a step of the span at a time.

The rule: a step is *closed* once a run due `OPEN_S` after its end has arrived, or the stream has ended. What
arrived in it by then is compared with what was owed. Kept of a closed step are the owed runs that had not
arrived. A run that arrives later for it is one of those, or a duplicate, or unexpected: so every duplicate is
found, however far apart the two lie. In memory are the runs of the open steps, and those not (yet) seen.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainspring.engine.verify.effect import Instants
from mainspring.engine.verify.owed import Owed, Step
from mainspring.engine.verify.refusal import CannotJudge

OPEN_S: Final = 60
"""Within so many seconds the stream is in the order of its instants, but for resends and late nodes."""

STEP_RUNS: Final = 1_500_000
STEP_MAX_S: Final = 600
ABSENT_MAX: Final = 40_000_000
LATE_MAX: Final = 1_000_000
IDS_MAX: Final = 1000
_SAMPLE_S: Final = 10


@dataclass(slots=True)
class Fault:
    """Runs of one kind of fault: all are counted, the first are kept by id."""

    count: int = 0
    ids: list[str] = field(default_factory=list)

    def add(self, ids: list[str], count: int | None = None) -> None:
        """count: where it is more than the ids given."""
        self.count += len(ids) if count is None else count
        self.ids += ids[: IDS_MAX - len(self.ids)]


class Ledger:
    """Of the span [first, stop)."""

    def __init__(self, owed: Owed, first: int, stop: int) -> None:
        self._owed, self.first, self._stop = owed, first, stop
        self.step_s = self._fitting_step()
        self._open: defaultdict[int, list[Instants]] = defaultdict(list)
        self._late: defaultdict[int, list[Instants]] = defaultdict(list)
        self._late_runs = self._closed = 0
        self._newest = first
        self.owed = self.stored = self.either = 0
        self.duplicate, self.unexpected = Fault(), Fault()
        self.absent: dict[int, Instants] = {}
        self._open_absent: dict[int, Instants] = {}

    def _fitting_step(self) -> int:
        sample_s = min(_SAMPLE_S, self._stop - self.first)
        runs = len(self._owed.step(self.first, self.first + sample_s).must)
        return int(np.clip(STEP_RUNS * sample_s // max(1, runs), 1, STEP_MAX_S))

    def first_of(self, step: int) -> int:
        """Its first instant."""
        return self.first + step * self.step_s

    def take(self, job_ids: Instants, at: Instants) -> None:
        """Runs as they stand in the stream, of whatever instants."""
        inside = (at >= self.first) & (at < self._stop)
        job_ids, at = job_ids[inside], at[inside]
        job = np.searchsorted(self._owed.history.ids, job_ids)
        known = self._known(job, job_ids)
        strangers = zip(job_ids[~known].tolist(), at[~known].tolist(), strict=True)
        self.unexpected.add([f"{job_id}@{instant}" for job_id, instant in strangers])
        self._sort(job[known], at[known])

    def _known(self, job: Instants, job_ids: Instants) -> NDArray[np.bool_]:
        ids = self._owed.history.ids
        known = job < len(ids)
        known[known] = ids[job[known]] == job_ids[known]
        return known

    def _sort(self, job: Instants, at: Instants) -> None:
        """Put the runs to their steps, and close those that are behind now."""
        if not len(at):
            return
        steps = (at - self.first) // self.step_s
        keys = (at - self.first) % self.step_s * self._owed.jobs + job
        for step in np.unique(steps).tolist():
            here = keys[steps == step]
            if step < self._closed:
                self._late[step].append(here)
                self._late_runs += len(here)
            else:
                self._open[step].append(here)
        self._newest = max(self._newest, int(at.max()))
        while self.first_of(self._closed + 1) + OPEN_S <= self._newest:
            self._close()
        if self._late_runs > LATE_MAX:
            self._look_at_late()

    def finish(self) -> None:
        """The stream has ended."""
        while self.first_of(self._closed) < self._stop:
            self._close()
        self._look_at_late()

    def _step(self, number: int) -> Step:
        return self._owed.step(self.first_of(number), min(self.first_of(number + 1), self._stop))

    def _close(self) -> None:
        number, self._closed = self._closed, self._closed + 1
        step, arrived = self._step(number), self._open.pop(number, [])
        keys = np.sort(np.concatenate(arrived)) if arrived else np.empty(0, np.int64)
        again = np.flatnonzero(keys[1:] == keys[:-1]) + 1
        self._note(self.duplicate, number, keys[again])
        self.owed += len(step.must)
        absent, absent_either = self._compare(number, step, np.delete(keys, again))
        self.absent[number], self._open_absent[number] = absent, absent_either
        if sum(map(len, self.absent.values())) > ABSENT_MAX:
            raise CannotJudge(
                f"more than {ABSENT_MAX:,} owed runs of the span are not in the stream; verify shorter spans"
            )

    def _compare(self, number: int, step: Step, keys: Instants) -> tuple[Instants, Instants]:
        """Count the distinct runs of a step; gives what of `must` and `may` is not among them."""
        in_must = np.isin(keys, step.must, assume_unique=True)
        in_may = np.isin(keys, step.may, assume_unique=True)
        self.stored += len(keys)
        self.either += int(in_may.sum())
        self._note(self.unexpected, number, keys[~in_must & ~in_may])
        absent = np.setdiff1d(step.must, keys[in_must], assume_unique=True)
        return absent, np.setdiff1d(step.may, keys[in_may], assume_unique=True)

    def _look_at_late(self) -> None:
        for number, arrived in sorted(self._late.items()):
            keys, counts = np.unique(np.concatenate(arrived), return_counts=True)
            awaited = np.isin(keys, self.absent[number]) | np.isin(keys, self._open_absent[number])
            self._find(number, keys[awaited])
            again, times = keys[(counts > awaited)], (counts - awaited)[counts > awaited]
            step = self._step(number)
            owed = np.isin(again, step.must) | np.isin(again, step.may)
            self._note(self.duplicate, number, np.repeat(again[owed], times[owed]))
            self._note(self.unexpected, number, again[~owed])
        self._late.clear()
        self._late_runs = 0

    def _find(self, number: int, keys: Instants) -> None:
        """Runs that were waited for have come after all."""
        either = self._open_absent[number]
        self.stored += len(keys)
        self.either += int(np.isin(keys, either).sum())
        self.absent[number] = np.setdiff1d(self.absent[number], keys, assume_unique=True)
        self._open_absent[number] = np.setdiff1d(either, keys, assume_unique=True)

    def _note(self, fault: Fault, number: int, keys: Instants) -> None:
        fault.add(self._owed.run_ids(keys[:IDS_MAX], self.first_of(number)), len(keys))
