"""The jobs the wheel is measured with, as the arrays that `Loader.add` and `Wheel.apply` take.

    fleet = Fleet(1_000_000, uuid_keys=False)
    loader.add(fleet.rows(0, 1_000_000), fleet.texts)
    wheel.apply(fleet.replaced(0, 65_536, turn=1), fleet.texts)     # the fifth of these that turn 1 replaces

Everything is a function of the id and the turn, so that two processes make the same fleet and a fleet of
25 million needs no array beside it to be edited.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainspring.wheel import DEFINITION, KIND_INTERVAL, MIN, NEVER, OP_UPDATE, Wheel

NOW: Final = 1_764_500_000
MIX: Final = ((30, 0.2), (60, 0.5), (300, 0.2), (3600, 0.05), (86_400, 0.05))
"""Interval in seconds, share of the jobs: 15.7 runs a second for each thousand."""

PAYLOAD_BYTES: Final = 40
REPLACED_BYTES: Final = (16, 64)
"""Least and greatest payload of a replaced job; their mean is that of a fresh one."""

KEY_BYTES: Final = 36
TURN_SHARE: Final = 5
"""A turn replaces one job in so many."""

_DASHES: Final = (8, 13, 18, 23)
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_EVERY_S: Final = np.repeat(
    np.array([every_s for every_s, _ in MIX], np.int32), [round(share * 100) for _, share in MIX]
)


def mixed(ids: NDArray[np.int64], salt: int) -> NDArray[np.uint64]:
    """64 well mixed bits for each id. Algorithm: the finish of SplitMix64 (Steele, Lea, Flood, 2014)."""
    bits = ids.astype(np.uint64) + np.uint64(salt * 0x9E3779B97F4A7C15 & (2**64 - 1))
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def replaced_in(ids: NDArray[np.int64], turn: int) -> NDArray[np.bool_]:
    """Which jobs the turn replaces: every fifth, others each time."""
    chosen: NDArray[np.bool_] = mixed(ids, 3 * turn) % np.uint64(TURN_SHARE) == 0
    return chosen


def payload_bytes(ids: NDArray[np.int64], turn: int) -> NDArray[np.uint32]:
    """The size that the turn gives to a job that it replaces."""
    least, most = REPLACED_BYTES
    return (least + mixed(ids, 3 * turn + 1) % np.uint64(most - least + 1)).astype(np.uint32)


def intervals(ids: NDArray[np.int64], turn: int = 0) -> NDArray[np.int32]:
    """Seconds, drawn by the mix."""
    drawn: NDArray[np.int32] = _EVERY_S[mixed(ids, 3 * turn + 2) % np.uint64(len(_EVERY_S))]
    return drawn


class Fleet:
    """``jobs`` interval jobs with ids from 0: the mix, 40-byte payloads, null keys or UUIDs.

    ``texts`` serves every batch: a payload for each job, its key, and one payload of each other size.
    ``every_s`` gives all one interval in place of the mix.
    """

    def __init__(self, jobs: int, *, uuid_keys: bool = False, every_s: int = 0, catch_up: int = 0) -> None:
        self.jobs = jobs
        self._every_s = every_s
        self._catch_up = catch_up
        self._keys_at = jobs * PAYLOAD_BYTES if uuid_keys else None
        self._samples_at = jobs * (PAYLOAD_BYTES + KEY_BYTES if uuid_keys else PAYLOAD_BYTES)
        parts = [_payloads(jobs), *([_uuids(jobs)] if uuid_keys else []), _samples()]
        self.texts = b"".join(parts)

    def rows(self, first: int, stop: int) -> NDArray[np.void]:
        """The jobs from ``first`` to before ``stop`` as a fresh load has them, shape (stop - first,)."""
        return self.rows_of(np.arange(first, stop))

    def rows_of(self, ids: NDArray[np.int64]) -> NDArray[np.void]:
        """Just these jobs, as a fresh load has them."""
        rows = self._blank(ids)
        rows["every_s"] = self._every_s or intervals(ids)
        rows["data_at"], rows["data_len"] = ids * PAYLOAD_BYTES, PAYLOAD_BYTES
        return rows

    def rows_after(self, first: int, stop: int, turns: int) -> NDArray[np.void]:
        """The same jobs as they are after turns 1 to ``turns``."""
        rows = self.rows(first, stop)
        for turn in range(1, turns + 1):
            self._replace(rows, replaced_in(rows["id"], turn), turn)
        return rows

    def replaced(self, first: int, stop: int, turn: int) -> NDArray[np.void]:
        """Updates for those of the jobs that the turn replaces: another size, another interval."""
        ids = np.arange(first, stop)
        return self.updates(ids[replaced_in(ids, turn)], turn)

    def updates(self, ids: NDArray[np.int64], turn: int) -> NDArray[np.void]:
        """Updates for just these jobs, with what the turn draws for them."""
        rows = self._blank(ids)
        rows["op"] = OP_UPDATE
        self._replace(rows, np.ones(len(ids), np.bool_), turn)
        return rows

    def _blank(self, ids: NDArray[np.int64]) -> NDArray[np.void]:
        rows = np.zeros(len(ids), DEFINITION)
        rows["id"], rows["kind"], rows["enabled"] = ids, KIND_INTERVAL, 1
        rows["run_at"] = rows["ends_at"] = NEVER
        rows["starts_at"] = rows["boost_until"] = MIN
        rows["phase_s"] = rows["jitter_s"] = -1
        rows["catch_up"] = self._catch_up
        if self._keys_at is not None:
            rows["key_at"], rows["key_len"] = self._keys_at + ids * KEY_BYTES, KEY_BYTES
        return rows

    def _replace(self, rows: NDArray[np.void], chosen: NDArray[np.bool_], turn: int) -> None:
        ids = rows["id"][chosen]
        sizes = payload_bytes(ids, turn)
        rows["every_s"][chosen] = intervals(ids, turn)
        rows["data_at"][chosen] = self._samples_at + (sizes - REPLACED_BYTES[0]) * REPLACED_BYTES[1]
        rows["data_len"][chosen] = sizes


def open_wheel() -> Wheel:
    """An empty wheel at the second that all measuring starts from."""
    wheel = Wheel(NOW)
    wheel.route("default")
    return wheel


def _payloads(jobs: int) -> bytes:
    text = np.full((jobs, PAYLOAD_BYTES), ord("x"), np.uint8)
    text[:, 0] = text[:, -1] = ord('"')
    return text.tobytes()


def _samples() -> bytes:
    """A payload of each size that a replaced job may get, each in as much room as the greatest."""
    least, most = REPLACED_BYTES
    texts = ['"' + "y" * (size - 2) + '"' for size in range(least, most + 1)]
    return "".join(text.ljust(most) for text in texts).encode()


def _uuids(jobs: int) -> bytes:
    ids = np.arange(jobs)
    text = np.full((jobs, KEY_BYTES), ord("-"), np.uint8)
    places = [place for place in range(KEY_BYTES) if place not in _DASHES]
    for half, salt in enumerate((-1, -2)):
        bits = mixed(ids, salt)
        for digit, place in enumerate(places[half * 16 : half * 16 + 16]):
            text[:, place] = _HEX[(bits >> np.uint64(4 * digit)) & np.uint64(15)]
    return text.tobytes()
