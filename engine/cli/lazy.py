"""Commands whose modules are imported when they are asked for: most need a driver that the others do not."""

from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_command


class LazyGroup(TyperGroup):
    """A group of commands by module: `commands_at` maps a name to `module:attribute`.

    The attribute is a `typer.Typer` group or the function of one command.
    """

    commands_at: ClassVar[dict[str, str]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, in the order in which help shows them."""
        del ctx
        return list(self.commands_at)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, imported now; None where there is no such."""
        del ctx
        if cmd_name not in self.commands_at:
            return None
        module, _, attribute = self.commands_at[cmd_name].partition(":")
        found = getattr(import_module(module), attribute)
        command = get_command(found if isinstance(found, typer.Typer) else _alone(found))
        command.name = cmd_name
        return command


def _alone(function: Any) -> typer.Typer:
    app = typer.Typer(rich_markup_mode="rich", add_completion=False)
    app.command()(function)
    return app
