"""Settings: flags over ``MAINSPRING_*`` variables over ``mainspring.toml`` over defaults.

A key has one name everywhere: ``max_in_flight`` in the file is ``MAINSPRING_MAX_IN_FLIGHT`` in the
environment and ``--max-in-flight`` on the command line.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, FilePath, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from mainspring.changelog_tailer.address import servers_of

PREFIX = "MAINSPRING_"
DEFAULT_FILE = Path("mainspring.toml")
# Variables that belong to the command line and not to the settings.
COMMAND_VARIABLES = frozenset({"MAINSPRING_EMBEDDED", "MAINSPRING_CONFIG"})
SECRET_KEYS = frozenset({"postgres_dsn", "nats_url"})
_SHOWN_MAX = 60

Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class SettingsError(ValueError):
    """A setting is unknown or bad; the message is one line that names key, source, value and mend."""


class Settings(BaseSettings):
    """Everything that can be set. Durations are seconds; addresses may carry passwords."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, hide_input_in_errors=True
    )

    postgres_dsn: str = Field(
        "postgresql://127.0.0.1/mainspring",
        repr=False,
        description="Postgres address: postgresql://user:password@host:port/database.",
    )
    postgres_tls_ca: FilePath | None = Field(None, description="CA certificates to verify Postgres with.")
    postgres_tls_cert: FilePath | None = Field(None, description="Client certificate for Postgres.")
    postgres_tls_key: FilePath | None = Field(None, description="Key of the client certificate for Postgres.")
    nats_url: str = Field(
        "nats://127.0.0.1:4222",
        repr=False,
        description="NATS address, or several separated by commas: nats://user:password@host:port.",
    )
    nats_creds: FilePath | None = Field(
        None, description="NATS credentials file: a JWT and its NKey seed, or a seed alone."
    )
    nats_tls_ca: FilePath | None = Field(None, description="CA certificates to verify NATS with.")
    nats_tls_cert: FilePath | None = Field(None, description="Client certificate for NATS.")
    nats_tls_key: FilePath | None = Field(None, description="Key of the client certificate for NATS.")
    instance: str = Field(
        "mainspring",
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="Names the stream, the subjects, the KV bucket and the event source.",
    )
    catch_up_window_s: int = Field(
        90, ge=0, le=86_400, description="How far back missed runs of catch-up policy `all` are still owed."
    )
    max_in_flight: int = Field(
        16_384, ge=1, le=100_000, description="Runs sent and not yet acknowledged, at most."
    )
    tail_poll_s: Seconds = Field(1.0, description="Pause between looks at the change log.")
    retry_cap_s: Seconds = Field(30.0, description="Longest pause between attempts to reconnect.")
    watchdog_period_s: Seconds = Field(2.0, description="Pause between sweeps of one shard.")
    http_host: str = Field("127.0.0.1", min_length=1, description="Where status and metrics are served.")
    http_port: int = Field(8088, ge=0, le=65_535, description="Their port; 0 takes any free one.")
    drain_timeout_s: Seconds = Field(10.0, description="How long a stop waits for acknowledgements.")
    log_format: Literal["text", "json"] = Field("text", description="Form of the log lines on stderr.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take what `load` has layered and nothing else: it knows where each value came from."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    @field_validator("*", mode="before")
    @classmethod
    def _no_booleans(cls, value: object) -> object:
        if isinstance(value, bool):  # would count as 0 or 1
            raise ValueError("true and false are no values of this key")
        return value

    @field_validator("postgres_dsn")
    @classmethod
    def _postgres_scheme(cls, value: str) -> str:
        if not value.startswith(("postgresql://", "postgres://")):
            raise ValueError("must start with postgresql://")
        servers_of(value)
        return value

    @field_validator("nats_url")
    @classmethod
    def _nats_scheme(cls, value: str) -> str:
        if not all(re.match(r"(nats|tls|ws|wss)://[^/]", server.strip()) for server in value.split(",")):
            raise ValueError("each server must start with nats:// or tls://")
        for server in value.split(","):
            _require_host_and_port(server.strip())
        return value

    @model_validator(mode="after")
    def _certificates_have_keys(self) -> Self:
        for name in ("postgres", "nats"):
            certificate, key = getattr(self, f"{name}_tls_cert"), getattr(self, f"{name}_tls_key")
            if (certificate is None) != (key is None):
                raise ValueError(f"{name}_tls_cert and {name}_tls_key go together: set both or neither")
        return self


@dataclass(frozen=True)
class LoadedSettings:
    """Settings with the place each key was set at; keys left at their default are missing in `origins`."""

    settings: Settings
    origins: Mapping[str, str]


def load_settings(flags: Mapping[str, Any], *, file: Path | None = None) -> Settings:
    """The settings that hold: see `load`."""
    return load(flags, file=file).settings


def load(flags: Mapping[str, Any], *, file: Path | None = None) -> LoadedSettings:
    """Layer flags over the environment over the file over the defaults.

    ``flags`` maps keys to values, None meaning "not given". ``file`` must exist where it is given; without it
    ``mainspring.toml`` of the working directory is read if there is one. Raises SettingsError.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, layer in _layers(flags, file):
        for key, value in layer.items():
            _require_known(key, origin)
            values[key], origins[key] = value, origin
    return LoadedSettings(_validated(values, origins), origins)


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Names that look like ours and mean nothing to us, sorted."""
    known = COMMAND_VARIABLES | {PREFIX + key.upper() for key in Settings.model_fields}
    return sorted(name for name in environment if name.startswith(PREFIX) and name not in known)


def masked(settings: Settings, *, reveal: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The settings as plain values; passwords in addresses become ``***`` except under ``reveal``."""
    plain = settings.model_dump(mode="json")
    return {
        key: mask_address(value) if key in SECRET_KEYS - reveal else value for key, value in plain.items()
    }


def mask_address(address: str) -> str:
    """Replace passwords and tokens in one address or a comma-separated list of them.

    A user name without a password is a secret to NATS (it is a token) and none to Postgres. What cannot be
    parsed is masked up to its last ``@``: too much rather than too little.
    """
    with_query = re.sub(r"(?i)\b(password|sslpassword|passfile)=[^&\s]*", r"\1=***", address)
    token = re.sub(r"((?:nats|tls|ws|wss)://)[^:@/,]+@", r"\1***@", with_query)
    return re.sub(r"(://[^:@/,]*):(?!//).*?@(?=[^@,]*(?:,|$))", r"\1:***@", token)


def _require_host_and_port(url: str) -> None:
    """Raises ValueError for an address that the driver could make nothing of, repeating no part of it."""
    try:
        parts = urlsplit(url)
        good = bool(parts.hostname) and parts.port != 0
    except ValueError:  # of `port`, or of a bracket that is left open
        good = False
    if not good:
        raise ValueError(
            "each server is scheme://host:port, the port from 1 to 65535, an IPv6 host in brackets; "
            "in a user name or password write / as %2F, @ as %40, : as %3A"
        )


def _layers(flags: Mapping[str, Any], file: Path | None) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """The layers from the weakest to the strongest, each with a name for messages."""
    path = file or DEFAULT_FILE
    yield str(path), _read_file(path, required=file is not None)
    for key, value in EnvSettingsSource(Settings)().items():
        yield PREFIX + key.upper(), {key: value}
    for key, value in flags.items():
        if value is not None:
            yield "--" + key.replace("_", "-"), {key: value}


def _read_file(path: Path, *, required: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if required:
            raise SettingsError(f"{path}: no such file; give an existing one or leave --config out") from None
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from None


def _require_known(key: str, origin: str) -> None:
    if key in Settings.model_fields:
        return
    near = get_close_matches(key, Settings.model_fields, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "`mainspring config` lists the keys"
    raise SettingsError(f"{origin}: unknown key {key!r}; {hint}")


def _validated(values: dict[str, Any], origins: Mapping[str, str]) -> Settings:
    try:
        return Settings(**values)
    except ValidationError as error:
        lines = [_explain(detail, values, origins) for detail in error.errors(include_url=False)]
        raise SettingsError("; ".join(lines)) from None


def _explain(detail: ErrorDetails, values: Mapping[str, Any], origins: Mapping[str, str]) -> str:
    """One bad value in one clause: where, what, why."""
    reason = detail["msg"].removeprefix("Value error, ")
    if not detail["loc"]:
        return reason
    key = str(detail["loc"][0])
    shown = repr(values.get(key))
    if key in SECRET_KEYS:
        shown = repr(mask_address(str(values.get(key))))
    if len(shown) > _SHOWN_MAX:
        shown = shown[: _SHOWN_MAX - 3] + "..."
    return f"{origins.get(key, 'default')}: {key} = {shown}: {reason[:1].lower()}{reason[1:]}"
