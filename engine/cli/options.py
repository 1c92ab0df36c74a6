"""Options that many commands share, and the settings that come of them."""

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic.fields import FieldInfo

from mainspring.engine.cli.embedded_folder import embedded_folder, servers_of
from mainspring.engine.config import LoadedSettings, Settings, load, unknown_variables
from mainspring.engine.embedded import EmbeddedServers

POSTGRES = ("postgres_dsn", "postgres_tls_ca", "postgres_tls_cert", "postgres_tls_key")
NATS = ("nats_url", "nats_creds", "nats_tls_ca", "nats_tls_cert", "nats_tls_key", "instance")
EVERY_SETTING = tuple(Settings.model_fields)
PANEL = "Settings: each is also a variable (MAINSPRING_HTTP_PORT) and a key of mainspring.toml (http_port)"

Command = TypeVar("Command", bound=Callable[..., Any])

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, for programs.")]


@dataclass(frozen=True)
class Target:
    """Which servers a command talks to and how: what its flags say, not yet looked up."""

    flags: Mapping[str, Any]
    config: Path | None
    embedded: Path | None

    def load(self, servers: EmbeddedServers | None = None) -> LoadedSettings:
        """The settings; the addresses of ``servers`` stand above environment and file, below flags.

        Raises SettingsError.
        """
        own = {} if servers is None else {"postgres_dsn": servers.postgres_dsn, "nats_url": servers.nats_url}
        return load(own | {key: value for key, value in self.flags.items() if value}, file=self.config)

    @property
    def owns_postgres(self) -> bool:
        """Whether the database is that of the embedded folder, and with it ours to set up."""
        return self.embedded is not None and not self.flags.get("postgres_dsn")

    @asynccontextmanager
    async def settings(self) -> AsyncIterator[Settings]:
        """The settings, with the embedded servers running for as long as the block lasts.

        Raises SettingsError before anything is started, and EmbeddedError.
        """
        settings = self.load().settings
        if self.embedded is None:
            yield settings
            return
        async with servers_of(self.embedded) as servers:
            yield self.load(servers).settings


def takes_settings(*keys: str) -> Callable[[Command], Command]:
    """Give a command ``--embedded``, ``--config`` and one flag for each of ``keys``.

    The command takes them as one first argument, a `Target`::

        @app.command()
        @takes_settings(*POSTGRES)
        def show(target: Target, job: str, as_json: JsonOption = False) -> None:
            run_async(_show(target, job, as_json))
    """

    def decorate(command: Command) -> Command:
        def with_target(*args: Any, embedded: str | None, config: Path | None, **named: Any) -> Any:
            flags = {key: named.pop(key) for key in keys}
            _warn_of_unknown_variables()
            return command(Target(flags, config, embedded_folder(embedded)), *args, **named)

        _describe(with_target, command, keys)
        return with_target  # type: ignore[return-value]

    return decorate


def run_async(command: Coroutine[Any, Any, Any]) -> Any:
    """Run a command's coroutine; the place where the command line meets asyncio."""
    return asyncio.run(command)


def _describe(wrapper: Callable[..., Any], command: Callable[..., Any], keys: tuple[str, ...]) -> None:
    """Show typer the command's own parameters and the added ones as one signature."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    added = [_embedded_parameter(), _config_parameter()]
    added += [_setting_parameter(key, Settings.model_fields[key]) for key in keys]
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own + added]
    wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]


def _parameter(name: str, kind: Any, option: Any) -> inspect.Parameter:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=None, annotation=Annotated[kind | None, option])


def _embedded_parameter() -> inspect.Parameter:
    text = "Use the embedded servers of this folder; start them for the command where they do not run."
    option = typer.Option(
        "--embedded", metavar="DIR", envvar="MAINSPRING_EMBEDDED", help=text, rich_help_panel=PANEL
    )
    return _parameter("embedded", str, option)  # a Path would read an empty text as the current folder


def _config_parameter() -> inspect.Parameter:
    text = "Settings file; ./mainspring.toml where there is one."
    option = typer.Option(
        "--config", metavar="FILE", envvar="MAINSPRING_CONFIG", help=text, rich_help_panel=PANEL
    )
    return _parameter("config", Path, option)


def _setting_parameter(key: str, field: FieldInfo) -> inspect.Parameter:
    """A flag that takes plain text: `Settings` judges it, so a bad value reads the same from everywhere."""
    default = "" if field.default is None else f" Default: {field.default}."
    text = f"{field.description}{default}"
    name, metavar = "--" + key.replace("_", "-"), key.rpartition("_")[2].upper()
    return _parameter(key, str, typer.Option(name, metavar=metavar, help=text, rich_help_panel=PANEL))


def _warn_of_unknown_variables() -> None:
    for name in unknown_variables(os.environ):
        typer.echo(f"warning: the variable {name} means nothing to mainspring", err=True)
