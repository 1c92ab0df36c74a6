"""IANA zones as tables of UTC offsets, read from the `tzdata` package so that every node agrees.

The system's own zone files are never looked at: two machines with different ones would fire a job at
different times. Format: TZif, RFC 8536; its footer is a POSIX TZ rule (see mainspring.wheel.zone_rules).
"""

import difflib
import functools
import importlib.resources
import re
import struct
from dataclasses import dataclass
from importlib.resources.abc import Traversable

import numpy as np
from numpy.typing import NDArray

from mainspring.wheel.errors import ScheduleError
from mainspring.wheel.zone_rules import CYCLE_YEARS, changes_of, year_of, year_start

DAWN = -(2**62)
"""The start of the first stretch: before every instant that a schedule can name."""

YEARS_AHEAD = 50
"""Years written out beyond one cycle: no cron date is further from the one before."""

CYCLE_S = 146_097 * 86_400
"""400 years."""

NAME_PATTERN = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*", re.ASCII)
HEADER = struct.Struct(">4sc15x6l")


@dataclass(frozen=True, eq=False)
class Zone:
    """Stretches of constant UTC offset: int64 arrays of one length, read-only and C-contiguous.

    Stretch i lasts from starts[i] (epoch s) until starts[i + 1]; the wall shows instant + offsets[i] (s).
    reached[i] is the latest wall time shown before stretch i: what lies between it and the wall's first time
    in the stretch was skipped, what lies below it is shown again. From `cycle_from` the table repeats every
    400 years.
    """

    name: str
    starts: NDArray[np.int64]
    offsets: NDArray[np.int64]
    reached: NDArray[np.int64]
    cycle_from: int

    def offset_at(self, instant: int) -> int:
        """Seconds to add to `instant` for the wall time in this zone."""
        cycles = max(0, (instant - self.cycle_from) // CYCLE_S)
        i = int(np.searchsorted(self.starts, instant - cycles * CYCLE_S, side="right")) - 1
        return int(self.offsets[max(i, 0)])


@functools.cache
def load_zone(name: str) -> Zone:
    """The zone of that IANA name. Raises ScheduleError, with the nearest names, for an unknown one."""
    file = _file_of(name)
    raw = file.read_bytes() if file is not None and file.is_file() else b""
    if not raw.startswith(b"TZif"):
        raise ScheduleError("tz", name, "is not a time zone that tzdata knows", _mend(name))
    starts, offsets, footer = _decode(raw)
    return _tabulate(name, starts, offsets, footer)


def _file_of(name: str) -> Traversable | None:
    # The pattern keeps dots, and with them other folders, out of the path.
    if len(name) > 64 or NAME_PATTERN.fullmatch(name) is None:
        return None
    return importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))


def _mend(name: str) -> str:
    near = difflib.get_close_matches(name[:64].casefold(), _names_by_folded(), n=3, cutoff=0.6)
    if not near:
        return "write an IANA name such as Europe/Berlin or UTC"
    return "did you mean " + " or ".join(_names_by_folded()[folded] for folded in near) + "?"


@functools.cache
def _names_by_folded() -> dict[str, str]:
    text = importlib.resources.files("tzdata").joinpath("zones").read_text("ascii")
    return {name.casefold(): name for name in text.split()}


def _decode(raw: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64], str]:
    """A TZif file, version 2 or later: instants of change, offsets before and after each, and the footer."""
    at = _skip_block(raw, 0, seconds_bytes=4)
    changes, types, _ = HEADER.unpack_from(raw, at)[-3:]
    end = _skip_block(raw, at, seconds_bytes=8)
    at += HEADER.size
    instants = np.frombuffer(raw, ">i8", changes, at).astype(np.int64)
    kinds = np.frombuffer(raw, np.uint8, changes, at + 8 * changes)
    type_offsets = np.array(
        [struct.unpack_from(">lBB", raw, at + 9 * changes + 6 * i)[0] for i in range(types)], dtype=np.int64
    )
    # Before the first change the first type holds (RFC 8536, 3.2).
    offsets = type_offsets[np.concatenate([np.zeros(1, dtype=np.uint8), kinds])]
    return instants, offsets, raw[end:].strip(b"\n").decode("ascii")


def _skip_block(raw: bytes, at: int, *, seconds_bytes: int) -> int:
    _, _, universal, standard, leaps, changes, types, characters = HEADER.unpack_from(raw, at)
    per_second = changes * (seconds_bytes + 1) + leaps * (seconds_bytes + 4)
    return int(at + HEADER.size + per_second + types * 6 + characters + standard + universal)


def _tabulate(name: str, instants: NDArray[np.int64], offsets: NDArray[np.int64], footer: str) -> Zone:
    last = int(instants[-1]) if len(instants) else year_start(1900)
    cycle_year = year_of(last) + 2
    later, later_offsets = changes_of(footer, year_of(last), cycle_year + CYCLE_YEARS + YEARS_AHEAD)
    starts = np.concatenate([[DAWN], instants, later[later > last]])
    offsets = np.concatenate([offsets, later_offsets[later > last]])
    # A change of name or of the daylight flag alone changes no wall time.
    kept = np.concatenate([[True], offsets[1:] != offsets[:-1]])
    starts, offsets = starts[kept], offsets[kept]
    reached = _frozen(_reached(starts, offsets))
    return Zone(name, _frozen(starts), _frozen(offsets), reached, year_start(cycle_year))


def _reached(starts: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    shown = np.maximum.accumulate(starts[1:] + offsets[:-1])
    return np.concatenate([np.array([2 * DAWN], dtype=np.int64), shown])


def _frozen(column: NDArray[np.int64]) -> NDArray[np.int64]:
    column = np.ascontiguousarray(column, dtype=np.int64)
    column.flags.writeable = False
    return column
