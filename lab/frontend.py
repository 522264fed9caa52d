"""The functions with which the command line opens the app. The command line itself does not import the app."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lab.actions.action import Verb

    RunLine = Callable[[list[str]], int]
    ReadVerb = Callable[[list[str]], Verb | None]


class AppFrontend(NamedTuple):
    """The functions that open the app. Each ``str | None`` is the target; None selects this computer's default."""

    load: Callable[[], Callable[[str | None], int]]
    """Imports the app and returns a function that opens it and returns the exit status."""
    load_text: Callable[[], Callable[[str | None, RunLine, Collection[str], ReadVerb], int]]
    """Imports the app's text mode and returns a function that opens it and returns the exit status.

    That function also takes a function that runs a command line, the names of the commands, and a function that turns
    the arguments of a typed line into a verb.
    """
    serve: Callable[[str | None, int, Callable[[str], None]], None]
    """Serves the app to a browser on this port, and calls the function with the address."""
    key_card: Callable[[], Sequence[object]]
    """The sections of the key card, for a template."""
