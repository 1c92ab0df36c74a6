"""A free TCP port on the loopback interface."""

import random
import socket

from mainspring.engine.embedded.errors import EmbeddedError

HOST = "127.0.0.1"
# Below the kernel's range for outgoing connections. Inside it a client that keeps dialling a dead server can
# be given the server's own port, connect to itself, and so keep the server from coming back.
FIRST, LAST = 20_000, 32_000
ATTEMPTS_MAX = 200


def is_free(port: int) -> bool:
    """Whether a server could listen on ``port`` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port nobody listens on; the caller must be ready to find it taken a moment later."""
    for _ in range(ATTEMPTS_MAX):
        port = random.randrange(FIRST, LAST)
        if is_free(port):
            return port
    raise EmbeddedError(f"no free port on {HOST} between {FIRST} and {LAST}; stop what listens there")
