"""Small JSON files that outlive a process, and locks that do not."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from mainspring.engine.embedded.errors import EmbeddedError


def read_state(path: Path) -> dict[str, Any]:
    """The stored object; empty when the file is missing or was cut short."""
    try:
        stored = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Replace the file whole, readable by its owner alone: it holds passwords."""
    write_private(path, json.dumps(state, indent=2) + "\n")


def write_private(path: Path, text: str) -> None:
    """Replace a file by one that only its owner can read, without a moment in which others could."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    fresh.replace(path)


class FileLock:
    """An advisory lock on a file; the kernel lets go of it when its process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def take(self, *, shared: bool = False, wait: bool = False) -> bool:
        """Take the lock, or change its mode; False when it is held elsewhere and ``wait`` is off."""
        mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(self._open(), mode if wait else mode | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def require(self, what: str) -> None:
        """Take the lock or raise EmbeddedError."""
        if not self.take():
            self.release()
            raise EmbeddedError(
                f"{what} is in use by another process; end that process or use another folder"
            )

    def release(self) -> None:
        """Let go; harmless when nothing is held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        return self._descriptor
