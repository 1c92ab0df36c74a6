"""Every flag of every command that takes a number refuses what is none, before the command does anything."""

from collections.abc import Iterator
from typing import Any

import pytest
from command_line import mainspring
from typer.main import get_command

from mainspring.engine.cli.app import app

SPANS = [("loadtest", "failover", "--gap-s"), ("loadtest", "broker", "--span-s")]


def float_flags(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of the command, and the flag."""
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from float_flags(command.get_command(None, name), (*path, name))
        return
    for flag in command.params:
        if flag.type_descriptor.annotation in (float, float | None):
            yield (*path, flag.opts[0])


FLAGS = list(float_flags(get_command(app)))


def test_there_are_such_flags() -> None:
    assert {("verify", "--slack-s"), ("db", "prune", "--keep-s"), ("loadtest", "failover", "--rate")} < set(
        FLAGS
    )


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("flag", FLAGS, ids=" ".join)
def test_what_is_not_finite_is_wrong_usage(flag: tuple[str, ...], value: str) -> None:
    ended = mainspring(*flag, value)
    assert ended.status == 2
    assert f"Invalid value for '{flag[-1]}'" in ended.err or f"Invalid value for {flag[-1]}" in ended.err


@pytest.mark.parametrize("value", ["-5 3", "nan nan", "3 nan", "nan 3", "0 inf", "-inf 3", "3 2"])
@pytest.mark.parametrize("flag", SPANS, ids=" ".join)
def test_what_is_no_span_is_wrong_usage(flag: tuple[str, ...], value: str) -> None:
    ended = mainspring(*flag, *value.split())
    assert ended.status == 2
    assert flag[-1] in ended.err
    assert "give MIN and MAX in seconds" in " ".join(ended.err.replace("│", " ").split())
