"""Postgres and NATS of our own: no system package, no root, no fixed port.

`EmbeddedPostgres` and `EmbeddedNats` are one server each, started and ended by this process;
`EmbeddedServers` is the pair of a folder, shared by all commands that name the folder.
"""

from mainspring.engine.embedded.errors import EmbeddedError
from mainspring.engine.embedded.nats import EmbeddedNats
from mainspring.engine.embedded.postgres import EmbeddedPostgres
from mainspring.engine.embedded.servers import EmbeddedServers

__all__ = ["EmbeddedError", "EmbeddedNats", "EmbeddedPostgres", "EmbeddedServers"]
