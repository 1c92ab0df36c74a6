"""The schema `mainspring`: made and upgraded by numbered files, in one transaction, safe to repeat."""

import asyncio
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import asyncpg

from mainspring.changelog_tailer.connection import QUERY_TIMEOUT_S, require_server, session
from mainspring.changelog_tailer.errors import SchemaMismatch
from mainspring.changelog_tailer.queries import Upgrade, query, read_sql, schema_version, upgrades

# An upgrade may have to wait for other transactions and then rewrite much; a count reads whole tables.
UPGRADE_TIMEOUT_S = 3600.0
COUNT_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Status:
    """What is in the schema: exact counts, and sizes in bytes with indexes; zero where there is none.

    pruned_before: the log may lack rows of transactions below it.
    """

    version: int
    needed_version: int
    server_version: str
    jobs: int = 0
    paused: int = 0
    changes: int = 0
    last_seq: int | None = None
    oldest_change_at: datetime | None = None
    newest_change_at: datetime | None = None
    jobs_bytes: int = 0
    changes_bytes: int = 0
    pruned_before: int = 0
    pruned_rows: int = 0
    pruned_at: datetime | None = None

    @property
    def ready(self) -> bool:
        """Whether the engine of this version can work with it."""
        return self.version >= self.needed_version

    def to_dict(self) -> dict[str, Any]:
        """For JSON; instants as datetimes with a zone."""
        return asdict(self)


async def init(dsn: str, **options: Any) -> list[int]:
    """Create or upgrade the schema and make the grants; gives the versions applied now, [] when none was.

    Safe to repeat, and beside another `init`: one waits for the other. Either all of it is done or nothing.
    Raises ServerRefused, SchemaMismatch for a schema newer than this code, and the driver's errors.
    """
    async with session(dsn, **options) as connection, asyncio.timeout(UPGRADE_TIMEOUT_S):
        require_server(await connection.fetchrow(query("server")))
        async with connection.transaction():
            await connection.execute(query("lock_schema"))
            return await _upgrade(connection)


async def _upgrade(connection: asyncpg.Connection) -> list[int]:
    await connection.execute(query("create_schema"))
    found = await connection.fetchval(query("schema_version"))
    _refuse_newer(found)
    pending = [upgrade for upgrade in upgrades() if upgrade.version > found]
    for upgrade in pending:
        await _apply(connection, upgrade)
    await connection.execute(query("purge_future_changes"))
    await connection.execute(read_sql("grants.sql"))
    return [upgrade.version for upgrade in pending]


async def _apply(connection: asyncpg.Connection, upgrade: Upgrade) -> None:
    await connection.execute(upgrade.sql)
    await connection.execute(query("record_version"), upgrade.version, upgrade.name)


def _refuse_newer(found: int) -> None:
    if found > schema_version():
        raise SchemaMismatch(
            f"the schema mainspring is at version {found}, this mainspring knows {schema_version()}; "
            "install the newer mainspring"
        )


async def status(dsn: str, **options: Any) -> Status:
    """What is in the schema; version 0 where there is none. Needs SELECT alone."""
    async with session(dsn, **options) as connection:
        async with asyncio.timeout(QUERY_TIMEOUT_S):
            server = await connection.fetchrow(query("server"))
        if not server["has_schema"]:
            return Status(0, schema_version(), server["version_text"])
        async with asyncio.timeout(COUNT_TIMEOUT_S):
            found = await connection.fetchval(query("schema_version"))
            counts = dict(await connection.fetchrow(query("status")))
            if found >= schema_version():
                counts |= await connection.fetchrow(query("prunings"))
        return Status(found, schema_version(), server["version_text"], **counts)
