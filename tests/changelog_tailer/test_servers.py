"""Which server of several is taken, and which is refused, by a line that says why."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from conftest import execute

from mainspring.changelog_tailer import ServerRefused, close, connect, costs_little
from mainspring.changelog_tailer.backoff import CHEAP_CAP_S, Backoff
from mainspring.changelog_tailer.errors import Unreachable
from mainspring.engine.embedded import EmbeddedPostgres

PARAMETERS_REFUSED = b"E\x00\x00\x007SFATAL\x00C08P01\x00Munsupported startup parameter: jit\x00\x00"
CANCEL_KEY = b"K\x00\x00\x00\x0c"  # then four bytes of process id, four of secret


def with_host_before(dsn: str, host: str) -> str:
    """The DSN with another server in front of its own."""
    front, _, rest = dsn.rpartition("@")
    return f"{front}@{host},{rest}"


async def test_a_closed_port_is_passed_over_for_the_next_host(dsn: str) -> None:
    await close(await connect(with_host_before(dsn, "127.0.0.1:1")))


async def test_a_server_that_keeps_silent_is_passed_over_for_the_next_host(dsn: str) -> None:
    async with listening(lambda _reader, _writer: asyncio.Event().wait()) as port:
        await close(await connect(with_host_before(dsn, f"127.0.0.1:{port}"), timeout_s=4))


async def test_a_frozen_server_is_passed_over_for_the_next_host(
    dsn: str, own_postgres: EmbeddedPostgres
) -> None:
    own_postgres.freeze()
    try:
        await close(await connect(with_host_before(dsn, f"127.0.0.1:{own_postgres.port}"), timeout_s=4))
    finally:
        own_postgres.thaw()


async def test_a_server_in_recovery_is_refused_and_passed_over(
    dsn: str, own_postgres: EmbeddedPostgres
) -> None:
    for server in (dsn, own_postgres.dsn):
        await execute(server, "create role known_to_both superuser login password 'secret'")
    name = dsn.rpartition("/")[2]
    await execute(own_postgres.dsn, f"create database {name}")
    await own_postgres.stop()
    (own_postgres.data / "standby.signal").touch()
    await own_postgres.start()
    try:
        with pytest.raises(ServerRefused, match=r"in recovery.* point postgres_dsn at the primary"):
            await connect(own_postgres.dsn)
        standby, primary = f"127.0.0.1:{own_postgres.port}", dsn.rpartition("@")[2]
        await close(await connect(f"postgresql://known_to_both:secret@{standby},{primary}"))
    finally:
        await own_postgres.stop()
        (own_postgres.data / "standby.signal").unlink()
        await own_postgres.start()
        await execute(own_postgres.dsn, f"drop database {name}")
        for server in (dsn, own_postgres.dsn):
            await execute(server, "drop role known_to_both")


async def test_every_server_that_fails_is_named() -> None:
    with pytest.raises(
        Unreachable, match=r"127\.0\.0\.1:1, 127\.0\.0\.1:2 cannot be reached: Connection ref"
    ):
        await connect("postgresql://u@127.0.0.1:1,127.0.0.1:2/db")


async def test_a_pooler_that_refuses_our_settings_is_told_in_one_line() -> None:
    """The bytes are those of pgbouncer 1.18, asked with its default settings."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(PARAMETERS_REFUSED)
        writer.close()

    async with listening(refuse) as port:
        with pytest.raises(ServerRefused, match=r"a connection pooler .* point postgres_dsn at"):
            await connect(f"postgresql://u@127.0.0.1:{port}/db?sslmode=disable")


async def test_a_pooler_that_takes_our_settings_is_known_by_the_process_id_it_invents(
    dsn: str, postgres: EmbeddedPostgres
) -> None:
    async def pool(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", postgres.port)

        async def down() -> None:
            while chunk := await to_reader.read(65_536):
                before, key, after = chunk.partition(CANCEL_KEY)
                writer.write(before + key + (b"\x00\x00\x00\x01" + after[4:] if key else b""))

        answering = asyncio.create_task(down())
        while chunk := await reader.read(65_536):
            to_writer.write(chunk)
        answering.cancel()
        to_writer.close()

    async with listening(pool) as port:
        pooled = dsn.replace(f":{postgres.port}/", f":{port}/") + "?sslmode=disable"
        with pytest.raises(ServerRefused, match=r"a connection pooler .* point postgres_dsn at"):
            await connect(pooled)


async def test_a_port_that_is_closed_is_asked_again_soon_and_one_that_hangs_is_not() -> None:
    with pytest.raises(Unreachable) as refused:
        await connect("postgresql://127.0.0.1:1/db")
    assert costs_little(refused.value)
    async with listening(lambda _reader, _writer: asyncio.Event().wait()) as port:
        with pytest.raises(Unreachable) as silent:
            await connect(f"postgresql://127.0.0.1:{port}/db?sslmode=disable", timeout_s=0.2)
    assert not costs_little(silent.value)


def test_the_pause_grows_to_its_cap_and_stays_short_while_asking_is_cheap() -> None:
    backoff = Backoff(30.0)
    cheap = [backoff.failed(cheap=True) for _ in range(20)]
    assert max(cheap) <= CHEAP_CAP_S
    assert min(cheap[10:]) >= CHEAP_CAP_S / 2
    assert 15 <= backoff.failed() <= 30


@asynccontextmanager
async def listening(serve) -> AsyncIterator[int]:  # type: ignore[no-untyped-def]
    """A port on which `serve(reader, writer)` answers."""
    tasks = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.current_task())
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            if task is not None:
                task.cancel()
