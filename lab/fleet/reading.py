"""A reading of lessons: a figure of ``raidlab fleet`` for a built-in fleet, with or without changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any

import msgspec

from lab.checks.readings import LikelyMistake, Source
from lab.checks.state import CheckedState
from lab.errors import SpecError
from lab.fleet.model import HOURS_PER_YEAR
from lab.fleet.run import local_spreader, run_spec
from lab.fleet.schema import FleetSpec, fleet_spec, fleet_tree, variants
from lab.theory.extension import LossFigures
from lab.tomlfile import unknown_word


class FleetFigure(StrEnum):
    """A figure that ``raidlab fleet`` prints."""

    FLEET_LOSS = "fleet-loss"
    """Probability that any array loses data within the years."""
    ARRAY_YEAR_LOSS = "array-year-loss"
    NINES = "nines"
    MTTDL = "mttdl"
    TO_MTTDL = "to-mttdl"
    """Losses, divided by those expected from the MTTDL."""
    FAILURES = "failures"
    """Share of the losses that are caused by more failures than parities."""
    SECTORS = "sectors"
    PEOPLE = "people"


class FleetReading(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="fleet.figure"):
    """A figure of ``raidlab fleet``, for one of the fleet's variants or for the fleet with the changes in ``set``."""

    fleet: str
    figure: FleetFigure
    variant: str = ""
    set: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        _spec(self.fleet, self.variant, self.set)

    def mistakes(self, lab: CheckedState) -> Iterator[LikelyMistake]:
        for figure in FleetFigure:
            other = msgspec.structs.replace(self, figure=figure).value(lab)
            if figure is not self.figure and other is not None:
                yield LikelyMistake(other, "reading-other-column", {})

    def value(self, lab: CheckedState) -> float | None:
        found = _figures(self.fleet, self.variant, msgspec.json.encode(self.set))
        match self.figure:
            case FleetFigure.FLEET_LOSS:
                return found.fleet_loss_chance.value
            case FleetFigure.ARRAY_YEAR_LOSS:
                return found.loss_chance_per_array_year.value
            case FleetFigure.NINES:
                return found.nines_per_array_year.value
            case FleetFigure.MTTDL:
                return found.mttdl_years * HOURS_PER_YEAR * 3600
            case FleetFigure.TO_MTTDL:
                return found.losses_to_mttdl
        return found.cause_losses[self.figure.value]


@lru_cache(maxsize=16)
def _figures(name: str, variant: str, changes: bytes) -> LossFigures:
    spec = _spec(name, variant, msgspec.json.decode(changes))
    return run_spec(spec, _no_results, local_spreader(1))[1]


def _spec(name: str, variant: str, changes: Mapping[str, Any]) -> FleetSpec:
    tree = fleet_tree(name)
    spec = fleet_spec(tree, name, changes)
    known = dict(variants(tree, spec))
    if variant and variant not in known:
        raise unknown_word(f"variant of {name}", variant, known)
    return known[variant] if variant else spec


def _no_results(name: str, _array: str | None) -> tuple[float, ...]:
    raise SpecError(f"a lesson's fleet names the result '{name}'", hint="write rebuild.hours instead")
