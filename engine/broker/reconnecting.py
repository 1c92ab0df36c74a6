"""Which NATS server is tried next, and after what pause."""

import random
from collections.abc import Sequence
from typing import Any, Final, TypeVar

FIRST_PAUSE_S: Final = 0.25
# Runs wait for every second that a broker is back and nobody has noticed.
PAUSE_MAX_S: Final = 2.0

Server = TypeVar("Server")


class Reconnecting:
    """Round after round of all servers. The first round is tried at once; before each later one the pause
    doubles up to `pause_max_s`, and is drawn from the upper half, so that many clients do not come together.
    """

    def __init__(self, pause_max_s: float = PAUSE_MAX_S) -> None:
        self._pause_max_s = min(pause_max_s, PAUSE_MAX_S)
        self._tries = 0

    def connected(self) -> None:
        """Begin anew."""
        self._tries = 0

    def next(self, servers: Sequence[Server], _info: Any = None) -> tuple[Server, float]:
        """The server, and the pause in seconds before it: a `reconnect_to_server_handler` of nats-py."""
        rounds, place = divmod(self._tries, len(servers))
        self._tries += 1
        if rounds == 0 or place:
            return servers[place], 0.0
        pause_s = min(FIRST_PAUSE_S * 2 ** min(rounds - 1, 30), self._pause_max_s)
        return servers[place], random.uniform(pause_s / 2, pause_s)
