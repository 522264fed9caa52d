"""What became of a scenario.

Each check with what was wanted and found, the evidence behind it, and the verdict on the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import msgspec

from lab.faults.facts import FactCheck


class FaultVerdict(StrEnum):
    """On a whole scenario."""

    AS_EXPECTED = "as expected"
    NOT_AS_EXPECTED = "NOT as expected"
    NOT_POSSIBLE = "not possible here"
    MACHINE_LOST = "machine lost"


class StepOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step as it went."""

    do: str
    lines: tuple[str, ...] = ()
    """The commands, as they can be typed."""
    why: str = ""
    seconds: float = 0.0
    """Of the machine's time."""
    checks: tuple[FactCheck, ...] = ()
    blocks: tuple[str, ...] = ()
    """The first blocks with a verdict that is not allowed: where they lie, and what they hold."""
    evidence: dict[str, Any] = {}
    """What the machine told, of steps that are checked."""
    problem: str = ""
    """Why it could not be carried out."""

    @property
    def is_expected(self) -> bool:
        """Whether all that was to be seen was seen."""
        return not self.problem and all(check.is_met for check in self.checks)


class VariantOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The scenario's steps on one array."""

    name: str
    array: str
    steps: tuple[StepOutcome, ...] = ()
    missing: tuple[str, ...] = ()
    """What this machine lacks for it."""

    @property
    def is_expected(self) -> bool:
        """Whether every step went as it must."""
        return all(step.is_expected for step in self.steps)

    @property
    def machine_seconds(self) -> float:
        """Of the machine's time."""
        return sum(step.seconds for step in self.steps)

    @property
    def unmet(self) -> Iterator[str]:
        """What was not as expected, in words."""
        for step in self.steps:
            if step.problem:
                yield f"{self.name}: {step.do}: {step.problem}"
            for check in step.checks:
                if not check.is_met:
                    yield f"{self.name}: after {step.do}: {check.what} is {check.found}, and must be {check.wanted}"


class ScenarioOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One scenario."""

    number: int
    id: str
    title: str
    model: str
    must: tuple[str, ...]
    sources: tuple[str, ...]
    notes: tuple[str, ...] = ()
    verdict: FaultVerdict
    reason: str = ""
    """Why it was not possible, or what became of the machine."""
    variants: tuple[VariantOutcome, ...] = ()
    computer_seconds: float = 0.0
    """Of this computer's time."""

    @property
    def unmet(self) -> tuple[str, ...]:
        """What was not as expected."""
        return tuple(line for variant in self.variants for line in variant.unmet)

    @property
    def checks(self) -> tuple[FactCheck, ...]:
        """All of them."""
        return tuple(check for variant in self.variants for step in variant.steps for check in step.checks)

    @property
    def machine_seconds(self) -> float:
        """Of the machine's time."""
        return sum(variant.machine_seconds for variant in self.variants)

    @property
    def left_out(self) -> tuple[VariantOutcome, ...]:
        """Variants that this machine cannot play."""
        return tuple(variant for variant in self.variants if variant.missing)


def verdict_of(variants: tuple[VariantOutcome, ...]) -> FaultVerdict:
    """On the whole: what is not as expected outweighs what could not be tried."""
    if not all(variant.is_expected for variant in variants):
        return FaultVerdict.NOT_AS_EXPECTED
    if not any(variant.steps for variant in variants):
        return FaultVerdict.NOT_POSSIBLE
    return FaultVerdict.AS_EXPECTED
