"""A database with the schema in it, and connections to it."""

from collections.abc import AsyncIterator

import asyncpg
import pytest_asyncio

from mainspring.changelog_tailer import close, connect, schema


@pytest_asyncio.fixture
async def dsn(database: str) -> str:
    """The DSN of a fresh database with the schema."""
    await schema.init(database)
    return database


@pytest_asyncio.fixture
async def connection(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """A reader's connection."""
    opened = await connect(dsn)
    yield opened
    await close(opened)


@pytest_asyncio.fixture
async def writer(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """A user's connection."""
    opened = await asyncpg.connect(dsn)
    yield opened
    await close(opened)
