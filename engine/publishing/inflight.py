"""Runs that were sent and are not yet acknowledged: decisions only, no I/O and no clock.

A reply number is `batch << INDEX_BITS | index`, so an acknowledgement finds its run by two look-ups and no
object is kept per run. Acknowledgements come in bulk, and are crossed off a batch at a time. Time is
monotonic seconds throughout.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mainspring.engine.publishing.acks import INDEX_BITS, Acks

FRAMES_MAX = 1 << INDEX_BITS

RETRY_FIRST_S = 0.25
RETRY_MAX_S = 5.0
SILENCE_FIRST_S = 3.0


@dataclass(slots=True)
class Batch:
    """The frames of one piece, all of one second.

    due_since: the earliest second a run in it was due in, which is before `second` for what a fault had lost.
    """

    number: int
    second: int
    due_since: int
    frames: bytes
    offsets: NDArray[np.uint32]
    unacked: bytearray
    left: int
    first_sent_at: float | None = None
    last_sent_at: float = 0.0
    resend_at: float = 0.0
    wait_s: float = SILENCE_FIRST_S
    refused: str = ""
    retry_s: float = RETRY_FIRST_S

    def frame(self, index: int) -> bytes:
        """The protocol bytes of one run."""
        return self.frames[self.offsets[index] : self.offsets[index + 1]]

    def unacknowledged(self) -> bytes:
        """The frames to send again, in order; the whole buffer where none is acknowledged."""
        if self.left == len(self.unacked):
            return self.frames
        return b"".join(map(self.frame, self.open()))

    def open(self) -> list[int]:
        """Indices of the runs that wait for an acknowledgement, in order."""
        return [index for index, waiting in enumerate(self.unacked) if waiting]

    def sent(self, now: float) -> None:
        """The frames went to the socket; silence makes the next wait twice as long."""
        if self.first_sent_at is None:
            self.first_sent_at = now
        self.last_sent_at = now
        self.resend_at = now + self.wait_s
        self.wait_s = min(2 * self.wait_s, 10 * SILENCE_FIRST_S)

    def refuse(self, reason: str, now: float) -> None:
        """The broker answered that it cannot take a run now: do not wait for the silence to end.

        The first refusal of each sending makes the next wait twice as long.
        """
        self.resend_at = min(self.resend_at, now + self.retry_s)
        if not self.refused:
            self.retry_s = min(2 * self.retry_s, RETRY_MAX_S)
        self.refused = reason


class Stored(NamedTuple):
    """Runs of one batch that the stream was found to hold. newest: indices of the last of them."""

    batch: Batch
    runs: int
    duplicates: int
    newest: list[int]


@dataclass(slots=True)
class InFlight:
    """All batches that wait for acknowledgements.

    >>> flying = InFlight()
    >>> flying.next_number()
    0
    """

    runs: int = 0
    size: int = 0
    _next: int = 0
    _batches: dict[int, Batch] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Batch]:
        return iter(list(self._batches.values()))

    def __repr__(self) -> str:
        return f"InFlight(runs={self.runs}, batches={len(self._batches)}, size={self.size})"

    def next_number(self) -> int:
        """The least reply number that the first frame of the next batch may have."""
        return self._next << INDEX_BITS

    def add(
        self,
        first: int,
        second: int,
        frames: bytes,
        offsets: NDArray[np.uint32],
        *,
        due_since: int | None = None,
    ) -> Batch:
        """Take the frames of one piece, whose reply numbers begin at `first`. offsets: (runs + 1,) bytes.

        ValueError unless `first` is `next_number()`, or so many whole batches above it.
        """
        if first < self.next_number() or first % FRAMES_MAX:
            raise ValueError(
                f"reply number {first}: give {self.next_number()} or a multiple of {FRAMES_MAX} above it"
            )
        runs = len(offsets) - 1
        due_since = second if due_since is None else due_since
        number = first >> INDEX_BITS
        batch = Batch(number, second, due_since, frames, offsets, bytearray(b"\x01" * runs), runs)
        self._batches[batch.number] = batch
        self._next = batch.number + 1
        self.runs += runs
        self.size += len(frames)
        return batch

    def find(self, number: int) -> tuple[Batch, int] | None:
        """The batch and index of a reply number, None when it is not waited for (any more)."""
        batch = self._batches.get(number >> INDEX_BITS)
        index = number & (FRAMES_MAX - 1)
        if batch is None or index >= len(batch.unacked) or not batch.unacked[index]:
            return None
        return batch, index

    def cross_off(self, acks: Acks) -> Iterator[Stored]:
        """Settle all that is acknowledged; numbers that nobody waits for are passed over."""
        first = 0
        while first < len(acks):
            batch = self._batches.get(acks.batch(first))
            if batch is None:
                first = acks.skip_batch(first)
                continue
            first, runs, duplicates, newest = acks.cross_off(first, batch.unacked)
            if runs:
                self._settled(batch, runs)
                yield Stored(batch, runs, duplicates, newest)

    def settle(self, batch: Batch, index: int) -> None:
        """This run, which was open, needs no more work."""
        batch.unacked[index] = 0
        self._settled(batch, 1)

    def drop(self, batch: Batch) -> int:
        """Forget the batch, also for who still holds it; gives how many runs of it were open."""
        left = batch.left
        batch.unacked = bytearray(len(batch.unacked))
        self._settled(batch, left)
        return left

    def _settled(self, batch: Batch, runs: int) -> None:
        """A batch without open runs is forgotten."""
        batch.left -= runs
        self.runs -= runs
        if batch.left == 0:
            del self._batches[batch.number]
            self.size -= len(batch.frames)

    def overdue(self, now: float) -> list[Batch]:
        """Batches to send (again), oldest first."""
        return [batch for batch in self._batches.values() if batch.resend_at <= now]

    def oldest_sent_at(self) -> float | None:
        """When the oldest batch that was ever sent went out first."""
        for batch in self._batches.values():
            if batch.first_sent_at is not None:
                return batch.first_sent_at
        return None
