"""How the settings log in to NATS, as options of nats-py: passwords, tokens, keys and certificates."""

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import nkeys

from mainspring.engine.config import Settings, SettingsError
from mainspring.engine.tls import nats_tls

_JWT, _SEED = b"BEGIN NATS USER JWT", b"BEGIN USER NKEY SEED"


def nats_login(settings: Settings) -> dict[str, Any]:
    """For a `BrokerClient`, which takes the option `tls` as a demand.

    Raises SettingsError for credentials that cannot be any, and OSError for files that cannot be read.
    """
    urls = [url.strip() for url in settings.nats_url.split(",")]
    options: dict[str, Any] = {"servers": urls} | _from_urls(urls)
    if settings.nats_creds:
        options |= _from_file(settings.nats_creds)
    if tls := nats_tls(settings):
        options["tls"] = tls
    return options


def _from_urls(urls: list[str]) -> dict[str, str]:
    """One login for all servers: those that a cluster makes known have none in their addresses.

    nats-py would send what stands in an address as it stands there, with its percent signs.
    """
    parts = map(urlsplit, urls)
    logins = {(part.username, part.password) for part in parts if part.username is not None}
    if len(logins) > 1:
        raise SettingsError("nats_url: all servers take the same user and password, or the same token")
    if not logins:
        return {}
    user, password = logins.pop()
    if password is None:
        return {"token": unquote(user or "")}
    return {"user": unquote(user or ""), "password": unquote(password)}


def _from_file(path: Path) -> dict[str, str]:
    """A JWT and its seed, or a seed alone. nats-py reads it again for each connection."""
    text = path.read_bytes()
    if _JWT in text and _SEED in text:
        return {"user_credentials": str(path)}
    try:
        nkeys.from_seed(bytearray(text.strip())).wipe()
    except Exception as error:
        raise SettingsError(
            f"nats_creds: {path} holds neither a JWT with its seed, as `nsc generate creds` writes it, nor "
            "the seed of an NKey"
        ) from error
    return {"nkeys_seed": str(path)}
