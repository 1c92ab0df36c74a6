"""Acknowledgements of runs in bulk: from a chunk of bytes to the runs that are stored."""

import numpy as np
from numpy.typing import NDArray

INDEX_BITS: int
"""A reply number is ``batch << INDEX_BITS | index``."""

class Acks:
    """The acknowledgements of one chunk of bytes, read for the reply inbox ``inbox``::

        acks = Acks(b"_INBOX.abc")
        stopped_at = acks.read(buffer, 0, len(buffer))
        acks.numbers, acks.duplicates

    Each `read` replaces what the one before gave. Not for two threads at once.
    """

    def __init__(self, inbox: bytes) -> None: ...
    def read(self, buffer: bytearray, at: int, end: int) -> int:
        """Read acknowledgements from byte ``at`` on, 4096 at most; gives the first byte that is left.

        It stops at ``end``, before one that ``end`` cuts, and before anything that is no acknowledgement in
        the server's own spelling. Raises IndexError for bytes outside of the buffer.
        """

    def __len__(self) -> int: ...
    @property
    def numbers(self) -> NDArray[np.int64]:
        """Reply numbers, shape (len,), in the order in which they came; a copy."""

    @property
    def duplicates(self) -> NDArray[np.bool_]:
        """Whether the stream had the run already, shape (len,); a copy."""

    def batch(self, i: int) -> int:
        """The batch of acknowledgement ``i``. Raises IndexError."""

    def skip_batch(self, first: int) -> int:
        """The first acknowledgement behind ``first`` that is of another batch. Raises IndexError."""

    def cross_off(self, first: int, open_runs: bytearray) -> tuple[int, int, int, list[int]]:
        """Clear in ``open_runs``, a byte a run, the runs of one batch, from acknowledgement ``first`` on.

        Gives the first acknowledgement of another batch, how many runs were open until now, how many of
        those were duplicates, and the indices of the last of them, 20 at most. Raises IndexError.
        """

def frame_bytes(buffer: bytearray, at: int, end: int) -> int:
    """The length of the protocol frame at byte ``at``, body and line ends included; 0 while ``end`` cuts it.

    Raises ValueError where no frame can begin so: an unknown verb, a line over 1 MiB, a body over 64 MiB or
    not ended as it should be. Raises IndexError for bytes outside of the buffer.
    """
