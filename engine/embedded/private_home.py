"""A folder of our own outside a checkout that the server's user may not enter.

Root runs Postgres as nobody. Where the checkout lies below a folder that nobody may not enter (a 0700 home),
data and binaries must live elsewhere: below /var/tmp, in a folder that only root can have made.
"""

import hashlib
import os
import stat
from pathlib import Path

from mainspring.engine.embedded.errors import EmbeddedError

ROOM = Path("/var/tmp")


def private_home(purpose: str, origin: Path) -> Path:
    """Make or find the private folder for ``origin``: owned by us, entered by all, written by us alone.

    The name follows from the real path of ``origin``, so the next command finds the same folder.
    Raises EmbeddedError when something else, a link or another user's folder, has taken the name.
    """
    digest = hashlib.sha256(os.fsencode(origin.resolve())).hexdigest()[:16]
    home = ROOM / f"mainspring-{os.geteuid()}-{purpose}-{digest}"
    try:
        home.mkdir(mode=0o711)
        home.chmod(0o711)  # mkdir's mode passes through the umask
    except FileExistsError:
        require_ours(home)
    return home


def require_ours(folder: Path) -> None:
    """Refuse a folder that another user could have planted or could write to."""
    found = folder.lstat()  # lstat: a link to elsewhere must not pass for the folder
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    if not ours or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise EmbeddedError(
            f"{folder} exists but is not a private folder of this user; remove it and try again"
        )
