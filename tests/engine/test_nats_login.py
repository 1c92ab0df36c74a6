"""Every way to log in to a real NATS server, at first and again after it was killed."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import nkeys
import pytest
from nats.aio.client import Client
from nats_accounts import Key, accounts_with_jwt
from publisher_bench import Bench, bench_on
from running_node import running

from mainspring.changelog_tailer import schema
from mainspring.engine.broker.connections import Broker
from mainspring.engine.broker.login import nats_login
from mainspring.engine.broker.reconnecting import PAUSE_MAX_S, Reconnecting
from mainspring.engine.cli.nats_connection import BrokerUnreachable, connected
from mainspring.engine.config import SettingsError, load_settings
from mainspring.engine.embedded import EmbeddedNats
from mainspring.engine.embedded.ports import free_port

TLS = Path(__file__).parents[1] / "data" / "tls"
CERTIFICATES = f'cert_file: "{TLS}/server.pem", key_file: "{TLS}/server-key.pem", ca_file: "{TLS}/ca.pem"'
CA = {"nats_tls_ca": TLS / "ca.pem"}
OWN_CERTIFICATE = {"nats_tls_cert": TLS / "client.pem", "nats_tls_key": TLS / "client-key.pem"}


@dataclass
class Login:
    """What the server asks for in place of its usual password, and what a client has to know for that."""

    config: str
    before_host: str = ""
    scheme: str = "nats"
    flags: Mapping[str, object] = field(default_factory=dict)


def password(_folder: Path) -> Login:
    config = 'authorization { user: "a@b/c:d", password: "p%40 /:@?#" }'
    return Login(config, "a%40b%2Fc%3Ad:p%2540%20%2F%3A%40%3F%23@")


def token(_folder: Path) -> Login:
    return Login('authorization { token: "s3/cret+@" }', "s3%2Fcret+%40@")


def nkey(folder: Path) -> Login:
    key = Key(nkeys.PREFIX_BYTE_USER)
    (folder / "user.nk").write_bytes(key.seed + b"\n")
    return Login(
        f"authorization {{ users: [ {{ nkey: {key.public} }} ] }}", flags={"nats_creds": folder / "user.nk"}
    )


def jwt(folder: Path) -> Login:
    config, credentials = accounts_with_jwt()
    (folder / "user.creds").write_text(credentials)
    return Login(config, flags={"nats_creds": folder / "user.creds"})


def tls(_folder: Path) -> Login:
    return Login(f"tls {{ {CERTIFICATES} }}", scheme="tls", flags=dict(CA))


def tls_by_greeting(_folder: Path) -> Login:
    return Login(f"tls {{ {CERTIFICATES} }}", flags=dict(CA))


def mutual_tls(_folder: Path) -> Login:
    return Login(f"tls {{ {CERTIFICATES}, verify: true }}", scheme="tls", flags=CA | OWN_CERTIFICATE)


def mutual_tls_with_password(_folder: Path) -> Login:
    config = f'tls {{ {CERTIFICATES}, verify: true }}\nauthorization {{ user: "u", password: "p" }}'
    return Login(config, "u:p@", "tls", CA | OWN_CERTIFICATE)


EVERY = [password, token, nkey, jwt, tls, tls_by_greeting, mutual_tls, mutual_tls_with_password]


async def started(folder: Path, login: Login) -> EmbeddedNats:
    server = EmbeddedNats(folder)
    written = server._config

    def config() -> str:
        kept = [line for line in written().splitlines() if not line.startswith("authorization")]
        return "\n".join([*kept, login.config]) + "\n"

    server._config = config  # type: ignore[method-assign]
    await server.start()
    return server


def address(server: EmbeddedNats, login: Login) -> str:
    return f"{login.scheme}://{login.before_host}127.0.0.1:{server.port}"


async def stored(bench: Bench) -> int:
    """Asked by a client that logs in as the commands do."""
    async with connected(bench.settings, "test") as client:
        return int((await client.jetstream().stream_info(bench.broker.stream.name)).state.messages)


@pytest.mark.parametrize("way", EVERY, ids=lambda way: way.__name__)
async def test_runs_are_published_and_again_after_the_server_was_killed(
    way: Callable[[Path], Login], server_folder: Path
) -> None:
    login = way(server_folder)
    server = await started(server_folder, login)
    bench = await bench_on(address(server, login), flags=login.flags)
    await bench.publish_second()
    await bench.all_settled(50)
    await server.kill()
    await bench.publish_second()
    await server.start()
    await bench.all_settled(100)
    assert await stored(bench) == 100
    await bench.broker.aclose()
    await server.kill()


@pytest.mark.parametrize("way", EVERY, ids=lambda way: way.__name__)
async def test_a_client_that_knows_nothing_is_refused(
    way: Callable[[Path], Login], server_folder: Path
) -> None:
    server = await started(server_folder, way(server_folder))
    settings = load_settings({"nats_url": f"nats://127.0.0.1:{server.port}"})
    with pytest.raises(BrokerUnreachable):
        async with connected(settings, "test"):
            pass
    await server.kill()


async def refused_with(config: str, server: EmbeddedNats, login: Login, bench: Bench) -> None:
    """The server comes back so configured under a bench at work, which it does not let in."""
    await bench.publish_second()
    await bench.all_settled(50)
    await server.kill()
    login.config = config
    await server.start()
    await bench.publish_second()
    await asyncio.sleep(1.5)  # several attempts
    assert not bench.broker.connected


async def test_a_login_that_is_taken_away_for_a_while_ends_nothing(server_folder: Path) -> None:
    login = password(server_folder)
    server = await started(server_folder, login)
    bench = await bench_on(address(server, login))
    good = login.config
    await refused_with('authorization { user: "other", password: "other" }', server, login, bench)
    assert not bench.broker.closed
    await server.kill()
    login.config = good
    await server.start()
    await bench.all_settled(100)
    await bench.broker.aclose()
    await server.kill()


async def test_a_server_that_comes_back_without_tls_is_refused_until_it_has_it_again(
    server_folder: Path,
) -> None:
    login = tls(server_folder)
    server = await started(server_folder, login)
    bench = await bench_on(address(server, login), flags=login.flags)
    good = login.config
    await refused_with("", server, login, bench)
    assert "secure connection not available" in bench.broker.trouble
    await server.kill()
    login.config = good
    await server.start()
    await bench.all_settled(100)
    async with asyncio.timeout(10):
        while bench.broker.trouble:  # of the other connection
            await asyncio.sleep(0.02)
    await bench.broker.aclose()
    await server.kill()


@pytest.mark.parametrize("flags", [{}, CA], ids=["tls not asked for", "tls asked for"])
async def test_tls_that_is_offered_and_not_required_is_used_where_the_settings_ask_for_it(
    flags: dict[str, object], server_folder: Path
) -> None:
    server = await started(server_folder, Login(f"tls {{ {CERTIFICATES} }}\nallow_non_tls: true"))
    settings = load_settings({"nats_url": f"nats://127.0.0.1:{server.port}"} | flags)
    async with connected(settings, "test") as client:
        transport: Any = client._transport
        secured = transport._io_writer.get_extra_info("ssl_object")
    assert (secured is not None) == bool(flags)
    await server.kill()


@pytest.mark.parametrize("way", [password, tls], ids=lambda way: way.__name__)
async def test_a_node_that_is_stopped_tells_of_no_connection_that_was_lost(
    way: Callable[[Path], Login], server_folder: Path, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    login = way(server_folder)
    server = await started(server_folder, login)
    await schema.init(database)
    connection = await asyncpg.connect(database)
    await connection.execute("insert into mainspring.jobs (every_s) values (1)")
    await connection.close()
    places = {"nats_url": address(server, login), "postgres_dsn": database, "http_port": 0}
    async with running(load_settings({**places, **login.flags})) as node:
        async with asyncio.timeout(10):
            while not node.status().acknowledged:  # from then on the lease guards the socket
                await asyncio.sleep(0.02)
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [line for line in told if "NATS" in line] == []
    await server.kill()


async def test_the_next_server_of_the_list_is_tried_where_one_is_away(own_nats: EmbeddedNats) -> None:
    login = own_nats.url.partition("://")[2].rpartition("@")[0]
    servers = [f"nats://{login}@127.0.0.1:{free_port()}", own_nats.url, f"nats://127.0.0.1:{free_port()}"]
    for order in (servers, servers[::-1]):
        bench = await bench_on(",".join(order))
        await bench.publish_second()
        await bench.all_settled(50)
        await own_nats.kill()
        await own_nats.start()
        await bench.publish_second()
        await bench.all_settled(100)
        await bench.broker.aclose()


async def test_what_a_server_tells_costs_the_connection_and_not_the_client(own_nats: EmbeddedNats) -> None:
    broker = Broker(load_settings({"nats_url": own_nats.url}))
    await broker.connect()
    for text in ("maximum connections exceeded", "user authentication expired", "authorization violation"):
        await broker._frames._process_err(f"'{text}'")
        assert not broker.connected
        async with asyncio.timeout(10):
            while not broker.connected:
                await asyncio.sleep(0.01)
        await broker._frames.flush()
    assert not broker.closed
    await broker.aclose()


async def test_an_unexpected_error_while_reconnecting_does_not_end_it(
    own_nats: EmbeddedNats, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(load_settings({"nats_url": own_nats.url}))
    await broker.connect()
    command, failures = Client._connect_command, iter([ValueError("half a file"), RuntimeError("odd")])

    def failing(client: Client) -> bytes:
        for failure in failures:
            raise failure
        return command(client)

    monkeypatch.setattr(Client, "_connect_command", failing)
    await broker.reconnect()
    async with asyncio.timeout(10):
        while not broker.connected:
            await asyncio.sleep(0.01)
    await broker._frames.flush()
    await broker.aclose()


def test_credentials_that_are_none_are_refused_with_the_file_named(tmp_path: Path) -> None:
    for text in ("", "SUAN", "-----BEGIN NATS USER JWT-----\nabc\n"):
        (tmp_path / "bad.creds").write_text(text)
        with pytest.raises(SettingsError, match=r"bad\.creds holds neither"):
            nats_login(load_settings({"nats_creds": tmp_path / "bad.creds"}))


def test_servers_with_different_logins_are_refused() -> None:
    with pytest.raises(SettingsError, match="all servers take the same"):
        nats_login(load_settings({"nats_url": "nats://a:b@one:4222,nats://a:c@two:4222"}))


def test_all_servers_are_tried_at_once_and_then_after_pauses_that_grow_and_differ() -> None:
    pace = Reconnecting()
    tried = [pace.next(["a", "b"]) for _ in range(40)]
    assert [server for server, _ in tried] == ["a", "b"] * 20
    pauses = [pause_s for server, pause_s in tried if server == "a"]
    assert (pauses[0], {pause_s for server, pause_s in tried if server == "b"}) == (0.0, {0.0})
    assert 0.125 <= pauses[1] <= 0.25
    assert all(PAUSE_MAX_S / 2 <= pause_s <= PAUSE_MAX_S for pause_s in pauses[5:])
    assert len(set(pauses)) == len(pauses)
    pace.connected()
    assert pace.next(["a", "b"]) == ("a", 0.0)
    assert Reconnecting(0.1).next(["a"])[1] == 0.0
