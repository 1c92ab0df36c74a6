"""Runs of cron jobs: base instants of each expression, spread over its window by the job's hash."""

from collections import defaultdict
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mainspring.changelog_tailer import NEVER
from mainspring.engine.verify.effect import EVER, Instants
from mainspring.engine.verify.grids import window_of
from mainspring.engine.verify.history import History
from mainspring.engine.verify.runs import Runs
from mainspring.engine.verify.wall import base_instants, first_base, last_base
from mainspring.wheel.twin import SPREAD_DEFAULT_S, Words, fields_of, words_of

_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)


class Group(NamedTuple):
    """Jobs of these share their base instants. window_s: over which they are spread."""

    words: Words
    tz: str
    window_s: int


class Crons:
    """All versions with an expression, in groups."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._hashes = history.hashes[history.job]
        opens, self._until = window_of(history.rows)
        boosted = history.rows["boost_every_s"] > 0
        boost_ends = np.where(boosted, np.clip(history.rows["boost_until"], -EVER, EVER) - 1, -EVER)
        self._after = np.maximum(np.maximum(opens, boost_ends), history.may_after)
        self._until = np.minimum(self._until, history.may_until)
        self._groups = [(group, np.array(members)) for group, members in self._grouped().items()]

    def _grouped(self) -> dict[Group, list[int]]:
        history, groups = self._history, defaultdict(list)
        for version in np.flatnonzero(history.alive & (history.rows["cron"] != 0)).tolist():
            row = history.rows[version]
            expression, tz = history.crons[row["cron"]]
            drawn = int(history.ids[history.job[version]]) if _draws(expression) else None
            window_s = int(row["jitter_s"])
            if window_s < 0:
                window_s = SPREAD_DEFAULT_S[len(fields_of(expression))]
            groups[Group(words_of(expression, drawn), tz, window_s)].append(version)
        return groups

    def within(self, first: int, stop: int) -> Runs:
        """Their runs in [first, stop)."""
        parts = [self._of_group(group, members, first, stop) for group, members in self._groups]
        return Runs.joined([part for part in parts if len(part)])

    def _of_group(self, group: Group, members: Instants, first: int, stop: int) -> Runs:
        bases, windows = bases_about(group, first, stop)
        if not len(bases):
            return Runs.none()
        at = bases + spread(self._hashes[members][:, None], windows)
        version = np.broadcast_to(members[:, None], at.shape)
        given = (at >= first) & (at < stop)
        given &= (at > self._after[members][:, None]) & (at <= self._until[members][:, None])
        return Runs(version[given], at[given])


def bases_about(group: Group, first: int, stop: int) -> tuple[Instants, Instants]:
    """The base instants whose runs may lie in [first, stop), and the window of each, cut to its gap.

    Of those before `first` only the last: the runs of each come before the next one.
    """
    bases = base_instants(group.words, group.tz, first, stop - 1)
    before = last_base(group.words, group.tz, first - group.window_s, first - 1)
    bases = bases if before is None else np.insert(bases, 0, before)
    behind = first_base(group.words, group.tz, stop, stop - 1 + group.window_s) if len(bases) else None
    following = np.append(bases[1:], NEVER if behind is None else behind)
    return bases, np.minimum(following - bases, group.window_s)


def spread(hashes: NDArray[np.uint64], windows: Instants) -> Instants:
    """(hash * window) >> 64 of windows under 2**32, in halves: the product has 96 bits."""
    wide = windows.astype(np.uint64)
    high, low = hashes >> _HALF, hashes & _LOW
    spreads: Instants = ((high * wide + (low * wide >> _HALF)) >> _HALF).astype(np.int64)
    return spreads


def _draws(expression: str) -> bool:
    """Whether an `H` stands in it, so that each job has words of its own."""
    return any(item.startswith("h") for word in fields_of(expression) for item in word.split(","))
