"""Progress bars of import and export, on stderr and only where it is a terminal."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from mainspring.engine.jobs.importing import ImportReport


@contextmanager
def import_progress(stream: BinaryIO) -> Iterator[Callable[[ImportReport], None]]:
    """A bar over the bytes of a file, or a count of rows where the stream is a pipe."""
    size = _size(stream)
    with _bar() as bar:
        task = bar.add_task("reading", total=size, rows=0)

        def advance(report: ImportReport) -> None:
            position = stream.tell() if size is not None else None
            bar.update(task, description=report.phase, completed=position, rows=report.read)

        yield advance


@contextmanager
def export_progress() -> Iterator[Callable[[int], None]]:
    """A count of the bytes written."""
    with _bar() as bar:
        task = bar.add_task("exporting", total=None, rows=0)
        yield lambda chunk_bytes: bar.advance(task, chunk_bytes)


def _bar() -> Progress:
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)


def _size(stream: BinaryIO) -> int | None:
    status = os.fstat(stream.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None
