"""The broker refuses the KV bucket, or the lease in it: log and /readyz name what lacks and the mend."""

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path

import nats as nats_client
import pytest
from nats.js.api import StreamConfig
from running_node import running

from mainspring.changelog_tailer import schema
from mainspring.engine.broker.bucket import BucketUnfit, open_bucket
from mainspring.engine.broker.connections import Broker
from mainspring.engine.broker.frame_client import LastingClient
from mainspring.engine.clock import SystemClock
from mainspring.engine.config import load_settings
from mainspring.engine.embedded import EmbeddedNats
from mainspring.engine.failover.lease import Lease
from mainspring.engine.node import Node


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


async def test_a_bucket_without_room_stops_the_start_with_the_mend(
    database: str, server_folder: Path
) -> None:
    """Another stream has reserved more than the server has by now."""
    server = EmbeddedNats(server_folder)
    await server.start()
    client = await nats_client.connect(server.url)
    for name, most in (("MAINSPRING", 2**20), ("OTHER", 2 * 2**30)):
        config = StreamConfig(
            name=name, subjects=[f"{name.lower()}.run.>"], max_bytes=most, duplicate_window=120
        )
        await client.jetstream().add_stream(config)
    await client.close()
    await server.stop()
    server._config = lambda: EmbeddedNats._config(server).replace("1TB", "1GB")  # type: ignore[method-assign]
    await server.start()
    settings = load_settings({"postgres_dsn": database, "nats_url": server.url, "http_port": 0})
    with pytest.raises(BucketUnfit, match=r"KV bucket mainspring cannot be made: .*Mend: .*max_file_store"):
        async with running(settings):
            pass
    await server.stop()


async def test_a_lease_without_permission_is_named_and_ends_without_a_traceback(
    database: str, server_folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    await schema.init(database)
    server = EmbeddedNats(server_folder)
    denied = 'permissions: { publish: { deny: "$KV.>" } }'
    written = server._config

    def config() -> str:
        kept = [line for line in written().splitlines() if not line.startswith("authorization")]
        return "\n".join(
            [*kept, f'authorization {{ users: [{{ user: "u", password: "p", {denied} }}] }}', ""]
        )

    server._config = config  # type: ignore[method-assign]
    await server.start()
    url = f"nats://u:p@127.0.0.1:{server.port}"
    settings = load_settings({"postgres_dsn": database, "nats_url": url, "http_port": 0})
    node = Node(settings)
    starting = asyncio.create_task(node.start())
    await until(lambda: "$kv.mainspring.lease" in node._why_not_ready().lower())
    assert "give it the permission" in node._why_not_ready()
    caplog.set_level(logging.INFO)
    caplog.clear()
    await asyncio.sleep(3)
    assert not [record for record in caplog.records if "(lease)" in record.getMessage()]
    starting.cancel()
    await node.aclose()
    assert raised == []
    await server.kill()


async def test_a_lease_that_ends_while_it_reconnects_ends_without_a_traceback(
    own_nats: EmbeddedNats, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    settings = load_settings({"nats_url": own_nats.url, "instance": "ending"})
    for wait_s in (0.0, 0.01, 0.3):
        broker = Broker(settings)
        await broker.connect()
        await broker.bucket()
        lease = Lease(broker.options("lease"), bucket="ending", clock=SystemClock())
        lease.start()
        lease.want()
        await lease.looked()
        await own_nats.kill()
        await asyncio.sleep(wait_s)
        await lease.aclose()
        await broker.aclose()
        assert not lease._thread.is_alive()
        await own_nats.start()
    assert raised == []


async def test_closing_raises_a_cancellation_only_where_the_caller_was_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def ended(_client: object) -> None:
        raise asyncio.CancelledError

    async def for_ever(_client: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("nats.aio.client.Client.close", ended)
    await LastingClient().close()
    monkeypatch.setattr("nats.aio.client.Client.close", for_ever)
    closing = asyncio.create_task(LastingClient().close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing


async def test_a_standby_behind_a_lease_that_nobody_renews_warns_with_the_mend(
    database: str, nats_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await schema.init(database)
    settings = load_settings(
        {"postgres_dsn": database, "nats_url": nats_url, "instance": "stuck", "http_port": 0}
    )
    async with running(settings) as node:
        await until(lambda: node.status().active)
    client = await nats_client.connect(nats_url)
    bucket = await open_bucket(client.jetstream(), "stuck")
    await bucket.put("lease", b"garbage")
    async with running(settings) as node:
        await until(lambda: "Mend: nats kv del stuck lease" in caplog.text)
        assert "b'garbage'" in caplog.text
        assert not node.status().active
        await (await client.jetstream().key_value("stuck")).delete("lease")
        await until(lambda: node.status().active)
    await client.jetstream().delete_key_value("stuck")
    await client.close()
