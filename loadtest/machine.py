"""What the machine's memory costs: without it nobody can tell a fast wheel from a fast machine."""

import mmap
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainspring.loadtest.loading import timed
from mainspring.loadtest.memory_walk import chained, scattered
from mainspring.loadtest.plan import Figures, Plan, Tell

AREA_BYTES: Final = 2**30
_BLOCK_BYTES: Final = 2**21
_CHAINED_READS: Final = 1_000_000
_SCATTERED_READS: Final = 10_000_000
_ROUNDS: Final = 3


def machine_phase(plan: Plan, tell: Tell) -> Figures:  # noqa: ARG001
    """Random reads of 1 GiB, chained and side by side; the best of three rounds."""
    area = huge_area(AREA_BYTES)
    tell(0.5)
    return {
        "memory_chain_ns": _ns_a_read(chained, area, _CHAINED_READS),
        "memory_random_ns": _ns_a_read(scattered, area, _SCATTERED_READS),
    }


def huge_area(size: int) -> NDArray[np.uint64]:
    """Zeros, ``size`` bytes of them, from a 2 MB edge on with huge-page advice, each page touched."""
    room = mmap.mmap(-1, size + _BLOCK_BYTES)
    room.madvise(mmap.MADV_HUGEPAGE)
    words = np.frombuffer(room, np.uint64)
    edge = -words.ctypes.data % _BLOCK_BYTES // 8
    area = words[edge : edge + size // 8]
    area[:: 4096 // 8] = 0
    return area


def _ns_a_read(walk: Callable[[NDArray[np.uint64], int], int], area: NDArray[np.uint64], reads: int) -> float:
    return min(timed(lambda: walk(area, reads)) for _ in range(_ROUNDS)) / reads * 1e9
