"""The consumer of examples/, as a user starts and ends it."""

import asyncio
import signal
import sys
from pathlib import Path

import nats

CONSUMER = Path(__file__).parents[2] / "examples" / "consumer.py"
RUN = b'{"id": "7@1764500000", "subject": "job-7", "time": "2025-11-30T10:53:20Z"}'


async def test_it_prints_runs_and_ctrl_c_ends_it_quietly(nats_url: str) -> None:
    client = await nats.connect(nats_url)
    jetstream = client.jetstream()
    await jetstream.add_stream(name="EXAMPLE", subjects=["mainspring.run.example"])
    await jetstream.publish("mainspring.run.example", RUN)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-u",
        str(CONSUMER),
        nats_url,
        "example",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), 20)
    process.send_signal(signal.SIGINT)
    _, err = await asyncio.wait_for(process.communicate(), 20)
    await jetstream.delete_stream("EXAMPLE")
    await client.close()
    assert line == b"2025-11-30T10:53:20Z job-7 None\n"
    assert (process.returncode, err) == (0, b"")
