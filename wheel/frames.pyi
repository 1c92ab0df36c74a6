"""Runs of a drain as protocol frames, back to back in one reusable buffer."""

import numpy as np
from numpy.typing import NDArray

SKIP_REASONS: tuple[str, ...]

class Frames:
    """What ``Wheel.drain`` fills: frames, and for each its job and instant.

    ``capacity`` is in bytes, at least 69,632 (the largest envelope); ``max_frames`` bounds the count.
    Views stay readable as long as someone holds them, but show what the next fill writes: use them up
    before ``reset``. Not for two threads at once.
    """

    def __init__(self, capacity: int = 262_144, max_frames: int = 4096) -> None: ...
    def reset(self, first: int) -> None:
        """Empty it. Frame i will carry the reply subject ``<reply prefix>.<first + i>``."""

    @property
    def first(self) -> int: ...
    @property
    def second(self) -> int:
        """The second drained into it; -2**63 after ``reset``."""

    @property
    def due_since(self) -> int:
        """The earliest second a run in it was due in: ``second``, or before it where a fault had lost an
        entry, a job was applied after its first run, or the wheel had leapt. Such runs come in frames of
        their own, so that nothing else need wait for a look at them.
        """

    @property
    def nbytes(self) -> int: ...
    @property
    def due(self) -> int:
        """Runs that came due while it was filled: those written and those skipped."""

    @property
    def skipped(self) -> dict[str, int]:
        """Runs not owed any more, by reason: one of ``SKIP_REASONS``."""

    @property
    def skipped_span(self) -> tuple[int, int]:
        """The first and the last of their instants; only where something was skipped."""

    def __len__(self) -> int: ...
    def view(self) -> memoryview:
        """All frames back to back, read-only, not copied."""

    def frame(self, i: int) -> memoryview: ...
    def job_id(self, i: int) -> int: ...
    def scheduled_at(self, i: int) -> int:
        """Epoch seconds: ``second``, or earlier for a one-shot that was committed after its instant, a
        first run whose job was applied after it, and a run that a fault had lost or the wheel leapt over.
        """

    def run_id(self, i: int) -> str: ...
    def offsets(self) -> NDArray[np.uint32]:
        """Where each frame begins in ``view``, and where the last ends: shape (len + 1,), a copy."""

    def job_ids(self) -> NDArray[np.int64]:
        """The job of each frame, shape (len,), not copied."""

    def instants(self) -> NDArray[np.int64]:
        """The scheduled instant of each frame, shape (len,), not copied."""
