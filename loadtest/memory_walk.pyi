"""Random reads of a large area: what a machine's memory costs, whatever reads it."""

import numpy as np
from numpy.typing import NDArray

def chained(area: NDArray[np.uint64], reads: int) -> int:
    """So many reads of random lines of ``area``, shape (n,), each at an address that depends on the one
    before. The area holds zeros; of a size that is no power of two the first part is used. Without the GIL.

    Gives the place where it ended, the same for every area of that size. ValueError for less than two lines.
    """

def scattered(area: NDArray[np.uint64], reads: int) -> int:
    """The same with addresses that are known beforehand, so that the reads overlap."""
