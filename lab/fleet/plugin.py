"""The parts that the simulation of fleets adds to raidlab."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.checks.extension import LessonReading
from lab.cli.context import Command
from lab.plugins import Plugin
from lab.theory.extension import FleetLosses, LossFigures

if TYPE_CHECKING:
    from lab.checks.readings import Source
    from lab.cli.context import Loaded


def _fleet() -> Loaded:
    from lab.fleet.command import fleet

    return fleet


def _reading() -> type[Source]:
    from lab.fleet.run import FleetReading

    return FleetReading


def _what_if(**fleet: Any) -> LossFigures:
    from lab.fleet.run import what_if

    return what_if(**fleet)


PLUGIN = Plugin(
    (
        Command("fleet", _fleet, "Simulate how often a fleet of arrays loses data over the years, and how much."),
        LessonReading(_reading),
        FleetLosses(_what_if),
    ),
    folder=Path(__file__).parent,
)
