"""TLS for both servers, from the files that the settings name."""

import ssl
from pathlib import Path

from mainspring.engine.config import Settings


def postgres_tls(settings: Settings) -> ssl.SSLContext | None:
    """A verifying context for Postgres; None where no file is set and the DSN alone decides (`sslmode`).

    Raises OSError (ssl.SSLError) for files that hold no certificate or key.
    """
    return _context(settings.postgres_tls_ca, settings.postgres_tls_cert, settings.postgres_tls_key)


def nats_tls(settings: Settings) -> ssl.SSLContext | None:
    """A verifying context for NATS; None where no file is set and the URL alone decides (`tls://`).

    Raises OSError (ssl.SSLError) for files that hold no certificate or key.
    """
    return _context(settings.nats_tls_ca, settings.nats_tls_cert, settings.nats_tls_key)


def _context(ca: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if ca is None and cert is None:
        return None
    context = ssl.create_default_context(cafile=ca)
    if cert is not None:
        context.load_cert_chain(cert, key)
    return context
