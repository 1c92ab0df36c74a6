"""Runs that the stream can never take: told, counted, and noted in the KV bucket before their second settles.

    dead.<second>.<job id>   ["42@1764500000", ...]   named after the first of the runs that it holds

So an audit (`mainspring verify`) knows of each, and a crash loses none: a second that is not settled is
drained again, and its runs are set aside again. Notes last a day, and there is one a second at most.
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable

from nats.errors import Error as NatsError

from mainspring.engine.broker.bucket import Bucket

log = logging.getLogger(__name__)

KEY = "dead."
KEEP_S = 86_400
# Some of them are a value far below the server's limit for a message.
_RUNS_MAX = 5_000
_PERIOD_S = 1.0
_TIMEOUT_S = 5.0


class DeadLetters:
    """`on_settled(second, runs)` is told once they are noted."""

    def __init__(self, bucket: Bucket, on_settled: Callable[[int, int], None]) -> None:
        self._bucket = bucket
        self._on_settled = on_settled
        self._waiting: list[tuple[int, str]] = []
        self._failing = False

    def __repr__(self) -> str:
        return f"DeadLetters({len(self._waiting)} to be noted)"

    def add(self, second: int, run: str, reason: str) -> None:
        """`run` was drained in `second`, and is given up for that reason."""
        job = run.partition("@")[0]
        log.error("run %s of job %s is set aside, for it can never be stored: %s", run, job, reason)
        self._waiting.append((second, run))

    async def run(self) -> None:
        """Note them for ever."""
        while True:
            await self.run_once()
            await asyncio.sleep(_PERIOD_S)

    async def run_once(self) -> None:
        """Note the oldest; what the broker does not take is tried again next time."""
        noted = self._waiting[:_RUNS_MAX]
        if not noted:
            return
        runs = [run for _, run in noted]
        job, _, instant = runs[0].partition("@")
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                await self._bucket.put(f"{KEY}{instant}.{job}", json.dumps(runs).encode(), KEEP_S)
        except (NatsError, OSError, TimeoutError) as error:
            self._tell(error)
            return
        self._failing = False
        del self._waiting[: len(noted)]
        for second, count in Counter(second for second, _ in noted).items():
            self._on_settled(second, count)

    def forget(self) -> None:
        """Drop what is not noted: its seconds are drained again."""
        self._waiting.clear()

    def _tell(self, error: Exception) -> None:
        if not self._failing:
            log.warning("the broker does not take the note of dead letters (%r); trying again", error)
        self._failing = True
