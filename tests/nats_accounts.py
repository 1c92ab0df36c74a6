"""NKeys, and a server's configuration with the JWTs of an operator, an account and a user, all made up."""

import base64
import hashlib
import json
import secrets
from typing import Any

import nkeys


class Key:
    """An NKey: `nkeys.PREFIX_BYTE_USER`, `_ACCOUNT`, `_OPERATOR`."""

    def __init__(self, prefix: int) -> None:
        self.seed: bytes = nkeys.encode_seed(secrets.token_bytes(32), prefix)
        self._pair = nkeys.from_seed(bytearray(self.seed))
        self.public: str = self._pair.public_key.decode()

    def token(self, subject: str, name: str, kind: str, claims: dict[str, Any]) -> str:
        """A JWT about `subject`, signed with this key. Format: nats-io/jwt, version 2."""
        body = {"iat": 1_600_000_000, "iss": self.public, "name": name, "sub": subject}
        body["nats"] = claims | {"type": kind, "version": 2}
        digest = hashlib.new("sha512_256", json.dumps(body).encode()).digest()
        body["jti"] = base64.b32encode(digest).decode().rstrip("=")
        parts = [{"typ": "JWT", "alg": "ed25519-nkey"}, body]
        signed = b".".join(_url_safe(json.dumps(part).encode()) for part in parts)
        return (signed + b"." + _url_safe(self._pair.sign(signed))).decode()


def accounts_with_jwt() -> tuple[str, str]:
    """The server's configuration, and the credentials file of a user with JetStream."""
    operator, account = Key(nkeys.PREFIX_BYTE_OPERATOR), Key(nkeys.PREFIX_BYTE_ACCOUNT)
    system, user = Key(nkeys.PREFIX_BYTE_ACCOUNT), Key(nkeys.PREFIX_BYTE_USER)
    no_limit = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
    stores = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    limits = {"limits": no_limit | {"wildcards": True} | stores}
    own = operator.token(operator.public, "op", "operator", {"system_account": system.public})
    jwts = {
        system.public: operator.token(system.public, "sys", "account", {"limits": no_limit}),
        account.public: operator.token(account.public, "acc", "account", limits),
    }
    preload = "\n".join(f"  {public}: {jwt}" for public, jwt in jwts.items())
    config = f"operator: {own}\nresolver: MEMORY\nresolver_preload {{\n{preload}\n}}\n"
    config += f"system_account: {system.public}\n"
    return config, _credentials(
        account.token(user.public, "user", "user", {"subs": -1, "data": -1, "payload": -1}), user
    )


def _credentials(jwt: str, user: Key) -> str:
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n"
    )


def _url_safe(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
