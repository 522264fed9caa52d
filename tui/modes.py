"""The screens of the app's modes. A screen is imported when its mode is opened for the first time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.screens.mode import ModeScreen


def _lab() -> ModeScreen:
    from tui.screens.lab import LabScreen

    return LabScreen()


def _build() -> ModeScreen:
    from tui.screens.build import BuildScreen

    return BuildScreen()


def _run() -> ModeScreen:
    from tui.screens.run import RunScreen

    return RunScreen()


def _results() -> ModeScreen:
    from tui.results.screen import ResultsScreen

    return ResultsScreen()


def _commands() -> ModeScreen:
    from tui.screens.commands import CommandsScreen

    return CommandsScreen()


def _lessons() -> ModeScreen:
    from tui.lessons.screen import LessonsScreen

    return LessonsScreen()


def _faults() -> ModeScreen:
    from tui.faults.screen import FaultsScreen

    return FaultsScreen()


def _stripe() -> ModeScreen:
    from tui.stripe.screen import StripeScreen

    return StripeScreen()


def _drills() -> ModeScreen:
    from tui.drills.screen import DrillsScreen

    return DrillsScreen()


def _fleet() -> ModeScreen:
    from tui.fleet.screen import FleetScreen

    return FleetScreen()


MAKERS: dict[str, Callable[[], ModeScreen]] = {
    "lab": _lab,
    "build": _build,
    "run": _run,
    "results": _results,
    "commands": _commands,
    "lessons": _lessons,
    "faults": _faults,
    "stripe": _stripe,
    "drills": _drills,
    "fleet": _fleet,
}
"""Mode -> function that creates its screen, for each of ``tui.registry.SCREENS``."""
