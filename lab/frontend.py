"""The app as an addition to the command line, which does not import it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lab.actions.action import Verb

    RunLine = Callable[[list[str]], int]
    ReadVerb = Callable[[list[str]], Verb | None]


class AppFrontend(NamedTuple):
    """The app. Each ``str | None`` is the target; None selects this computer's default target."""

    load: Callable[[], Callable[[str | None], int]]
    """Imports the app; the function opens it and returns the exit status."""
    load_text: Callable[[], Callable[[str | None, RunLine, Collection[str], ReadVerb], int]]
    """Imports the app in plain lines; the function opens it and returns the exit status.

    The opening function also gets a function that runs a command line, the names of commands, and a function that turns
    typed words into a verb.
    """
    serve: Callable[[str | None, int, Callable[[str], None]], None]
    """Serves the app to a browser at this port; calls the function with the address."""
    key_card: Callable[[], Sequence[object]]
    """The sections of the key card, for a template."""
