"""Clusters that take another's place: a replica by streaming, and one into which a dump is restored."""

import asyncio
import os
from importlib.util import find_spec
from pathlib import Path

from mainspring.engine.embedded import EmbeddedPostgres
from mainspring.engine.embedded.account import postgres_account
from mainspring.engine.embedded.binaries import PACKAGE
from mainspring.engine.embedded.postgres_place import find_place, make_folder
from mainspring.engine.embedded.state_file import write_state


async def replica_of(primary: EmbeddedPostgres, folder: Path) -> EmbeddedPostgres:
    """A running hot standby that follows the primary, with the same user and password."""
    place = find_place(folder, postgres_account())
    await client(
        "pg_basebackup", "-d", primary.dsn_for("postgres"), "-D", str(place.data), "-R", "-c", "fast"
    )
    _hand_over(place.data)
    write_state(place.state, {"password": password_of(primary)})
    replica = EmbeddedPostgres(folder)
    await replica.start()
    return replica


async def dump_of(server: EmbeddedPostgres, file: Path) -> None:
    """The database as SQL, and beside it the roles."""
    roles = ("--globals-only", "--no-role-passwords")
    await client("pg_dumpall", "-d", server.dsn, *roles, "-f", str(roles_of(file)))
    await client("pg_dump", "-d", server.dsn, "-f", str(file))


def roles_of(file: Path) -> Path:
    """Where `dump_of` puts the roles."""
    return file.with_suffix(".roles.sql")


async def successor_of(server: EmbeddedPostgres, folder: Path) -> EmbeddedPostgres:
    """A new cluster, empty, at the address of one that has been stopped."""
    make_folder(folder)
    place = find_place(folder, postgres_account())
    write_state(place.state, {"password": password_of(server), "port": server.port})
    successor = EmbeddedPostgres(folder)
    await successor.start()
    assert successor.dsn == server.dsn
    return successor


async def restore(server: EmbeddedPostgres, file: Path) -> None:
    """Run a dump; an error ends it, but one about a role that every cluster has."""
    stop = () if file.name.endswith(".roles.sql") else ("-v", "ON_ERROR_STOP=1")
    await client("psql", "-q", *stop, "-d", server.dsn, "-f", str(file))


async def client(program: str, *arguments: str) -> None:
    """Run one of Postgres' own programs."""
    spec = find_spec(PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "pginstall" / "bin" / program
    process = await asyncio.create_subprocess_exec(
        path, *arguments, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, told = await process.communicate()
    assert process.returncode == 0, told.decode()


def password_of(server: EmbeddedPostgres) -> str:
    return server.dsn.partition(":")[2].partition(":")[2].partition("@")[0]


def _hand_over(data: Path) -> None:
    """To the server's user, who may not be the one that copied."""
    account = postgres_account()
    if not account.is_self:
        for folder, _, names in os.walk(data):
            for path in (folder, *(os.path.join(folder, name) for name in names)):
                os.chown(path, account.uid, account.gid, follow_symlinks=False)
