"""The table of `jobs list`: aligned, and yet printed while the rows still come."""

from collections.abc import Callable
from itertools import zip_longest
from typing import Final

from mainspring.engine.cli.job_text import HEADINGS, job_cells
from mainspring.engine.jobs.store import Job
from mainspring.engine.jobs.upcoming import Upcoming

_PAGE_ROWS: Final = 500
_WIDTH_MAX: Final = 60


class JobTable:
    """Prints page by page; each page widens the columns where it must, so memory stays flat."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._widths: list[int] = []
        self._page: list[tuple[str, ...]] = [HEADINGS]

    def add(self, job: Job, coming: Upcoming) -> None:
        """One more row."""
        self._page.append(job_cells(job, coming))
        if len(self._page) >= _PAGE_ROWS:
            self.flush()

    def flush(self) -> None:
        """Print what has been added; the headings alone where nothing was."""
        widest = [min(_WIDTH_MAX, max(map(len, column))) for column in zip(*self._page, strict=True)]
        self._widths = [max(pair) for pair in zip_longest(self._widths, widest, fillvalue=0)]
        for row in self._page:
            cells = [cell.ljust(width) for cell, width in zip(row, self._widths, strict=True)]
            self._write("  ".join(cells).rstrip())
        self._page.clear()
