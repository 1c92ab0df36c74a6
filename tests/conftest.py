"""Real servers for the tests: one Postgres and one NATS a session, and own ones for tests that kill them."""

import itertools
import logging
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import hypothesis
import pytest
import pytest_asyncio

from mainspring.engine.cli.logs import StderrHandler
from mainspring.engine.embedded import EmbeddedNats, EmbeddedPostgres
from mainspring.engine.embedded.postgres import DATABASE

DATABASE_NUMBERS = itertools.count(1)

# The machine may be slow and shared: an example that takes long is no fault. HYPOTHESIS_PROFILE=nightly looks
# for an hour, brisk is for builds in which everything takes ten times as long.
hypothesis.settings.register_profile("steady", deadline=None, print_blob=True)
hypothesis.settings.register_profile("nightly", deadline=None, print_blob=True, max_examples=4000)
hypothesis.settings.register_profile("brisk", deadline=None, print_blob=True, max_examples=16)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def _server_folder() -> Path:
    """A folder that the Postgres user may enter, which pytest's own temporary folders are not."""
    folder = Path(tempfile.mkdtemp(prefix="mainspring-test-"))
    folder.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """A command that a test runs in this process sets up its log, and must not silence the next test."""
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)
    root.handlers = [handler for handler in root.handlers if not isinstance(handler, StderrHandler)]


@pytest.fixture(scope="session")
def session_folder() -> Iterator[Path]:
    folder = _server_folder()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def server_folder() -> Iterator[Path]:
    """A fresh folder for servers of the test's own; removed afterwards."""
    folder = _server_folder()
    yield folder
    shutil.rmtree(folder)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def postgres(session_folder: Path) -> AsyncIterator[EmbeddedPostgres]:
    """The session's Postgres. Do not kill or freeze it: `own_postgres` is for that."""
    server = EmbeddedPostgres(session_folder)
    await server.start()
    yield server
    await server.stop()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def nats(session_folder: Path) -> AsyncIterator[EmbeddedNats]:
    """The session's NATS, shared by all tests: use an instance name of the test's own."""
    server = EmbeddedNats(session_folder)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def nats_url(nats: EmbeddedNats) -> str:
    return nats.url


@pytest_asyncio.fixture
async def database(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """The DSN of a fresh, empty database; dropped after the test, open sessions or not."""
    name = f"test_{next(DATABASE_NUMBERS)}"
    await execute(postgres.dsn, f"create database {name}")
    yield postgres.dsn_for(name)
    await execute(postgres.dsn, f"drop database if exists {name} with (force)")


@pytest.fixture(scope="session")
def spare_postgres() -> Iterator[EmbeddedPostgres]:
    """A second Postgres, not running: making a cluster anew for each test would take seconds."""
    folder = _server_folder()
    yield EmbeddedPostgres(folder)
    shutil.rmtree(folder)


@pytest_asyncio.fixture
async def own_postgres(spare_postgres: EmbeddedPostgres) -> AsyncIterator[EmbeddedPostgres]:
    """A running Postgres with an empty database, to be killed, frozen and started again by the test."""
    server = spare_postgres
    await server.start()
    await execute(server.dsn_for("postgres"), f"drop database {DATABASE} with (force)")
    await execute(server.dsn_for("postgres"), f"create database {DATABASE}")
    yield server
    await server.kill()


@pytest_asyncio.fixture
async def own_nats(server_folder: Path) -> AsyncIterator[EmbeddedNats]:
    """A running NATS of the test's own, to be killed, frozen and started again."""
    server = EmbeddedNats(server_folder)
    await server.start()
    yield server
    await server.kill()


async def execute(dsn: str, statement: str) -> None:
    """Run one statement on a connection of its own."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
