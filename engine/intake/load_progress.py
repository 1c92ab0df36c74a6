"""Tells how a load goes on: a bar on a terminal, elsewhere a log line each few seconds."""

import asyncio
import logging
import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

log = logging.getLogger(__name__)

_PERIOD_S = 3.0


class LoadProgress:
    """For the length of one load. expected: jobs, as far as anybody knows; 0 where nobody does."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._jobs = 0
        self._told_at = asyncio.get_running_loop().time()
        console = Console(file=sys.stderr)
        columns = TextColumn("loading jobs"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        self._bar = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self._task = self._bar.add_task("", total=expected or None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def advance(self, jobs: int) -> None:
        """So many more are in."""
        self._jobs += jobs
        self._bar.advance(self._task, jobs)
        now = asyncio.get_running_loop().time()
        if self._bar.disable and now - self._told_at > _PERIOD_S:
            self._told_at = now
            log.info(
                "loading: %d jobs so far%s", self._jobs, f" of about {self._expected}" * bool(self._expected)
            )
