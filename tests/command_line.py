"""Runs `mainspring` inside the test's process: the entry of the console script without its start-up time."""

import contextlib
import io
import json
import sys
import tempfile
from typing import Any, NamedTuple

from mainspring.engine.cli import main


class Ended(NamedTuple):
    """What a command left behind."""

    status: int
    out: str
    err: str

    def json_lines(self) -> list[Any]:
        """Each line of stdout as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


def mainspring(*arguments: str, stdin: bytes = b"") -> Ended:
    """Run one command; the settings come from the environment, as for a user."""
    out, err = io.BytesIO(), io.BytesIO()
    with (
        contextlib.redirect_stdout(io.TextIOWrapper(out, "utf-8", write_through=True)),
        contextlib.redirect_stderr(io.TextIOWrapper(err, "utf-8", write_through=True)),
        _stdin(stdin),
    ):
        status = main(list(arguments))
        return Ended(status, out.getvalue().decode(), err.getvalue().decode())


@contextlib.contextmanager
def _stdin(content: bytes) -> Any:
    kept = sys.stdin
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        sys.stdin = io.TextIOWrapper(file)
        try:
            yield
        finally:
            sys.stdin = kept
