"""The folder that ``--embedded`` names: judged before a server is started in it."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mainspring.engine.config import SettingsError
from mainspring.engine.embedded import EmbeddedServers
from mainspring.engine.embedded.postgres_place import make_folder

_MEND = "name a folder that you can write to, or a new one, such as .mainspring"


def embedded_folder(given: str | None) -> Path | None:
    """The folder, None where none is given; raises SettingsError for an empty path."""
    if given is not None and not given.strip():
        raise SettingsError(f"--embedded: an empty path; {_MEND}")
    return None if given is None else Path(given)


@asynccontextmanager
async def servers_of(folder: Path) -> AsyncIterator[EmbeddedServers]:
    """The servers of the folder, made if it is missing; raises SettingsError, and EmbeddedError."""
    _make(folder)
    async with EmbeddedServers(folder) as servers:
        yield servers


def _make(folder: Path) -> None:
    try:
        make_folder(folder)
    except OSError as error:
        raise SettingsError(
            f"--embedded: the folder {folder} cannot be made: {error.strerror}; {_MEND}"
        ) from None
    if not folder.is_dir():
        raise SettingsError(f"--embedded: {folder} is no folder; {_MEND}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise SettingsError(f"--embedded: the folder {folder} cannot be written to; {_MEND}")
