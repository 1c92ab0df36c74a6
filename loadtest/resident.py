"""What the kernel says a process holds."""

import ctypes
import os
from pathlib import Path
from typing import Final

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_PR_SET_THP_DISABLE: Final = 41
_M_MMAP_THRESHOLD: Final = -3
_MMAP_FROM_BYTES: Final = 131_072


def resident_bytes(pid: int | None = None) -> int:
    """Bytes of memory that are really there, right now; of this process unless another is named."""
    return int(Path(f"/proc/{pid or 'self'}/statm").read_text().split()[1]) * _PAGE_BYTES


def peak_bytes() -> int:
    """The most that has been there at any time."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM:"))) * 1024


def huge_bytes() -> int:
    """Those of them that lie on huge pages; 0 where the kernel does not tell."""
    try:
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("AnonHugePages:"))


def return_freed_arrays() -> None:
    """Have each array of 128 kB and more go back to the kernel when it is freed.

    That is how malloc begins, but after the first such array it keeps larger and larger ones for later use:
    18 MB of the measuring's own were taken for memory of the wheel.
    """
    ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _MMAP_FROM_BYTES)


def forbid_huge_pages() -> None:
    """From now on this process gets small pages only, whatever it advises."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refuses PR_SET_THP_DISABLE: leave --small-pages out")
