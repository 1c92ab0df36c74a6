"""`mainspring run` as a process of its own, as an operator starts it."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from mainspring.engine.embedded.ports import free_port

READY_TIMEOUT_S = 60


class NodeProcess:
    """Start, look at, freeze, kill."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, log: Path) -> None:
        self._process = process
        self._url = f"http://127.0.0.1:{port}"
        self.log = log

    @property
    def url(self) -> str:
        return self._url

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def kill(self) -> None:
        """SIGKILL, unless it has ended."""
        if self.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def wait(self, timeout_s: float = 30) -> int:
        return await asyncio.wait_for(self._process.wait(), timeout_s)

    async def wait_ready(self) -> None:
        """Until /readyz says so; the log is shown when it does not."""
        for _ in range(READY_TIMEOUT_S * 20):
            if self._process.returncode is not None:
                raise AssertionError(f"the node ended: {self.log.read_text()[-2000:]}")
            if await self._get("/readyz") is not None:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"not ready within {READY_TIMEOUT_S} s: {self.log.read_text()[-2000:]}")

    async def metric(self, name: str) -> float:
        """The value of one sample, named as in the exposition, labels included."""
        text = await self._get("/metrics")
        for line in (text or "").splitlines():
            if line.startswith(name + " "):
                return float(line.rsplit(" ", 1)[1])
        raise AssertionError(f"no metric {name} in:\n{text}")

    async def wait_metric(self, name: str, least: float, timeout_s: float = 60) -> float:
        """Until the metric has come to `least`."""
        async with asyncio.timeout(timeout_s):
            while (value := await self.metric(name)) < least:
                await asyncio.sleep(0.1)
        return value

    async def _get(self, path: str) -> str | None:
        try:
            async with aiohttp.ClientSession() as session, session.get(self._url + path) as answer:
                return await answer.text() if answer.status == 200 else None
        except aiohttp.ClientError:
            return None


async def start_node(folder: Path, dsn: str, nats_url: str, *flags: str, **settings: object) -> NodeProcess:
    """A node that has just been started; whoever calls this ends it."""
    port = free_port()
    settings = {"postgres_dsn": dsn, "nats_url": nats_url, "http_port": port, **settings}
    environment = {f"MAINSPRING_{name.upper()}": str(value) for name, value in settings.items()}
    log = folder / f"node-{port}.log"
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "mainspring.engine",
            "run",
            *flags,
            env=os.environ | environment,
            stderr=stderr,
            cwd=folder,
        )
    return NodeProcess(process, port, log)


@asynccontextmanager
async def running_node(
    folder: Path, dsn: str, nats_url: str, *flags: str, **settings: object
) -> AsyncIterator[NodeProcess]:
    """A node that is ready; ended with SIGTERM, and it must end well, unless the test ended it."""
    node = await start_node(folder, dsn, nats_url, *flags, **settings)
    try:
        await node.wait_ready()
        yield node
        if node.returncode is None:
            node.signal(signal.SIGTERM)
            assert await node.wait() == 0, node.log.read_text()[-2000:]
    finally:
        await node.kill()
