"""``mainspring tail`` against a real stream, as another process."""

import asyncio
import json
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import nats
import pytest
from command_line import mainspring
from nats.js.client import JetStreamContext

from mainspring.engine.cli import main
from mainspring.engine.cli.tail import ROUTE_PATTERN


def event(job_id: int, scheduled_at: str = "2025-11-30T10:53:20Z") -> bytes:
    return json.dumps(
        {
            "id": f"{job_id}@1764500000",
            "subject": f"job-{job_id}",
            "time": scheduled_at,
            "data": {"n": job_id},
        }
    ).encode()


@asynccontextmanager
async def stream(url: str, instance: str) -> AsyncIterator[JetStreamContext]:
    client = await nats.connect(url)
    jetstream = client.jetstream()
    await jetstream.add_stream(name=instance.upper(), subjects=[f"{instance}.run.>"])
    yield jetstream
    await jetstream.delete_stream(instance.upper())
    await client.close()


async def tail(url: str, instance: str, *arguments: str) -> asyncio.subprocess.Process:
    argv = ["-m", "mainspring.engine", "tail", "--nats-url", url, "--instance", instance, *arguments]
    return await asyncio.create_subprocess_exec(
        sys.executable, *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )


async def consumer_there(jetstream: JetStreamContext, instance: str) -> None:
    """Until the tail listens: the server's own account of its consumers says so."""
    while not await jetstream.consumers_info(instance.upper()):
        await asyncio.sleep(0.02)


async def test_it_prints_new_runs_of_a_route_and_ends_after_count(nats_url: str) -> None:
    async with stream(nats_url, "tail-count") as jetstream:
        await jetstream.publish("tail-count.run.checks.http", event(1))
        process = await tail(nats_url, "tail-count", "--route", "checks.*", "--count", "2", "--json")
        await asyncio.wait_for(consumer_there(jetstream, "tail-count"), 20)
        for number, route in ((2, "checks.http"), (3, "reports"), (4, "checks.tcp")):
            await jetstream.publish(f"tail-count.run.{route}", event(number))
        out, _ = await asyncio.wait_for(process.communicate(), 20)
    runs = [json.loads(line) for line in out.splitlines()]
    assert process.returncode == 0
    assert [(run["id"], run["route"]) for run in runs] == [
        ("2@1764500000", "checks.http"),
        ("4@1764500000", "checks.tcp"),
    ]
    assert runs[0]["scheduled_at"] == 1764500000
    assert runs[0]["data"] == {"n": 2}


async def test_sigterm_ends_it_well_and_lines_are_for_people(nats_url: str) -> None:
    async with stream(nats_url, "tail-term") as jetstream:
        process = await tail(nats_url, "tail-term")
        await asyncio.wait_for(consumer_there(jetstream, "tail-term"), 20)
        await jetstream.publish("tail-term.run.checks.http", event(7))
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), 20)).decode()
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 20) == 0
    assert line.startswith("10:53:20Z  ")
    assert line.split()[-3:] == ["checks.http", "7@1764500000", "job-7"]


def test_a_missing_stream_is_explained(nats_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tail", "--nats-url", nats_url, "--instance", "nowhere"]) == 1
    assert "there is no stream NOWHERE" in capsys.readouterr().err


def test_a_server_that_is_not_there_is_told_soon_with_address_and_setting() -> None:
    ended = mainspring("tail", "--nats-url", "nats://user:s3cret@127.0.0.1:1")
    assert ended.status == 1
    assert ended.err.startswith(
        "error: NATS at nats://user:***@127.0.0.1:1 cannot be reached: Connection refused (nats_url)"
    )
    assert len(ended.err.splitlines()) == 1


def test_a_server_that_keeps_silent_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ended = mainspring("tail", "--nats-url", f"nats://127.0.0.1:{silent.getsockname()[1]}")
    assert ended.status == 1
    assert "cannot be reached: no answer in time (nats_url)" in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_wrong_password_names_the_setting(nats_url: str) -> None:
    ended = mainspring("tail", "--nats-url", re.sub(r"//.*@", "//mainspring:s3cret@", nats_url))
    assert ended.status == 1
    assert "refuses these credentials; mend user and password or token in nats_url" in ended.err
    assert "s3cret" not in ended.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_it_while_it_connects(number: signal.Signals) -> None:
    met = asyncio.Event()

    async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(keep_silent, "127.0.0.1", 0) as silent:
        port = silent.sockets[0].getsockname()[1]
        process = await tail(f"nats://127.0.0.1:{port}", "silent")
        await asyncio.wait_for(met.wait(), 20)
        process.send_signal(number)
        out, err = await asyncio.wait_for(process.communicate(), 20)
    assert (process.returncode, out, err) == (0, b"", b"")


@pytest.mark.parametrize("route", ["a b", "a..b", "a.", ">.a", "a.>.b", "a\r\n", ""])
def test_a_bad_route_is_wrong_usage(route: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tail", "--route", route]) == 2
    assert "--route" in capsys.readouterr().err


@pytest.mark.parametrize("route", ["a", "a.b", "a.*", "*.b", "a.>", ">"])
def test_routes_and_patterns_are_accepted(route: str) -> None:
    assert ROUTE_PATTERN.fullmatch(route)
