import numpy as np
from numpy.typing import NDArray

GOOD: int
BAD: int
UNKNOWN_OP: int
EMPTIES: int

def judged(
    rows: NDArray[np.void], routes: NDArray[np.int64], crons: NDArray[np.int64]
) -> tuple[NDArray[np.void], NDArray[np.uint8], int]:
    """Definitions (n,) of DEFINITION for rows (n,) of ROW, a verdict (n,) for each, how many are not GOOD.

    routes, crons: the wheel's number for each code of the decoder that made the rows, -1 for what the wheel
    refused. A BAD row, like a delete and a truncate, has become a delete. The definition of an UNKNOWN_OP row
    means nothing.
    """
