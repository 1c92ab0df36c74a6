"""``mainspring config``: what the settings are, and why."""

import json
from collections.abc import Mapping
from typing import Any

import typer

from mainspring.engine.cli.embedded_folder import servers_of
from mainspring.engine.cli.options import EVERY_SETTING, JsonOption, Target, run_async, takes_settings
from mainspring.engine.config import SECRET_KEYS, masked


@takes_settings(*EVERY_SETTING)
def config_command(target: Target, as_json: JsonOption = False) -> None:
    """Print the settings that hold here, each with the place that set it.

    Passwords are masked. With --embedded DIR the addresses of those servers are shown in full, to be
    given to psql or to the nats command.

    The text form is a valid settings file.

    \b
    mainspring config
    mainspring config --embedded .mainspring
    psql "$(mainspring config --embedded .mainspring --json | jq -r .postgres_dsn)"
    """
    values, origins = run_async(_settings(target))
    if as_json:
        typer.echo(json.dumps(values, indent=2))
        return
    for key, value in values.items():
        typer.echo(_line(key, value, origins.get(key, "default")))


async def _settings(target: Target) -> tuple[dict[str, Any], Mapping[str, str]]:
    """The values to show, and where each was set."""
    if target.embedded is None:
        loaded = target.load()
        return masked(loaded.settings), loaded.origins
    async with servers_of(target.embedded) as servers:
        loaded = target.load(servers)
        own = frozenset(key for key in SECRET_KEYS if not target.flags.get(key))
        origins = {**loaded.origins, **dict.fromkeys(own, "--embedded")}
        return masked(loaded.settings, reveal=own), origins


def _line(key: str, value: object, origin: str) -> str:
    """One line of TOML; what is not set is a comment, because TOML has no null."""
    if value is None:
        return f"# {key} is not set"
    return f"{key} = {json.dumps(value)}  # {origin}"
