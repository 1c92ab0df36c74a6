"""Where an export goes: a file that is complete or not there, or whatever else the user names."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self


class Destination:
    """The file ``name``; ``-`` is stdout.

    A new file, or a regular one that is replaced, appears under its name only when it is complete; links
    to it stay links and its mode stays. Devices, fifos and the like are written as they are. Raises
    OSError that names ``name``.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._stream: BinaryIO = sys.stdout.buffer
        self._partial: Path | None = None
        self._path = Path()

    def __enter__(self) -> Self:
        if self._name != "-":
            with self._told():
                self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._name == "-":
            if error is None:
                self._stream.flush()
            return
        try:
            if error is None:
                with self._told():
                    self._complete()
        finally:
            self._leave()

    def write(self, chunk: bytes) -> None:
        """Write the next bytes."""
        if self._name == "-":
            self._stream.write(chunk)
            return
        with self._told():
            self._stream.write(chunk)

    def _open(self) -> None:
        old = _status(self._name)
        if old is not None and not stat.S_ISREG(old.st_mode):
            self._stream = open(self._name, "wb")  # noqa: SIM115 (closed by __exit__)
            return
        self._path = Path(os.path.realpath(self._name))
        self._partial = self._path.with_name(self._path.name + ".partial")
        self._stream = self._partial.open("wb")
        if old is not None:
            _take_over(self._stream, old)

    def _complete(self) -> None:
        self._stream.close()
        if self._partial is not None:
            self._partial.replace(self._path)

    def _leave(self) -> None:
        with suppress(OSError):  # told before, or one that follows from it
            self._stream.close()
        if self._partial is not None:
            self._partial.unlink(missing_ok=True)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Name the file as the user did, whatever stands for it at the moment."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._name) from error


def _status(name: str) -> os.stat_result | None:
    """What the name leads to, through links; None where nothing is there yet."""
    try:
        return os.stat(name)
    except FileNotFoundError:
        return None


def _take_over(stream: BinaryIO, old: os.stat_result) -> None:
    """Give the file owner and mode of the one it will replace."""
    with suppress(PermissionError):
        os.fchown(stream.fileno(), old.st_uid, old.st_gid)
    os.fchmod(stream.fileno(), stat.S_IMODE(old.st_mode))
