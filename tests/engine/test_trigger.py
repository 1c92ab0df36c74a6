"""`mainspring jobs trigger`, against a real Postgres and a real stream."""

import asyncio
import json
import re
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from command_line import Ended, mainspring
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import StreamConfig
from nats.js.errors import BadRequestError

from mainspring.changelog_tailer import schema
from mainspring.engine.cli.nats_connection import connected
from mainspring.engine.clock import SystemClock
from mainspring.engine.config import load_settings
from mainspring.engine.embedded import EmbeddedNats
from mainspring.engine.jobs.definition import Definition
from mainspring.engine.jobs.triggering import NotTriggered, publish_trigger, trigger_of

INSTANCES = count()


@pytest.fixture(autouse=True)
def instance(database: str, nats_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An instance of the test's own, with its database and the address of the broker in the environment."""
    name = f"trigger{next(INSTANCES)}"
    asyncio.run(schema.init(database))
    monkeypatch.setenv("MAINSPRING_POSTGRES_DSN", database)
    monkeypatch.setenv("MAINSPRING_NATS_URL", nats_url)
    monkeypatch.setenv("MAINSPRING_INSTANCE", name)
    return name


def jobs(*arguments: str) -> Ended:
    return mainspring("jobs", *arguments)


def stream(nats_url: str, instance: str, **limits: int) -> list[Msg]:
    """What the stream of the instance holds; it is made where it is missing."""

    async def read() -> list[Msg]:
        client = Client()
        await client.connect(nats_url)
        jetstream = client.jetstream()
        config = StreamConfig(name=instance.upper(), subjects=[f"{instance}.run.>"])
        state = (await jetstream.add_stream(config, **limits)).state
        subscription = await jetstream.subscribe(f"{instance}.run.>", ordered_consumer=True)
        messages = [await subscription.next_msg(timeout=5) for _ in range(state.messages)]
        await client.close()
        return messages

    return asyncio.run(read())


def test_a_run_by_hand_is_stored_before_it_is_told(instance: str, nats_url: str) -> None:
    stream(nats_url, instance)
    given = ("--key", 'web "1"', "--route", "checks.http", "--payload", '{"n": 1.10}', "--paused")
    (row,) = jobs("add", "--every", "1h", *given, "--json").json_lines()
    before = int(SystemClock().now())
    ended = jobs("trigger", 'web "1"', "--json")
    assert ended.status == 0, ended.err
    (told,) = ended.json_lines()
    (message,) = stream(nats_url, instance)
    assert message.subject == told["subject"] == f"{instance}.run.checks.http"
    assert message.headers == {
        "Nats-Msg-Id": told["id"],
        "Content-Type": "application/cloudevents+json",
    }
    named = re.fullmatch(r"(\d+)@(\d+)!([0-9a-f]{8})", told["id"])
    assert named is not None
    assert int(named[1]) == row["id"]
    assert before <= int(named[2]) <= int(SystemClock().now())
    event = json.loads(message.data)
    time = event.pop("time")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", time)
    assert event == {
        "specversion": "1.0",
        "type": "mainspring.trigger",
        "source": instance,
        "id": told["id"],
        "subject": 'web "1"',
        "data": {"n": 1.10},
    }
    assert b'"data":{"n": 1.10}}' in message.data


def test_each_run_by_hand_is_one_of_its_own(instance: str, nats_url: str) -> None:
    stream(nats_url, instance)
    (row,) = jobs("add", "--every", "1h", "--json").json_lines()
    told = {jobs("trigger", str(row["id"])).out for _ in range(3)}
    assert len(told) == 3
    assert all(re.fullmatch(rf"triggered {row['id']}@\d+![0-9a-f]{{8}}\n", line) for line in told)
    assert len(stream(nats_url, instance)) == 3


def test_an_unknown_job_and_a_missing_stream_are_told(instance: str) -> None:
    assert jobs("trigger", "nobody").status == 1
    (row,) = jobs("add", "--every", "1h", "--json").json_lines()
    ended = jobs("trigger", str(row["id"]))
    assert (ended.status, ended.out) == (1, "")
    assert f"no stream takes {instance}.run.default" in ended.err


def test_a_refusal_of_the_stream_is_told(instance: str, nats_url: str) -> None:
    stream(nats_url, instance, max_msg_size=10)
    (row,) = jobs("add", "--every", "1h", "--json").json_lines()
    ended = jobs("trigger", str(row["id"]))
    assert (ended.status, ended.out) == (1, "")
    assert "message size exceeds maximum allowed" in ended.err


def test_a_run_that_another_stream_would_take_is_not_triggered(instance: str, nats_url: str) -> None:
    async def other(name: str, subjects: list[str]) -> int:
        client = Client()
        await client.connect(nats_url)
        jetstream = client.jetstream()
        with suppress(BadRequestError):  # it is there
            await jetstream.add_stream(StreamConfig(name=name, subjects=subjects))
        stored = (await jetstream.stream_info(name)).state.messages
        await client.close()
        return stored

    taker = f"OTHER_{instance}"
    asyncio.run(other(taker, [f"{instance}.>"]))
    (row,) = jobs("add", "--every", "1h", "--json").json_lines()
    ended = jobs("trigger", str(row["id"]))
    assert (ended.status, ended.out) == (1, "")
    assert f"stream {taker} takes {instance}.run.default, and not {instance.upper()}" in ended.err
    assert "Mend: take the subject out of that stream" in ended.err
    assert asyncio.run(other(taker, [])) == 0


async def test_a_login_that_may_not_publish_and_a_run_that_is_too_large_are_told_at_once(
    server_folder: Path,
) -> None:
    rules = 'permissions: { publish: { deny: ["mainspring.run.secret"] } }'
    server = EmbeddedNats(server_folder)
    written = server._config
    server._config = lambda: "\n".join(  # type: ignore[method-assign]
        [
            *(line for line in written().splitlines() if not line.startswith("authorization")),
            f"authorization {{ users: [ {{ user: u, password: p, {rules} }} ] }}\nmax_payload: 2048\n",
        ]
    )
    await server.start()
    settings = load_settings({"nats_url": f"nats://u:p@127.0.0.1:{server.port}"})
    async with connected(settings, "test") as client, asyncio.timeout(3):
        await client.jetstream().add_stream(StreamConfig(name="MAINSPRING", subjects=["mainspring.run.>"]))
        denied = trigger_of(Definition(id=7, every_s=60, route="secret"), "mainspring", 1764500000)
        with pytest.raises(
            NotTriggered, match=r"may not publish to mainspring\.run\.secret.*Mend: permit it"
        ):
            await publish_trigger(client, denied)
        spare = 2048 - trigger_of(job_of(0), "mainspring", 1764500000).size
        await publish_trigger(client, trigger_of(job_of(spare), "mainspring", 1764500000))
        large = trigger_of(job_of(spare + 1), "mainspring", 1764500000)
        with pytest.raises(
            NotTriggered, match=r"run of job 7 has 2049 bytes, and the server takes 2048\. Mend"
        ):
            await publish_trigger(client, large)
        assert client.is_connected
        assert (await client.jetstream().stream_info("MAINSPRING")).state.messages == 1
    await server.kill()


def job_of(characters: int) -> Definition:
    return Definition(id=7, every_s=60, payload=json.dumps("x" * characters))


def test_the_envelope_of_a_job_without_key_and_payload() -> None:
    trigger = trigger_of(Definition(id=-7, every_s=60), "mainspring", 1764500000)
    assert trigger.subject == "mainspring.run.default"
    assert trigger.body == (
        b'{"specversion":"1.0","type":"mainspring.trigger","source":"mainspring","id":"%s",'
        b'"subject":"-7","time":"2025-11-30T10:53:20Z"}' % trigger.id.encode()
    )
