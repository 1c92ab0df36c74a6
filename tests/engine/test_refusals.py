"""Each refusal of a real broker, with the behaviour of its own: no run is lost by it."""

import asyncio
from pathlib import Path

import nats as nats_client
import pytest
from nats.js.api import StreamConfig
from publisher_bench import Bench, bench_on, every_second

from mainspring.engine.embedded import EmbeddedNats

ACCOUNTS = """
accounts {{
  TIGHT {{
    jetstream {{ max_file: 20000, max_mem: 0 }}
    users [ {{ user: mainspring, password: "{password}" }} ]
  }}
}}
"""

PERMISSIONS = """
authorization {{
  users [ {{
    user: mainspring, password: "{password}"
    permissions: {{ publish: {{ deny: "*.run.denied.>" }} }}
  }} ]
}}
"""


async def server_with(folder: Path, *, login: str = "", instead: tuple[str, str] = ("", "")) -> EmbeddedNats:
    """A server with `login` in place of its usual one, and the second text of `instead` for the first."""
    server = EmbeddedNats(folder)
    written = server._config

    def config() -> str:
        lines = written().replace(*instead).splitlines() if instead[0] else written().splitlines()
        if login:
            lines = [line for line in lines if not line.startswith("authorization")]
            lines.append(login.format(password=server._password))
        return "\n".join(lines) + "\n"

    server._config = config  # type: ignore[method-assign]
    await server.start()
    return server


async def small_stream(server: EmbeddedNats, instance: str) -> None:
    """The stream of an instance, with no room reserved for it."""
    client = await nats_client.connect(server.url)
    config = StreamConfig(name=instance.upper(), subjects=[f"{instance}.run.>"], duplicate_window=120)
    await client.jetstream().add_stream(config)
    await client.close()


def errors(bench: Bench, reason: str) -> float:
    return float(bench.metrics.publish_errors.labels(reason)._value.get())


async def refused(bench: Bench, reason: str) -> None:
    async with asyncio.timeout(20):
        while not errors(bench, reason):
            await bench.publisher.run_once()
            await asyncio.sleep(0.02)


async def purged(server: EmbeddedNats, instance: str) -> None:
    client = await nats_client.connect(server.url)
    await client.jetstream().purge_stream(instance.upper())
    await client.close()


async def test_runs_wait_for_room_within_the_limits_of_the_account(
    server_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = await server_with(server_folder, login=ACCOUNTS)
    await small_stream(server, "tight")
    bench = await bench_on(server.url, flags={"instance": "tight"})
    for _ in range(3):
        await bench.publish_second()
    await refused(bench, "no_space")
    assert bench.publisher.refused_for == "no_space"
    assert "Mend: raise the limits of the account" in caplog.text
    assert 0 < bench.settled.total() < 150
    while bench.settled.total() < 150:
        await purged(server, "tight")
        await bench.publisher.run_once()
        await asyncio.sleep(0.1)
    assert bench.metrics.dead_letters._value.get() == 0
    assert bench.publisher.refused_for == ""
    await bench.broker.aclose()
    await server.kill()


async def test_runs_wait_for_room_within_the_limits_of_the_server(server_folder: Path) -> None:
    server = await server_with(server_folder, instead=("1TB", "20KB"))
    await small_stream(server, "full")
    bench = await bench_on(server.url, flags={"instance": "full"})
    for _ in range(3):
        await bench.publish_second()
    await refused(bench, "no_space")
    while bench.settled.total() < 150:
        await purged(server, "full")
        await bench.publisher.run_once()
        await asyncio.sleep(0.1)
    await bench.broker.aclose()
    await server.kill()


async def test_runs_that_come_too_many_at_once_are_sent_again(server_folder: Path) -> None:
    server = await server_with(server_folder, instead=("jetstream {", "jetstream { max_buffered_msgs: 50,"))
    bench = await bench_on(server.url, jobs=400)
    for _ in range(3):
        await bench.publish_second()
    await refused(bench, "too_many")
    await bench.all_settled(1200)
    assert await bench.stored() == 1200
    assert bench.metrics.dead_letters._value.get() == 0
    await bench.broker.aclose()
    await server.kill()


async def test_runs_without_permission_are_given_up_in_time_and_keep_no_other_waiting(
    server_folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.engine.publishing.denials.PATIENCE_S", 1.0)
    server = await server_with(server_folder, login=PERMISSIONS)
    bench = await bench_on(server.url, jobs=50)
    denied = every_second(bench.wheel, 10, "denied.Checks")
    bench.wheel.apply(denied, b"")
    await bench.publish_second()
    await bench.all_settled(40)
    assert await bench.stored() == 40
    assert (bench.publisher.in_flight, bench.metrics.dead_letters._value.get()) == (10, 0)
    await bench.all_settled(50)
    assert errors(bench, "no_permission") >= 20
    assert bench.metrics.dead_letters._value.get() == 10
    assert caplog.text.count("this login may not publish to") == 1
    assert sorted(run.partition("@")[0] for run in bench.dead) == sorted(str(job) for job in range(1, 11))
    await bench.publish_second()
    await bench.all_settled(100)
    assert bench.metrics.dead_letters._value.get() == 20
    assert await bench.stored() == 80
    await bench.broker.aclose()
    await server.kill()


async def test_a_full_stream_is_named_as_the_reason_why_nothing_is_stored(server_folder: Path) -> None:
    server = EmbeddedNats(server_folder)
    await server.start()
    client = await nats_client.connect(server.url)
    config = StreamConfig(name="BRIM", subjects=["brim.run.>"], duplicate_window=120, max_msgs=1)
    await client.jetstream().add_stream(config, discard="new")
    bench = await bench_on(server.url, flags={"instance": "brim"})
    await bench.publish_second()
    await refused(bench, "stream_full")
    assert bench.publisher.refused_for == "stream_full"
    before = bench.publisher.silent_s()
    await asyncio.sleep(0.5)
    await bench.publisher.run_once()
    await asyncio.sleep(0.2)
    assert bench.publisher.silent_s() >= before + 0.5  # refusals are no sign that anything is stored
    await client.close()
    await bench.broker.aclose()
    await server.kill()
