"""The app's screens, in the order of their keys. A screen is imported when it is opened for the first time."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.screens.mode import ModeScreen


@dataclass(frozen=True, slots=True)
class ScreenEntry:
    """One mode of the app."""

    key: str
    mode: str
    title: str
    place: str
    """Where its class is: ``module:Class``."""
    short_title: str = ""
    """Where 80 columns are all there is; empty: the title."""

    @property
    def narrow_title(self) -> str:
        """The title for a narrow terminal: all of them fit into 80 columns, beside the machine."""
        return self.short_title or self.title

    def make(self) -> ModeScreen:
        """A new screen."""
        module, _, name = self.place.partition(":")
        screen: ModeScreen = getattr(import_module(module), name)()
        return screen


SCREENS = (
    ScreenEntry("1", "lab", "Lab", "tui.screens.lab:LabScreen"),
    ScreenEntry("2", "build", "Build", "tui.screens.build:BuildScreen"),
    ScreenEntry("3", "run", "Run", "tui.screens.run:RunScreen"),
    ScreenEntry("4", "results", "Results", "tui.screens.results:ResultsScreen", "Data"),
    ScreenEntry("5", "commands", "Commands", "tui.screens.commands:CommandsScreen", "Shell"),
    ScreenEntry("6", "lessons", "Lessons", "tui.screens.lessons:LessonsScreen", "Learn"),
    ScreenEntry("7", "faults", "Faults", "tui.screens.faults:FaultsScreen", "Fault"),
    ScreenEntry("8", "stripe", "Stripe", "tui.screens.stripe:StripeScreen"),
    ScreenEntry("9", "drills", "Drills", "tui.screens.drills:DrillsScreen", "Drill"),
    ScreenEntry("0", "fleet", "Fleet", "tui.screens.fleet:FleetScreen"),
)
