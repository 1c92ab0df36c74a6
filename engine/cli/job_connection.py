"""The connection that the jobs commands work over."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from mainspring.changelog_tailer import close, connect
from mainspring.engine.cli.options import Target
from mainspring.engine.config import Settings
from mainspring.engine.jobs.connection import prepare
from mainspring.engine.tls import postgres_tls


@asynccontextmanager
async def job_connection(target: Target) -> AsyncIterator[asyncpg.Connection]:
    """A connection to the target's database, whose schema is ours, for the length of a block."""
    async with target.settings() as settings, connection_to_jobs(settings) as connection:
        yield connection


@asynccontextmanager
async def connection_to_jobs(settings: Settings) -> AsyncIterator[asyncpg.Connection]:
    """The same for a command that has the settings already."""
    connection = await connect(settings.postgres_dsn, ssl_context=postgres_tls(settings))
    try:
        await prepare(connection)
        yield connection
    finally:
        await close(connection)
