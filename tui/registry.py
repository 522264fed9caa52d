"""The app's modes, in the order of their keys; ``tui.app`` creates their screens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScreenEntry:
    """A mode of the app: its key, id and title."""

    key: str
    mode: str
    title: str
    short_title: str = ""
    """The title for terminals of 80 columns; empty: ``title``."""

    @property
    def narrow_title(self) -> str:
        """The title for a narrow terminal: all titles and the machine fit into 80 columns."""
        return self.short_title or self.title


SCREENS = (
    ScreenEntry("1", "lab", "Lab"),
    ScreenEntry("2", "build", "Build"),
    ScreenEntry("3", "run", "Run"),
    ScreenEntry("4", "results", "Results", "Data"),
    ScreenEntry("5", "commands", "Commands", "Shell"),
    ScreenEntry("6", "lessons", "Lessons", "Learn"),
    ScreenEntry("7", "faults", "Faults", "Fault"),
    ScreenEntry("8", "stripe", "Stripe"),
    ScreenEntry("9", "drills", "Drills", "Drill"),
    ScreenEntry("0", "fleet", "Fleet"),
)
