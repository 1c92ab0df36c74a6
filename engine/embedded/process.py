"""One server process: start, stop, kill, freeze, and never outlive the owner."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from mainspring.engine.embedded import launch
from mainspring.engine.embedded.account import Account
from mainspring.engine.embedded.errors import EmbeddedError

LOG_TAIL_LINES = 8
LEFTOVER_GRACE_S = 10.0
STOP_GRACE_S = 15.0
FREEZE_LOOKS = 1000
FREEZE_LOOK_S = 0.005


class ServerProcess:
    """A child called ``program`` that works in ``folder``; it and its own children are found by these two.

    Start it from a thread that lives as long as the owner (the main one): the kernel counts the
    end of the thread that forked as the end of the parent.
    """

    def __init__(self, program: str, folder: Path, log: Path, *, stop_signal: signal.Signals) -> None:
        self.program = program
        self._folder = folder
        self._log = log
        self._stop_signal = stop_signal
        self._process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"<ServerProcess {self.program} pid={self.pid}>"

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        if self._process is None or self._process.poll() is not None:
            return None
        return self._process.pid

    def launch(self, argv: list[str], account: Account) -> None:
        """Start the program under ``account``, in a session of its own so that Ctrl-C passes it by."""
        bound = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), str(int(self._stop_signal))]
        bound += [str(account.uid), str(account.gid), "--", *argv]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                bound,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def check_running(self) -> None:
        """Raise EmbeddedError with the end of the log when the process has ended by itself."""
        if self.pid is None:
            raise EmbeddedError(
                f"{self.program} ended at once; its log {self._log} ends with:\n{self.log_tail()}"
            )

    def log_tail(self) -> str:
        """The last lines of the log."""
        try:
            lines = self._log.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return "(no log)"
        return "\n".join(lines[-LOG_TAIL_LINES:])

    async def wait(self) -> int:
        """Wait for the end of the process without polling; gives its exit status (-1 if never started)."""
        if self._process is None:
            return -1
        await _ended(self._process.pid, self._process.returncode is not None)
        return self._process.wait()

    async def stop(self) -> None:
        """Ask it to end, wait, and insist after STOP_GRACE_S."""
        if self.pid is None:
            return
        self.thaw()
        self._signal(self._stop_signal)
        try:
            async with asyncio.timeout(STOP_GRACE_S):
                await self.wait()
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """SIGKILL to the process first, so that it can start no others, then to all that it started."""
        self._signal(signal.SIGKILL)
        await self.wait()
        _signal_all(self._family(), signal.SIGKILL)
        await self._gone()

    def freeze(self) -> None:
        """SIGSTOP to the process and all that it started; on return none of their threads runs any more."""
        self._signal(signal.SIGSTOP)
        family = self._family()
        _signal_all(family, signal.SIGSTOP)
        for _ in range(FREEZE_LOOKS):
            if all(map(_is_stopped, family)):
                return
            time.sleep(FREEZE_LOOK_S)
        raise EmbeddedError(f"{self.program} goes on running after SIGSTOP: processes {family}")

    def thaw(self) -> None:
        """Undo `freeze`."""
        _signal_all(self._family(), signal.SIGCONT)

    async def clear_leftovers(self) -> None:
        """Wait for the processes of an owner that was killed, which are ending; then insist.

        The caller holds the folder's lock, so nothing that works in the folder has an owner any more.
        """
        if await self._gone():
            return
        _signal_all(self._family(), signal.SIGKILL)
        if not await self._gone():
            pids = ", ".join(map(str, self._family()))
            raise EmbeddedError(
                f"processes {pids} still use {self._folder} and cannot be ended; end them first"
            )

    def _family(self) -> list[int]:
        return processes_in(self._folder, self.program)

    async def _gone(self) -> bool:
        """Wait until no process works in the folder; False when some still do after LEFTOVER_GRACE_S."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LEFTOVER_GRACE_S
        while self._family():
            if loop.time() > deadline:
                return False
            await asyncio.sleep(0.02)
        return True

    def _signal(self, number: signal.Signals) -> None:
        if self.pid is not None and self._process is not None:
            self._process.send_signal(number)


def processes_in(folder: Path, program: str) -> list[int]:
    """Ids of the running processes of ``program`` whose working directory is ``folder``.

    Postgres gives each backend a session of its own, so neither group nor session would find them all; the
    name is asked for because a shell may well stand in the same folder.
    """
    wanted = os.path.realpath(folder)
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and _is(entry, wanted, program)]


def _is(pid: str, folder: str, program: str) -> bool:
    try:
        if os.readlink(f"/proc/{pid}/cwd") != folder:
            return False
        executable = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return False  # it ended meanwhile, or is another user's
    return executable.removesuffix(" (deleted)") == program


def _is_stopped(pid: int) -> bool:
    """Whether every thread is stopped, which on a busy machine may come some time after the signal."""
    try:
        return all(
            (task / "stat").read_text().rpartition(")")[2].split()[0] in "TtZX"
            for task in Path(f"/proc/{pid}/task").iterdir()
        )
    except OSError:
        return True  # it ended meanwhile


def _signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


async def _ended(pid: int, known: bool) -> None:
    """Wait for a child's end through a pidfd, which becomes readable then."""
    if known:
        return
    descriptor = os.pidfd_open(pid)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
