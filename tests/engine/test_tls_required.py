"""Where the settings ask for TLS, a server without it is given nothing, by no connection of the project."""

import asyncio
import json
import re
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from command_line import mainspring

from mainspring.changelog_tailer import schema
from mainspring.engine.broker.connections import Broker
from mainspring.engine.broker.stream_reader import StreamReader, StreamUnreadable
from mainspring.engine.cli.nats_connection import BrokerUnreachable, connected
from mainspring.engine.clock import SystemClock
from mainspring.engine.config import Settings, SettingsError, load_settings
from mainspring.engine.embedded import EmbeddedNats
from mainspring.engine.failover.lease import Lease
from mainspring.engine.node import Node
from mainspring.engine.tls import nats_tls, postgres_tls

TLS = Path(__file__).parents[1] / "data" / "tls"
CA = {"nats_tls_ca": TLS / "ca.pem"}
OWN_CERTIFICATE = {"nats_tls_cert": TLS / "client.pem", "nats_tls_key": TLS / "client-key.pem"}
REFUSED = r"secure connection not available: .*nats_url \(tls://.*nats_tls_ca.*Mend: give the server a `tls`"


class Plain(socketserver.ThreadingTCPServer):
    """Greets as a NATS server without TLS, answers every PING, and keeps all that it is sent."""

    allow_reuse_address = daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Greeting)
        self.seen = b""
        self.greeted = 0

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Greeting(socketserver.StreamRequestHandler):
    server: Plain

    def handle(self) -> None:
        info = {"version": "2.12.0", "max_payload": 2**20, "headers": True, "auth_required": True, "proto": 1}
        self.wfile.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
        self.server.greeted += 1
        for line in self.rfile:
            self.server.seen += line
            if line.startswith(b"PING"):
                self.wfile.write(b"PONG\r\n")


@pytest.fixture
def plain() -> Iterator[Plain]:
    with Plain() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


ASKED = {
    "scheme": ("tls://u:secret@127.0.0.1:{port}", {}),
    "scheme of another": ("nats://u:secret@127.0.0.1:{port},tls://u:secret@127.0.0.1:1", {}),
    "authority": ("nats://u:secret@127.0.0.1:{port}", CA),
    "certificate": ("nats://u:secret@127.0.0.1:{port}", OWN_CERTIFICATE),
    "token": ("tls://secret@127.0.0.1:{port}", CA),
    "websocket": ("ws://u:secret@127.0.0.1:{port}", CA),
}


@pytest.fixture(params=ASKED)
def settings(request: pytest.FixtureRequest, plain: Plain) -> Settings:
    url, flags = ASKED[request.param]
    return load_settings({"nats_url": url.format(port=plain.port), "http_port": 0} | flags)


def test_a_server_that_is_not_asked_for_tls_is_told_who_we_are(plain: Plain) -> None:
    """So the silence of the other tests is no fault of the recorder."""

    async def connect() -> None:
        async with connected(load_settings({"nats_url": f"nats://u:secret@127.0.0.1:{plain.port}"}), "test"):
            pass

    asyncio.run(connect())
    assert b"secret" in plain.seen


async def test_a_command_is_refused_before_it_logs_in(settings: Settings, plain: Plain) -> None:
    if "," in settings.nats_url:  # the driver tries them in any order, and tells the last
        settings = settings.model_copy(
            update={"nats_url": settings.nats_url.replace("127.0.0.1:1", "[::1]:1")}
        )
    with pytest.raises(BrokerUnreachable):
        async with connected(settings, "test"):
            pass
    assert plain.seen == b""


SPAN = ("--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T00:01:00Z")


@pytest.mark.parametrize(
    ("command", "status"),
    [(("tail",), 1), (("verify", *SPAN), 1), (("jobs", "trigger", "one"), 1), (("doctor",), 3)],
    ids=["tail", "verify", "trigger", "doctor"],
)
def test_every_command_says_why_and_how_to_mend_it(
    command: tuple[str, ...], status: int, plain: Plain, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(schema.init(database))
    monkeypatch.setenv("MAINSPRING_POSTGRES_DSN", database)
    monkeypatch.setenv("MAINSPRING_NATS_URL", f"tls://u:secret@127.0.0.1:{plain.port}")
    assert mainspring("jobs", "add", "--key", "one", "--every", "60").status == 0
    ended = mainspring(*command)
    assert ended.status == status, ended.err
    assert re.search(REFUSED, " ".join((ended.out + ended.err).split()))
    assert plain.seen == b""


async def test_every_connection_of_a_node_is_refused_and_goes_on_trying(
    settings: Settings, plain: Plain
) -> None:
    broker = Broker(settings)
    lease = Lease(broker.options("lease"), bucket="mainspring", clock=SystemClock())
    lease.start()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.5):
            await broker.connect()
    await lease.aclose()
    assert plain.seen == b""
    assert plain.greeted >= 4 or settings.nats_url.startswith("ws")


async def test_the_reader_of_the_stream_is_refused(
    settings: Settings, plain: Plain, own_nats: EmbeddedNats
) -> None:
    async with connected(load_settings({"nats_url": own_nats.url}), "test") as client:
        reader = StreamReader(settings, client.jetstream(), "NONE")
        with pytest.raises(StreamUnreadable):
            async for _ in reader.chunks(0):
                pass
    assert plain.seen == b""


async def test_a_node_says_why_it_is_not_ready(plain: Plain) -> None:
    url = f"tls://u:secret@127.0.0.1:{plain.port}"
    node = Node(load_settings({"nats_url": url, "http_port": 0}))
    starting = asyncio.create_task(node.start())
    await asyncio.sleep(0.5)
    async with aiohttp.ClientSession() as session, session.get(node.url + "/readyz") as answer:
        status, text = answer.status, await answer.text()
    starting.cancel()
    await asyncio.wait([starting])
    await node.aclose()
    assert status == 503
    assert "connecting to NATS: secure connection not available" in text
    assert "secret" not in text + plain.seen.decode()


@pytest.mark.parametrize("server", ["nats", "postgres"])
@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ({"ca": "bad.pem"}, "_tls_ca: {folder}/bad.pem cannot be read as a certificate of an authority"),
        ({"cert": "bad.pem", "key": "bad.pem"}, "_tls_cert, {server}_tls_key: {folder}/bad.pem, "),
        ({"cert": TLS / "client.pem", "key": TLS / "server-key.pem"}, "_tls_cert, {server}_tls_key: "),
    ],
    ids=["authority", "certificate", "key of another"],
)
def test_a_file_that_is_none_is_named_with_its_setting(
    server: str, parts: dict[str, str | Path], named: str, tmp_path: Path
) -> None:
    (tmp_path / "bad.pem").write_text("no certificate")
    settings = load_settings({f"{server}_tls_{part}": tmp_path / file for part, file in parts.items()})
    context = nats_tls if server == "nats" else postgres_tls
    with pytest.raises(SettingsError) as refused:
        context(settings)
    assert str(refused.value).startswith(server + named.format(folder=tmp_path, server=server))


def test_a_file_that_is_none_ends_a_command_as_a_wrong_setting_does(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("no certificate")
    ended = mainspring("tail", "--nats-tls-ca", str(tmp_path / "bad.pem"))
    assert ended.status == 2
    assert f"nats_tls_ca: {tmp_path}/bad.pem cannot be read" in ended.err
    ended = mainspring("jobs", "list", "--postgres-tls-ca", str(tmp_path / "bad.pem"))
    assert ended.status == 2
    assert f"postgres_tls_ca: {tmp_path}/bad.pem cannot be read" in ended.err
