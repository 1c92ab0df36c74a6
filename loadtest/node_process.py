"""A node as a process of its own, started as an operator starts it, and what can happen to it."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Final

import aiohttp

from mainspring.engine.embedded.ports import free_port
from mainspring.loadtest.resident import resident_bytes

READY_TIMEOUT_S: Final = 120.0
END_TIMEOUT_S: Final = 40.0
OK: Final = 200
_LOOK_S: Final = 0.05
_TAIL_BYTES: Final = 2000


class NodeFailed(RuntimeError):
    """A node ended by itself, or does not do what it has to; the message has the end of its log."""


class NodeProcess:
    """One life of a node: `start`, `ready`, then `kill`, `end`, or `freeze` and `thaw`.

    flags: of `mainspring run`. settings: as variables. log: is appended to.
    """

    def __init__(self, log: Path, settings: dict[str, str], *flags: str) -> None:
        self.log, self._settings, self._flags = log, settings, flags
        self.url = ""
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the process; it is not ready yet."""
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        settings = self._settings | {"http_port": str(port)}
        environment = {f"MAINSPRING_{name.upper()}": value for name, value in settings.items()}
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "mainspring.engine", "run", *self._flags),
                env=os.environ | environment,
                stdout=log,
                stderr=log,
                cwd=self.log.parent,
            )

    async def ready(self) -> None:
        """Until /readyz is content. Raises NodeFailed."""
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                while not await self._is_ready():
                    self.require_running()
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            raise NodeFailed(f"not ready within {READY_TIMEOUT_S:.0f} s: {self._told()}") from None

    def require_running(self) -> None:
        """Raises NodeFailed where the process has ended."""
        if self._running().returncode is not None:
            raise NodeFailed(f"the node ended with status {self._running().returncode}: {self._told()}")

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """The process id. Raises NodeFailed before `start`."""
        return self._running().pid

    async def metrics(self) -> str:
        """What it tells of itself, in the text format of Prometheus."""
        _, text = await self._get("/metrics")
        return text

    async def active(self) -> bool:
        """Whether it is the one that publishes."""
        return await self.metric("mainspring_active") == 1

    async def metric(self, name: str) -> float:
        """The value of one sample, named as in the exposition, labels included."""
        lines = (await self.metrics()).splitlines()
        values = [line.rsplit(" ", 1)[1] for line in lines if line.startswith(f"{name} ")]
        if not values:
            raise NodeFailed(f"the node has no metric {name}")
        return float(values[0])

    async def until_metric(self, name: str, least: float, timeout_s: float = 60) -> float:
        """Wait until the sample has come to `least`. Raises NodeFailed."""
        value = await self.metric(name)
        try:
            async with asyncio.timeout(timeout_s):
                while value < least:
                    await asyncio.sleep(_LOOK_S)
                    value = await self.metric(name)
        except TimeoutError:
            raise NodeFailed(f"{name} is {value:g}, not {least:g}, after {timeout_s:g} s") from None
        return value

    async def not_ready(self) -> str:
        """What /readyz says against it; empty where it is ready."""
        status, text = await self._get("/readyz")
        return "" if status == OK else text.strip()

    def resident_bytes(self) -> int:
        """Memory of the process that is really there."""
        return resident_bytes(self._running().pid)

    async def kill(self) -> None:
        """SIGKILL: whatever it was doing."""
        self._signal(signal.SIGKILL)
        await self._running().wait()

    async def end(self) -> None:
        """SIGTERM, and it has to end well. Raises NodeFailed."""
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(END_TIMEOUT_S):
                status = await self._running().wait()
        except TimeoutError:
            raise NodeFailed(
                f"SIGTERM does not end it within {END_TIMEOUT_S:.0f} s: {self._told()}"
            ) from None
        if status:
            raise NodeFailed(f"SIGTERM ended it with status {status}: {self._told()}")

    def freeze(self) -> None:
        """SIGSTOP: its connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    async def aclose(self) -> None:
        """End it, whatever state it is in."""
        if self.running:
            await self.kill()

    async def _is_ready(self) -> bool:
        try:
            return not await self.not_ready()
        except aiohttp.ClientError:
            return False

    async def _get(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}{path}") as answer:
            return answer.status, await answer.text()

    def _signal(self, number: signal.Signals) -> None:
        self.require_running()
        self._running().send_signal(number)

    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise NodeFailed("the node was not started")
        return self._process

    def _told(self) -> str:
        return self.log.read_text(errors="replace")[-_TAIL_BYTES:]
