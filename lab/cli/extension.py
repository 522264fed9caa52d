"""What plugins can add to the command line."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lab.plugins import extensions

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Any

    from cyclopts import App

    from lab.machine import Host

    Loaded = App | Callable[..., Any]


class Command(NamedTuple):
    """A command or a group of commands, imported when it is used."""

    words: str
    """After ``raidlab``: ``array capacity`` is one of the commands of ``raidlab array``."""
    load: Callable[[], Loaded]
    help: str

    def add_to(self, app: App, words: Collection[str] | None = None) -> None:
        """Add it to a group; if ``words`` are given and it is not among them, only its name and help are there."""
        from cyclopts import App

        name = self.words.rpartition(" ")[2]
        is_unused = words is not None and name not in words
        loaded = App(name=name, help_flags=(), version_flags=()) if is_unused else self.load()
        if isinstance(loaded, App):
            loaded.help = self.help
            app.command(loaded, name=name)
        else:
            app.command(loaded, name=name, help=self.help)


def added_commands(above: str = "") -> Iterator[Command]:
    """The commands that plugins add to ``raidlab``, or to one of its commands."""
    return (each for each in extensions(Command) if each.words.rpartition(" ")[0] == above)


class Exporter(NamedTuple):
    """A way to export results."""

    option: str
    """The option of ``raidlab export`` that selects it; empty: without an option."""
    write: Callable[[Sequence[str], Path, bool], None]
    """Gets the names, the file or folder to write, and whether to include practice."""


class CollectionReport(NamedTuple):
    """A report about something that is not a single result."""

    write: Callable[[Sequence[str], str, Path | None, str, Host, bool], str | None]
    """Gets names, format, output file, title, host, and whether these names are all that was requested.

    Returns the text to print, or None if the names mean nothing to it.
    """


class ClusterCalls(ABC):
    """Calls functions on any free worker of a cluster. Threads may share it."""

    workers: int
    """How many calls run at once."""

    @abstractmethod
    def __call__(self, function: Callable[[bytes], bytes], payload: bytes) -> bytes:
        """The result of a module's function, which every worker can import. Raises LabError as it does."""


class Cluster(NamedTuple):
    """Access to clusters."""

    calls_on: Callable[[str, Host, Callable[[str], None]], AbstractContextManager[ClusterCalls]]
    """Gets the cluster as ``--cluster`` names it, and a function that reports problems."""
