"""Connections to Postgres with deadlines of our own, to servers whose log can be trusted."""

import asyncio
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg

from mainspring.changelog_tailer.address import Server, servers_of
from mainspring.changelog_tailer.cursor import Cursor
from mainspring.changelog_tailer.errors import SchemaMismatch, ServerRefused, Unreachable
from mainspring.changelog_tailer.queries import query, schema_version

CONNECT_TIMEOUT_S = 10.0
QUERY_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 2.0
_SERVER_MIN = 140000

# A role may carry limits that suit its other uses: the load of a large table is one long statement.
_SESSION = {
    "application_name": "mainspring",
    "jit": "off",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}

# A pooler such as pgbouncer invents the process id that it tells its client, and knows few of our settings.
_POOLER = (
    "a connection pooler such as pgbouncer stands before the server, and LISTEN and the session's settings "
    "would be lost in it; point postgres_dsn at the server itself"
)

_NOT_READY = (
    ServerRefused,
    SchemaMismatch,
    asyncpg.CannotConnectNowError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)

# What a lost, frozen, restarting or refusing server can raise; all of it is cured by trying again.
LOST = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


async def connect(
    dsn: str, *, timeout_s: float = CONNECT_TIMEOUT_S, ssl_context: ssl.SSLContext | None = None
) -> asyncpg.Connection:
    """A connection to a server whose log can be read.

    Raises ServerRefused or SchemaMismatch with the mend, and what LOST names where nothing answers in time.
    """
    connection = await open_session(dsn, timeout_s=timeout_s, ssl_context=ssl_context)
    try:
        await _require_readable(connection)
    except BaseException:
        connection.terminate()
        raise
    return connection


async def open_session(
    dsn: str, *, timeout_s: float = CONNECT_TIMEOUT_S, ssl_context: ssl.SSLContext | None = None
) -> asyncpg.Connection:
    """A connection of which nothing is asked but that it is to the primary of the hosts named.

    Raises Unreachable where none answers in time, ServerRefused, and what the server answers.
    """
    options: dict[str, Any] = {} if ssl_context is None else {"ssl": ssl_context}
    servers = servers_of(dsn)
    failed: list[Exception] = []
    for server in servers:
        try:
            async with asyncio.timeout(timeout_s / len(servers)):
                return await _dial(dsn, server, options)
        except (OSError, asyncpg.CannotConnectNowError, ServerRefused) as error:
            failed.append(error)
    raise _why_none(servers, failed, timeout_s / len(servers))


def _why_none(servers: list[Server], failed: list[Exception], timeout_s: float) -> Exception:
    """What to tell where no server would do: one that answered says more than one that is away."""
    for error in failed:
        if not isinstance(error, OSError):
            return error
    causes = [_in_words(error, timeout_s) for error in failed if isinstance(error, OSError)]
    where = ", ".join(map(str, servers))
    unreachable = Unreachable(
        f"Postgres at {where} cannot be reached: {'; '.join(dict.fromkeys(causes))} (postgres_dsn)"
    )
    unreachable.refused = all(isinstance(error, ConnectionRefusedError) for error in failed)
    unreachable.__cause__ = failed[-1]
    return unreachable


def costs_little(error: BaseException) -> bool:
    """Whether the server can be asked again soon: its port was closed, or it said at once that it won't do.

    So it says while it starts, until it is promoted, and until a dump is restored.
    """
    if isinstance(error, Unreachable):
        return error.refused
    return isinstance(error, _NOT_READY)


def _in_words(error: OSError, timeout_s: float) -> str:
    """The cause without the number, which says nothing to people."""
    if isinstance(error, TimeoutError) and error.errno is None:
        return f"no answer within {timeout_s:g} s"
    if isinstance(error, (socket.gaierror, ssl.SSLError)):  # their numbers are no errno
        return error.strerror or str(error)
    if error.errno is not None:
        return os.strerror(error.errno)
    return re.sub(r"\[Errno -?\d+\] ", "", str(error)) or type(error).__name__


async def _dial(dsn: str, server: Server, options: dict[str, Any]) -> asyncpg.Connection:
    """One host at a time: where the driver tries several, one that is frozen uses up the time of all."""
    try:
        return await asyncpg.connect(
            dsn,
            host=None if server.implied else server.host,
            port=server.port,
            timeout=None,
            target_session_attrs="primary",
            server_settings=_SESSION,
            **options,
        )
    except asyncpg.TargetServerAttributeNotMatched as error:
        raise ServerRefused(
            "the server is in recovery and its snapshots leave out open transactions; "
            "point postgres_dsn at the primary"
        ) from error
    except asyncpg.ProtocolViolationError as error:
        if "startup parameter" not in str(error):
            raise
        raise ServerRefused(_POOLER) from error


async def _require_readable(connection: asyncpg.Connection) -> None:
    async with asyncio.timeout(QUERY_TIMEOUT_S):
        server = await connection.fetchrow(query("server"))
    require_server(server)
    if server["backend"] != connection.get_server_pid():
        raise ServerRefused(_POOLER)
    if not server["has_schema"]:
        raise SchemaMismatch("the database has no schema mainspring; run `mainspring db init`")
    async with asyncio.timeout(QUERY_TIMEOUT_S):
        require_version(await connection.fetchval(query("schema_version")))
    if not server["logs_changes"]:
        raise SchemaMismatch(
            "mainspring.jobs has no triggers that log its changes; where a dump is being restored they come "
            "last, otherwise restore the schema mainspring from a database that has them"
        )


def require_server(server: Any) -> None:
    """Raises ServerRefused for a row of the query `server` that names a server which will not do."""
    if server["in_recovery"]:
        raise ServerRefused("the server is in recovery; point postgres_dsn at the primary")
    if server["version"] < _SERVER_MIN:
        raise ServerRefused(f"PostgreSQL {server['version_text']} is too old; use 14 or newer")
    if server["encoding"] != "UTF8":
        raise ServerRefused(
            f"the database's encoding is {server['encoding']}; create it with encoding 'UTF8'"
        )


def require_version(found: int) -> None:
    """Raises SchemaMismatch unless the schema is the one this code was written for, or a later one's twin."""
    needed = schema_version()
    if found < needed:
        raise SchemaMismatch(
            f"the schema mainspring is at version {found} and {needed} is needed; run `mainspring db init`"
        )


async def cursor_now(connection: asyncpg.Connection) -> Cursor:
    """Where the log stands as this statement, or this repeatable read transaction, sees it."""
    async with asyncio.timeout(QUERY_TIMEOUT_S):
        row = await connection.fetchrow(query("identity"))
    return Cursor(**row)


async def server_time(connection: asyncpg.Connection) -> float:
    """The server's wall time in epoch seconds."""
    async with asyncio.timeout(QUERY_TIMEOUT_S):
        return float(await connection.fetchval("select extract(epoch from clock_timestamp())::float8"))


async def close(connection: asyncpg.Connection) -> None:
    """Close within CLOSE_TIMEOUT_S: a frozen server would hang the driver's own close."""
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await connection.close()
    except LOST:
        pass
    finally:
        connection.terminate()


@asynccontextmanager
async def session(dsn: str, **options: Any) -> AsyncIterator[asyncpg.Connection]:
    """`open_session` for the length of a block; aborted where the block fails."""
    connection = await open_session(dsn, **options)
    try:
        yield connection
    except BaseException:
        with suppress(*LOST):
            connection.terminate()
        raise
    await close(connection)
