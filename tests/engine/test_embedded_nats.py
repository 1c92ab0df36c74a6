"""The embedded NATS: JetStream keeps what it acknowledged, through every kind of end."""

import asyncio
import os
from pathlib import Path

import nats
import nats.errors
import pytest
from nats.js.api import StorageType, StreamConfig

from mainspring.engine.embedded import EmbeddedError, EmbeddedNats


async def publish(server: EmbeddedNats, count: int) -> None:
    client = await nats.connect(server.url)
    jetstream = client.jetstream()
    await jetstream.add_stream(StreamConfig(name="KEPT", subjects=["kept"], storage=StorageType.FILE))
    for number in range(count):
        await jetstream.publish("kept", str(number).encode())
    await client.close()


async def stored(server: EmbeddedNats) -> int:
    client = await nats.connect(server.url)
    info = await client.jetstream().stream_info("KEPT")
    await client.close()
    return info.state.messages


def command_line_of(server: EmbeddedNats) -> str:
    return Path(f"/proc/{server.pid}/cmdline").read_text()


async def test_what_was_acknowledged_survives_sigkill_and_the_port_stays(own_nats: EmbeddedNats) -> None:
    await publish(own_nats, 50)
    port = own_nats.port
    await own_nats.kill()
    await own_nats.start()
    assert await stored(own_nats) == 50
    assert own_nats.port == port


async def test_a_clean_stop_keeps_everything(own_nats: EmbeddedNats) -> None:
    await publish(own_nats, 5)
    await own_nats.stop()
    assert own_nats.pid is None
    await own_nats.start()
    assert await stored(own_nats) == 5


async def test_a_frozen_server_answers_nothing_and_goes_on_when_thawed(own_nats: EmbeddedNats) -> None:
    own_nats.freeze()
    reader, writer = await asyncio.open_connection("127.0.0.1", own_nats.port)
    greeting = asyncio.create_task(reader.readline())
    done, _ = await asyncio.wait((greeting,), timeout=0.3)
    assert not done
    own_nats.thaw()
    assert (await asyncio.wait_for(greeting, 5)).startswith(b"INFO ")
    writer.close()


async def test_the_folder_belongs_to_one_process(own_nats: EmbeddedNats, server_folder: Path) -> None:
    assert own_nats.pid is not None
    with pytest.raises(EmbeddedError, match="in use by another process"):
        await EmbeddedNats(server_folder).start()


async def test_a_bad_configuration_shows_the_end_of_the_log(server_folder: Path) -> None:
    with pytest.raises(EmbeddedError, match="nats-server ended at once"):
        await EmbeddedNats(server_folder, extra_config="nonsense: {").start()


async def test_strangers_need_the_password(own_nats: EmbeddedNats) -> None:
    async def refused(_: Exception) -> None:
        """Kept quiet: the refusal is what is tested."""

    with pytest.raises(nats.errors.Error, match="Authorization Violation"):
        await nats.connect(
            f"nats://127.0.0.1:{own_nats.port}", allow_reconnect=False, connect_timeout=2, error_cb=refused
        )


async def test_the_password_does_not_stand_in_the_command_line(own_nats: EmbeddedNats) -> None:
    password = own_nats.url.split(":")[2].partition("@")[0]
    command_line = command_line_of(own_nats)
    assert "nats.conf" in command_line
    assert password not in command_line


async def test_a_taken_port_is_left_to_its_taker(own_nats: EmbeddedNats) -> None:
    port = own_nats.port
    await own_nats.stop()
    other = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port)
    await own_nats.start()
    assert own_nats.port != port
    other.close()
    await other.wait_closed()


async def test_ctrl_c_in_the_terminal_does_not_reach_it(own_nats: EmbeddedNats) -> None:
    assert own_nats.pid is not None
    assert os.getsid(own_nats.pid) != os.getsid(0)
