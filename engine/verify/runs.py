"""Runs as arrays: of which job and version, at which instant, and whether they surely were owed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mainspring.engine.verify.effect import Instants


@dataclass(frozen=True, slots=True)
class Runs:
    """version: index into the history's versions. at: epoch seconds. All (n,), in no order."""

    version: Instants
    at: Instants

    def __len__(self) -> int:
        return len(self.at)

    def where(self, chosen: NDArray[np.bool_]) -> "Runs":
        """Only those."""
        return Runs(self.version[chosen], self.at[chosen])

    @classmethod
    def none(cls) -> "Runs":
        """No run at all."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    @classmethod
    def joined(cls, parts: list["Runs"]) -> "Runs":
        """All of them."""
        if not parts:
            return cls.none()
        return cls(
            np.concatenate([part.version for part in parts]), np.concatenate([part.at for part in parts])
        )


def ragged(counts: Instants) -> tuple[Instants, Instants]:
    """For rows of so many items each: the row of every item, and its place in that row."""
    row = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    return row, place
