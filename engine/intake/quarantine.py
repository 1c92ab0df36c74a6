"""Jobs that the engine cannot judge good: they do not fire, every other job does, and their name is told."""

import logging
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

log = logging.getLogger(__name__)

_FEW = 64


class Quarantine:
    """Job id to reason."""

    def __init__(self) -> None:
        self._reasons: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._reasons)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return iter(sorted(self._reasons.items()))

    def among(self, job_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these jobs are set aside, shape (n,)."""
        if len(self._reasons) < _FEW:
            return np.isin(job_ids, list(self._reasons))
        return np.fromiter(map(self._reasons.__contains__, job_ids.tolist()), np.bool_, len(job_ids))

    def add(self, job_id: int, reason: str) -> None:
        """Set a job aside; told once for each new reason."""
        if self._reasons.get(job_id) != reason:
            self._reasons[job_id] = reason
            log.error("job %d is quarantined and does not fire: %s", job_id, reason)

    def release(self, job_id: int) -> None:
        """This job has a good definition again, or none."""
        if self._reasons.pop(job_id, None) is not None:
            log.info("job %d left quarantine", job_id)

    def clear(self) -> None:
        """The table was truncated."""
        self._reasons.clear()
