"""The files by which the commands that share a folder of servers find and await each other."""

import threading
from collections.abc import Callable
from pathlib import Path

from mainspring.engine.embedded.state_file import FileLock


class ServersFolder:
    """The locks and the state of one folder of embedded servers.

    `users` is held shared by each command that uses the servers; the keeper waits for it exclusively.
    `keeper` is held by the keeper for its life, `starting` by the command that is about to start one.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path).absolute()
        self.state = self.path / "servers.json"
        self.log = self.path / "keeper.log"
        self.users = FileLock(self.path / "users.lock")
        self.keeper = FileLock(self.path / "keeper.lock")
        self.starting = FileLock(self.path / "starting.lock")

    def kept(self) -> bool:
        """Whether a keeper is alive."""
        free = self.keeper.take(shared=True)
        self.keeper.release()
        return not free

    def when_unused(self, call: Callable[[], object]) -> None:
        """Call ``call`` from a daemon thread once no command holds the folder any more."""

        def wait() -> None:
            self.users.take(wait=True)
            call()

        threading.Thread(target=wait, name="unused", daemon=True).start()

    def leave(self) -> bool:
        """Stop using the servers; True when nobody else does and the keeper is about to stop them."""
        alone = self.users.take()
        # Refused: either another command holds the lock as we do, or the keeper has it already.
        last = alone or not self.users.take(shared=True)
        self.users.release()
        return last
