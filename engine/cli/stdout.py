"""A stdout whose errors say that they are its own: "no space left" alone could be any file's."""

import io
import sys
from typing import Any


class _Stdout(io.FileIO):
    """Fails once. What comes after is dropped, or the interpreter would report it again at its end."""

    failed = False

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        if self.failed:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except BlockingIOError:
            raise
        except BrokenPipeError:  # a reader that has seen enough: no failure, and told to nobody
            self.failed = True
            raise
        except OSError as error:
            self.failed = True
            raise OSError(error.errno, f"cannot write to stdout: {error.strerror}") from error


def name_stdout() -> None:
    """Put it in the place of the interpreter's own stdout; one that somebody else put there is left."""
    own = sys.stdout
    if own is not sys.__stdout__ or not isinstance(own, io.TextIOWrapper):
        return
    own.flush()
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Stdout(own.fileno(), "wb", closefd=False)),
        encoding=own.encoding,
        errors=own.errors,
        line_buffering=own.line_buffering,
        write_through=own.write_through,
    )
