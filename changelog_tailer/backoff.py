"""How long to wait before trying again."""

import random

FIRST_S = 0.05
# A closed port answers at once and costs its machine next to nothing, so whoever waits for a server may look
# this often: what it missed is read within seconds of the server being up.
CHEAP_CAP_S = 2.0


class Backoff:
    """Doubles from FIRST_S up to `cap_s`.

    Each wait is drawn from its upper half, so that nodes that lost the same server do not march in step.
    """

    def __init__(self, cap_s: float, *, draw: random.Random | None = None) -> None:
        if cap_s <= 0:
            raise ValueError(f"cap_s is {cap_s}; a positive number of seconds is needed")
        self._cap_s = cap_s
        self._draw = draw or random.Random()
        self._next_s = min(FIRST_S, cap_s)

    def reset(self) -> None:
        """A try has succeeded."""
        self._next_s = min(FIRST_S, self._cap_s)

    def failed(self, *, cheap: bool = False) -> float:
        """Seconds to wait now; at most CHEAP_CAP_S where trying again is `cheap`."""
        longest_s = min(self._next_s, CHEAP_CAP_S) if cheap else self._next_s
        wait_s = longest_s * self._draw.uniform(0.5, 1.0)
        self._next_s = min(self._next_s * 2, self._cap_s)
        return wait_s
