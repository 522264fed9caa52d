"""How commands are added to a group of commands."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from cyclopts import App

from lab.cli.extension import Command
from lab.plugins import extensions


def added_commands(above: str = "") -> Iterator[Command]:
    """The commands that plugins add to ``raidlab``, or to one of its commands."""
    return (each for each in extensions(Command) if each.words.rpartition(" ")[0] == above)


def add_command(app: App, command: Command, words: Collection[str] | None = None) -> None:
    """Add a command; if ``words`` are given and it is not among them, only its name and help, without importing it."""
    name = command.words.rpartition(" ")[2]
    is_unused = words is not None and name not in words
    loaded = App(name=name, help_flags=(), version_flags=()) if is_unused else command.load()
    if isinstance(loaded, App):
        loaded.help = command.help
        app.command(loaded, name=name)
    else:
        app.command(loaded, name=name, help=command.help)
