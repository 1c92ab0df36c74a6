"""CPU time, as the kernel counts it: of a process, and of the machine."""

import os
from pathlib import Path
from typing import Final

_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
_IDLE: Final = slice(3, 5)
"""In the first line of /proc/stat: nothing to do, and nothing but a disk to wait for."""

_GUEST_FROM: Final = 8
"""What follows is counted before as well."""


def cpu_s(pid: int | None) -> float:
    """User and system time of a process, seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND


def machine_cpu_s() -> float:
    """Time that all cores together were busy since the machine began, seconds."""
    line = Path("/proc/stat").read_text().partition("\n")[0]
    ticks = [int(field) for field in line.split()[1:]][:_GUEST_FROM]
    return (sum(ticks) - sum(ticks[_IDLE])) / _TICKS_A_SECOND
