"""Help texts from docstrings: paragraphs flow, examples stay as they were written."""

import inspect

import typer
from rich.markup import escape

VERBATIM = "\b"  # the mark that click and typer use for a paragraph with its own line breaks


def prepare_help(app: typer.Typer) -> None:
    """Give every command of ``app``, and of the groups in it, its help text from its docstring."""
    for command in app.registered_commands:
        command.help = flowing(command.help or inspect.getdoc(command.callback) or "")
    for group in app.registered_groups:
        if group.typer_instance is not None:
            prepare_help(group.typer_instance)


def flowing(text: str) -> str:
    """Join the lines of each paragraph, keep those of examples, and let brackets be brackets."""
    return "\n\n".join(_paragraph(escape(part)) for part in inspect.cleandoc(text).split("\n\n"))


def _paragraph(text: str) -> str:
    if text.startswith(VERBATIM):
        return "\n".join("  " + line for line in text.splitlines()[1:])
    return " ".join(text.split())
