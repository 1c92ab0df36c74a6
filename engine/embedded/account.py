"""Which user a server runs as, and what that user can reach."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NOBODY_FALLBACK = 65534  # what the kernel calls nobody where /etc/passwd does not


@dataclass(frozen=True)
class Account:
    """A user and group that a server process runs under."""

    uid: int
    gid: int

    @property
    def is_self(self) -> bool:
        """True when a child needs no change of user."""
        return self.uid == os.geteuid()

    def popen_options(self) -> dict[str, Any]:
        """Arguments for ``subprocess`` that run a child as this account."""
        if self.is_self:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def can_enter(self, folder: Path) -> bool:
        """Whether this account can pass through ``folder``; tried for real: parents and ACLs count."""
        return self._succeeds("/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder))

    def can_run(self, program: Path) -> bool:
        """Whether ``program --version`` works under this account, its libraries included."""
        return self._succeeds(str(program), "--version")

    def _succeeds(self, *argv: str) -> bool:
        try:
            done = subprocess.run(argv, cwd="/", capture_output=True, check=False, **self.popen_options())
        except PermissionError:
            return False
        return done.returncode == 0


def current_account() -> Account:
    """The account of this process."""
    return Account(os.geteuid(), os.getegid())


def postgres_account() -> Account:
    """The account for Postgres, which refuses to run as root: then nobody, else the present user."""
    if os.geteuid() != 0:
        return current_account()
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return Account(NOBODY_FALLBACK, NOBODY_FALLBACK)
    return Account(entry.pw_uid, entry.pw_gid)
