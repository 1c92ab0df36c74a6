"""From when to when a definition is in effect, as two ranges: in the one it may be, in the other it is.

A change is dated when it is written, before its commit, and takes effect with the first second drained after
the engine has applied it. So between its date and some moment after its commit either definition may give
the runs. What bounds that moment:

* no later than its transaction's last change plus `Effect.slack_s`: the rest of the transaction, one poll of
  the log, and the second being drained;
* a bulk of changes is applied at `APPLIED_PER_S` at least;
* while Postgres was away from the engine (`Effect.away`), no later than that much after it was back.

A change is never applied before its date, but for what the clocks of Postgres and the engine differ by. In
seconds that are drained late the engine goes by the date, which lies within this.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

CLOCKS_DIFFER_S: Final = 1.0
"""As much as `mainspring doctor` lets pass."""

APPLIED_PER_S: Final = 50_000
SLACK_DEFAULT_S: Final = 2.0

EVER: Final = 2**62
"""Beyond all instants; minus that is before all."""

Instants = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Effect:
    """slack_s: seconds. away: spans (epoch seconds) in which no change could reach the engine."""

    slack_s: float = SLACK_DEFAULT_S
    away: list[tuple[float, float]] = field(default_factory=list)

    def earliest(self, changed_at: NDArray[np.float64]) -> Instants:
        """The last instant that surely belongs to the definition before each change."""
        return np.floor(changed_at - CLOCKS_DIFFER_S).astype(np.int64)

    def latest(self, transaction_until: NDArray[np.float64]) -> Instants:
        """The last instant that may still belong to the definition before it."""
        _, which, rows = np.unique(transaction_until, return_inverse=True, return_counts=True)
        applied = transaction_until + self.slack_s + rows[which] / APPLIED_PER_S
        for first, last in self.away:
            unseen = (applied >= first) & (transaction_until <= last)
            applied[unseen] = np.maximum(applied[unseen], last + self.slack_s)
        latest: Instants = np.floor(applied).astype(np.int64)
        return latest
