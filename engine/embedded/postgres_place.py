"""Where the data of an embedded Postgres lives."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from mainspring.engine.embedded.account import Account
from mainspring.engine.embedded.private_home import private_home
from mainspring.engine.embedded.state_file import read_state, write_state

POINTER = "postgres-home.json"


@dataclass(frozen=True)
class PostgresPlace:
    """The folder that holds an embedded Postgres, and what lies in it."""

    home: Path
    pointer: Path | None = None  # in the user's folder, where home is elsewhere

    @property
    def data(self) -> Path:
        """The cluster: owned by the server's user."""
        return self.home / "postgres"

    @property
    def state(self) -> Path:
        """Port and password, for the owner's eyes."""
        return self.home / "postgres.json"

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.home / "postgres.log"

    @property
    def lock(self) -> Path:
        """Held by the process that runs the server."""
        return self.home / "postgres.lock"

    def settle(self) -> None:
        """Remember a home that lies elsewhere; call it under the lock.

        When somebody removed the user's folder to start afresh, the pointer went with it: then the data
        left elsewhere is removed as well.
        """
        if self.pointer is None or read_state(self.pointer).get("home") == str(self.home):
            return
        for name in ("postgres", "postgres.new"):
            shutil.rmtree(self.home / name, ignore_errors=True)
        write_state(self.pointer, {"home": str(self.home)})


def find_place(directory: Path, account: Account) -> PostgresPlace:
    """The place for ``directory``: itself, or a private folder where ``account`` may not enter it."""
    make_folder(directory)
    pointer = directory / POINTER
    if not pointer.exists() and _reachable(directory, account):
        return PostgresPlace(directory)
    return PostgresPlace(private_home("data", directory), pointer)


def make_folder(directory: Path) -> None:
    """Create ``directory`` so that another user can pass through it; an existing one is left as it is."""
    if not directory.exists():
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755)


def _reachable(directory: Path, account: Account) -> bool:
    """Try it: can ``account`` work in a folder of its own in here?"""
    if account.is_self:
        return True
    return account.can_enter(directory)
