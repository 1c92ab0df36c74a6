"""Runs to publish, a second's worth a round, drained before anybody's watch starts."""

from typing import Final

from mainspring.engine.clock import SystemClock
from mainspring.engine.publishing.inflight import FRAMES_MAX
from mainspring.loadtest.fleet import Fleet
from mainspring.wheel import Frames, Wheel

ROUND_RUNS: Final = 100_000
"""Of one round, about: long enough that the first and the last thousand weigh little."""


class RunsLost(RuntimeError):
    """What the stream holds, or what was acknowledged, is not all that was to be published."""


class Rounds:
    """The runs of one second after the other, so many each: drained anew for each round and each side."""

    def __init__(self, runs: int, instance: str) -> None:
        self._fleet = Fleet(runs, uuid_keys=True, every_s=1)
        self._instance = instance
        self._second = 0

    def next(self, inbox: str, first: int) -> list[Frames]:
        """The runs of a second that had none yet. first: the reply number to begin with."""
        self._second = max(self._second + 1, int(SystemClock().now()))
        wheel = Wheel(self._second - 1, instance=self._instance, reply_prefix=inbox)
        wheel.route("default")
        wheel.apply(self._fleet.rows(0, self._fleet.jobs), self._fleet.texts)
        batches: list[Frames] = []
        whole = False
        while not whole:
            frames = Frames()
            frames.reset(first + len(batches) * FRAMES_MAX)
            whole = wheel.drain(self._second, self._second, frames)
            batches.append(frames)
        return batches
