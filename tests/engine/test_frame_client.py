"""What we use of nats-py beside its public surface: it is there, and it does what we count on."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from importlib.metadata import version

import nats as nats_client
import pytest_asyncio
from nats.aio.client import Client
from nats.aio.transport import TcpTransport
from nats.errors import UnexpectedEOF
from nats.js.api import StreamConfig

from mainspring.engine.broker.frame_client import FrameClient, FrameTransport
from mainspring.engine.embedded import EmbeddedNats
from mainspring.engine.publishing.ack_filter import AckFilter
from mainspring.loadtest.tcp_proxy import Link, proxied

BATCH = b"PUB nobody.listens 100000\r\n" + b"x" * 100_000 + b"\r\n"


@pytest_asyncio.fixture
async def client(nats_url: str) -> AsyncIterator[FrameClient]:
    frames = FrameClient()
    await frames.connect(nats_url)
    yield frames
    await frames.close()


def test_the_pinned_release_has_the_private_names() -> None:
    assert version("nats-py").startswith("2.16.")
    for name, parameters in {
        "_connect_to_server": ["self", "s"],
        "_attempt_reconnect": ["self"],
        "_process_err": ["self", "err_msg"],
        "_process_op_err": ["self", "e"],
        "_process_info": ["self", "info", "initial_connection"],
    }.items():
        assert inspect.iscoroutinefunction(getattr(Client, name))
        assert list(inspect.signature(getattr(Client, name)).parameters) == parameters
    fresh, transport = Client(), TcpTransport()  # type: ignore[no-untyped-call]
    assert (fresh._transport, fresh._pending, fresh._pending_data_size) == (None, [], 0)
    assert {"_io_reader", "_io_writer", "_bare_io_writer"} <= vars(transport).keys()
    assert list(inspect.signature(TcpTransport.connect).parameters) == list(
        inspect.signature(FrameTransport.connect).parameters
    )
    assert list(inspect.signature(TcpTransport.connect_tls).parameters) == list(
        inspect.signature(FrameTransport.connect_tls).parameters
    )


async def test_every_connection_goes_through_the_filter(client: FrameClient) -> None:
    assert isinstance(client._transport, FrameTransport)
    first = client._transport
    await client.force_reconnect()
    await until(lambda: client.is_connected)
    assert isinstance(client._transport, FrameTransport)
    assert client._transport is not first


async def test_acknowledgements_come_in_bulk_and_all_else_to_the_subscription(client: FrameClient) -> None:
    jetstream = client.jetstream()
    await jetstream.add_stream(StreamConfig(name="BULK", subjects=["bulk.>"]))
    acknowledged: list[int] = []
    client.on_acks = lambda acks: acknowledged.extend(acks.numbers.tolist())
    subscription = await client.subscribe(f"{client.inbox}.*")
    await client.flush()
    frames = [f"PUB bulk.a {client.inbox}.{number} 2\r\nhi\r\n" for number in range(100)]
    frames.insert(50, f"PUB no.stream {client.inbox}.1000 2\r\nhi\r\n")
    assert client.write("".join(frames).encode())
    await until(lambda: len(acknowledged) == 100)
    refusal = await subscription.next_msg(timeout=5)
    assert refusal.subject == f"{client.inbox}.1000"
    assert refusal.headers is not None
    assert refusal.headers["Status"] == "503"
    assert acknowledged == list(range(100))
    assert subscription.pending_msgs == 0
    await jetstream.delete_stream("BULK")


async def test_writing_waits_for_room_and_ends_with_the_connection(own_nats: EmbeddedNats) -> None:
    async with proxied(own_nats.port) as proxy:
        client = FrameClient()
        await client.connect(own_nats.url.replace(str(own_nats.port), str(proxy.port)))
        assert client.has_room
        await client.room()
        proxy.freeze()
        written = 0
        waiting = asyncio.create_task(client.room())
        while (await asyncio.wait([waiting], timeout=0.5))[0]:
            assert client.write(BATCH)
            written += 1
            waiting = asyncio.create_task(client.room())
        assert not client.has_room
        await client.force_reconnect()
        await asyncio.wait_for(waiting, 5)
        await until(lambda: client.is_connected)
        assert client.has_room
        assert client.write(b"PING\r\n")
        await client.close()
    assert written < 200  # 20 MB: what the sockets on the way can hold, and no more


async def test_what_the_peer_has_not_taken_of_a_connection_that_is_left_never_arrives(
    own_nats: EmbeddedNats,
) -> None:
    """Not even what the kernel had taken: after minutes without a way it would arrive, beside its resend."""
    arrived: list[int] = []
    links: list[Link] = []

    def counted(link: Link) -> None:
        arrived.append(0)
        links.append(link)
        number = len(arrived) - 1

        def upward(chunk: bytes) -> bytes:
            arrived[number] += len(chunk)
            return chunk

        link.upward = upward

    async with proxied(own_nats.port, counted) as proxy:
        client = FrameClient()
        await client.connect(own_nats.url.replace(str(own_nats.port), str(proxy.port)))
        proxy.freeze()
        greeted, written = arrived[0], 0
        while client.has_room:
            assert client.write(BATCH)
            written += len(BATCH)
            await asyncio.sleep(0.01)
        assert isinstance(client._transport, FrameTransport)
        assert client._transport._io_writer is not None
        taken = written - client._transport._io_writer.transport.get_write_buffer_size()
        await client.force_reconnect()
        await until(lambda: client.is_connected and len(arrived) == 2)
        links[0].downward = lambda _chunk: b""  # an answer would end what is closed here
        proxy.thaw()
        await client.flush()
        await asyncio.sleep(0.5)
        assert 0 < arrived[0] - greeted < taken
        await client.close()


async def test_nothing_is_written_while_disconnected(own_nats: EmbeddedNats) -> None:
    client = FrameClient()
    assert not client.write(BATCH)
    assert not client.has_room
    await client.connect(own_nats.url, max_reconnect_attempts=-1, error_cb=unheard)
    await own_nats.kill()
    await until(lambda: not client.is_connected)
    assert not client.write(BATCH)
    await client.room()
    await own_nats.start()
    await until(lambda: client.is_connected)
    await client.close()


async def test_bytes_of_no_protocol_end_the_connection_and_a_new_one_is_made(client: FrameClient) -> None:
    errors: list[Exception] = []

    async def told(error: Exception) -> None:
        errors.append(error)

    client._error_cb = told
    transport = client._transport
    assert isinstance(transport, FrameTransport)
    assert transport._io_writer is not None
    filtered = transport._io_writer.transport.get_protocol()
    assert isinstance(filtered, AckFilter)
    filtered.get_buffer(-1)[:6] = b"HTTP\r\n"
    filtered.buffer_updated(6)
    await until(lambda: client._transport is not transport and client.is_connected)
    assert any(isinstance(error, UnexpectedEOF) for error in errors)
    await client.flush()


async def test_a_plain_client_beside_it_is_as_it_was(nats_url: str, client: FrameClient) -> None:
    plain = await nats_client.connect(nats_url)
    heard = await plain.subscribe("hello")
    await plain.flush()
    assert client.write(b"PUB hello 2\r\nhi\r\n")
    assert (await heard.next_msg(timeout=5)).data == b"hi"
    await plain.close()


async def unheard(_error: Exception) -> None: ...


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.01)
