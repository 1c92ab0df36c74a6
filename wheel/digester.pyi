"""Digests of a wheel: one number a shard that tells whether it holds the definitions that it should."""

from typing import Self

import numpy as np
from numpy.typing import NDArray

from mainspring.wheel.wheel import Wheel

def shards_of(ids: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The shard of each job, shape (n,). TypeError for ids of another type or shape."""

class Digester:
    """Adds up the digests of all definitions, by shard, while the wheel is edited and drained.

        with Digester(wheel) as digester:
            digester.walk()                     # 25 million jobs: seconds of one core
            sums, jobs = digester.sums()        # of this very moment

    ``Wheel.digests`` gives what each row adds: sums over the rows of a shard, modulo 2**64, are what the
    shard's sum must be. Pending first runs, the next instant and the seq of the last change are no part of
    a definition. Locks are held for 512 jobs at a time, and an edit of a job that was passed mends the sum.
    From the beginning to ``close`` an edit costs a tenth of a microsecond more; nothing else changes.

    RuntimeError while another one, or a loader, is open on the wheel.
    """

    def __init__(self, wheel: Wheel) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: object) -> None: ...
    def walk(self) -> None:
        """Add up every shard. Any thread, once; the GIL is released. RuntimeError a second time, and after
        ``close``."""

    def sums(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The digest of each shard as it is now, and its number of jobs, both of shape (256,).

        One moment's if no other thread applies changes during the call. Costs 256 locks. RuntimeError before
        ``walk`` has returned and after ``close``.
        """

    def shard(self, shard: int) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Ids and digests of the jobs of one shard, 0 to 255, each of shape (jobs,), in no order.

        A job that is changed during the call may be missing, or there twice; any other is there once.
        IndexError for another shard.
        """

    def close(self) -> None:
        """Let go of the wheel, once a walk under way is over; safe to repeat."""
