"""The one place that reads a clock. Everything else is handed `now`."""

import time
from typing import Protocol


class Clock(Protocol):
    """What the engine knows of time; a test steps its own."""

    def now(self) -> float:
        """Wall time in epoch seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never step, for deadlines and durations."""
        ...

    def boot(self) -> float:
        """The same, and it goes on while the machine is suspended."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def boot(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
