"""TLS for both servers, from the files that the settings name."""

import ssl
from pathlib import Path

from mainspring.engine.config import Settings, SettingsError


class TlsFileUnfit(SettingsError, OSError):
    """A file holds no certificate or key, or cannot be read; the message names it and its setting."""


def postgres_tls(settings: Settings) -> ssl.SSLContext | None:
    """A verifying context for Postgres; None where no file is set and the DSN alone decides (`sslmode`).

    Raises TlsFileUnfit.
    """
    if settings.postgres_tls_ca is None and settings.postgres_tls_cert is None:
        return None
    return _context(settings, "postgres")


def nats_tls(settings: Settings) -> ssl.SSLContext | None:
    """A verifying context for NATS where a file or an address (`tls://`, `wss://`) asks for TLS; else None,
    and the server decides. Raises TlsFileUnfit.
    """
    asked = any(url.strip().startswith(("tls://", "wss://")) for url in settings.nats_url.split(","))
    if settings.nats_tls_ca is None and settings.nats_tls_cert is None and not asked:
        return None
    return _context(settings, "nats")


def _context(settings: Settings, server: str) -> ssl.SSLContext:
    ca, cert, key = (getattr(settings, f"{server}_tls_{part}") for part in ("ca", "cert", "key"))
    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise _unfit(f"{server}_tls_ca", "certificate of an authority", ca, error) from error
    if cert is not None:
        try:
            context.load_cert_chain(cert, key)
        except OSError as error:
            both = f"{server}_tls_cert, {server}_tls_key"
            raise _unfit(both, "certificate with its key", f"{cert}, {key}", error) from error
    return context


def _unfit(setting: str, wanted: str, path: Path | str, error: OSError) -> TlsFileUnfit:
    reason = error.strerror or str(error)
    return TlsFileUnfit(f"{setting}: {path} cannot be read as a {wanted} in PEM form ({reason})")
