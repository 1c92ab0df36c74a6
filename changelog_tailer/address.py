"""What a Postgres address names, read the way the driver reads it."""

import os
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

_DEFAULT_PORT = "5432"
_PORT_MAX = 65_535
_ESCAPES = "in a user name or password write / as %2F, @ as %40, : as %3A"


def servers_of(dsn: str) -> list[str]:
    """``host:port`` of each server that the DSN names, without user and password.

    Raises ValueError with reason and mend where the driver could make nothing of the DSN. The reason
    repeats no part of it: what looks like a port may be a password with a bare ``/``.
    """
    parts = _split(dsn)
    query = _query_of(parts.query)
    ports = query.get("port", [""])[-1]
    if ports:
        _require_ports(ports)
    if "@" in parts.netloc.partition("@")[2]:
        raise ValueError(f"more than one @ before the host; {_ESCAPES}")
    named = unquote(parts.netloc.rpartition("@")[2]) or query.get("host", [""])[-1]
    hosts = named or os.environ.get("PGHOST") or "localhost"
    default = ports.split(",")[0] or os.environ.get("PGPORT") or _DEFAULT_PORT
    return [_server(host, default) for host in hosts.split(",")]


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


def _server(host: str, default_port: str) -> str:
    if not host:
        raise ValueError("a host is empty; write host:port, several joined by commas")
    if host.startswith("/"):  # the folder of a Unix socket
        return host
    name, _, rest = host.partition("]") if host.startswith("[") else host.partition(":")
    if host.startswith("["):
        name, rest = name + "]", rest.removeprefix(":")
    if rest:
        _require_ports(rest)
    return f"{name}:{rest or default_port}"


def _require_ports(ports: str) -> None:
    for port in ports.split(","):
        if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= _PORT_MAX):
            raise ValueError(f"a port is a number from 1 to {_PORT_MAX}; {_ESCAPES}")
