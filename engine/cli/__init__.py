"""The command line: one file a group of commands, `main` the entry."""

from mainspring.engine.cli.app import main

__all__ = ["main"]
