"""What a Postgres address names, read the way the driver reads it."""

import os
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

_DEFAULT_PORT = "5432"
_PORT_MAX = 65_535
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_ESCAPES = "in a user name or password write / as %2F, @ as %40, : as %3A"


class Server(NamedTuple):
    """One host of a DSN; a Unix socket has its folder for host and no port here.

    implied: no host is named, so the driver looks for a Unix socket before it dials localhost.
    """

    host: str
    port: int | None
    implied: bool = False

    def __str__(self) -> str:
        if self.port is None:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def servers_of(dsn: str) -> list[Server]:
    """Each server that the DSN names, in the order in which they are tried.

    Raises ValueError with reason and mend where the driver could make nothing of the DSN, or of the variables
    that it reads beside it. The reason repeats no part of the DSN: what looks like a port may be a password
    with a bare ``/``.
    """
    parts = _split(dsn)
    query = _query_of(parts.query)
    _require_ssl_mode("sslmode in postgres_dsn", query.get("sslmode", [""])[-1])
    _require_ssl_mode("the variable PGSSLMODE", os.environ.get("PGSSLMODE", ""))
    ports = query.get("port", [""])[-1]
    if ports:
        _require_ports(ports)
    if "@" in parts.netloc.partition("@")[2]:
        raise ValueError(f"more than one @ before the host; {_ESCAPES}")
    named = unquote(parts.netloc.rpartition("@")[2]) or query.get("host", [""])[-1]
    named = named or os.environ.get("PGHOST", "")
    if not named:
        return [Server("localhost", int(_default_ports(ports, 1)[0]), implied=True)]
    hosts = named.split(",")
    return [
        _server(host, default) for host, default in zip(hosts, _default_ports(ports, len(hosts)), strict=True)
    ]


def _default_ports(ports: str, hosts: int) -> list[str]:
    """One for each host: a list names them one by one, a single port is everybody's."""
    if not ports and (ports := os.environ.get("PGPORT", "")):
        try:
            _require_ports(ports)
        except ValueError:
            raise ValueError(f"the variable PGPORT is no port: a number from 1 to {_PORT_MAX}") from None
    given = (ports or _DEFAULT_PORT).split(",")
    if len(given) not in (1, hosts):
        raise ValueError(
            f"there are {hosts} hosts and {len(given)} ports; give one port, or one for each host"
        )
    return given * hosts if len(given) == 1 else given


def _require_ssl_mode(where: str, mode: str) -> None:
    if mode and mode not in _SSL_MODES:
        raise ValueError(f"{where} is none of {', '.join(_SSL_MODES)}")


def _split(dsn: str) -> SplitResult:
    try:
        return urlsplit(dsn)
    except ValueError:
        raise ValueError(f"this is no address; write an IPv6 host as [::1]; {_ESCAPES}") from None


def _query_of(text: str) -> dict[str, list[str]]:
    try:
        return parse_qs(text, strict_parsing=True) if text else {}
    except ValueError:
        raise ValueError("after the ? stand name=value pairs joined by &, such as sslmode=require") from None


def _server(host: str, default_port: str) -> Server:
    if not host:
        raise ValueError("a host is empty; write host:port, several joined by commas")
    if host.startswith("/"):  # the folder of a Unix socket
        return Server(host, None)
    name, _, rest = host[1:].partition("]") if host.startswith("[") else host.partition(":")
    rest = rest.removeprefix(":")
    if rest:
        _require_ports(rest)
    return Server(name, int(rest or default_port))


def _require_ports(ports: str) -> None:
    for port in ports.split(","):
        if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= _PORT_MAX):
            raise ValueError(f"a port is a number from 1 to {_PORT_MAX}; {_ESCAPES}")
