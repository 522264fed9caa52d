"""Prove a lesson or a drill on a real lab.

The proof shows that no check passes before the first action, that every right way passes, and that every wrong way
fails with its own mistake.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from lab.units import counted


@dataclass(frozen=True, slots=True)
class Way:
    """One way through a lesson or a drill, right or wrong."""

    id: str
    mistake: str = ""
    """The mistake that must be recognised first at the end of a wrong way, or an empty string for a right way."""


@dataclass(frozen=True, slots=True)
class WayEnd:
    """The result of one way."""

    is_passed: bool
    mistakes: Sequence[str] = ()
    details: str = ""


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of a proof for one seed."""

    kind: str
    """``lesson`` or ``drill``."""
    name: str
    seed: str
    checks: int
    """Number of checks in all steps of a lesson, or in the goal of a drill."""
    passed_fresh: int
    """Number of checks that hold before the first action, which must be 0."""
    right: int
    """Number of right ways that passed."""
    wrong: int
    """Number of wrong ways that failed with their own mistake recognised first."""
    seconds: float
    failures: tuple[str, ...]

    @property
    def sentence(self) -> str:
        name = f"{self.name} for '{self.seed}'" if self.seed else self.name
        ways = f"{counted(self.right, 'right way')} passed, {counted(self.wrong, 'wrong way')} recognised"
        return f"{name}: {self.passed_fresh} of {self.checks} checks hold at the start, {ways}, {self.seconds:.0f} s"


class Prover(ABC):
    """Works through one lesson or drill as a student would."""

    kind: ClassVar[str]

    def __init__(self, name: str, seed: str, checks: int, ways: Sequence[Way]) -> None:
        self.name, self.seed, self.checks, self.ways = name, seed, checks, ways
        self.failures: list[str] = []

    @abstractmethod
    def count_fresh(self) -> int:
        """Return the number of checks that hold before the first action, and record a failure for each."""

    @abstractmethod
    def take(self, way: Way) -> WayEnd:
        """Follow a way from the beginning."""

    def prove(self) -> Proof:
        began = time.monotonic()
        fresh = self.count_fresh()
        right = wrong = 0
        for way in self.ways:
            if problem := _problem(way, self.take(way)):
                self.fail(f"way {way.id}: {problem}")
            elif way.mistake:
                wrong += 1
            else:
                right += 1
        seconds = round(time.monotonic() - began, 1)
        failures = tuple(self.failures)
        return Proof(self.kind, self.name, self.seed, self.checks, fresh, right, wrong, seconds, failures)

    def fail(self, text: str) -> None:
        self.failures.append(f"{self.name}{f' ({self.seed!r})' if self.seed else ''}, {text}")


def _problem(way: Way, end: WayEnd) -> str:
    details = f" ({end.details})" if end.details else ""
    if not way.mistake:
        return "" if end.is_passed else f"it does not pass{details}"
    if end.is_passed:
        return f"a wrong way passes{details}"
    if [*end.mistakes][:1] != [way.mistake]:
        found = ", ".join(end.mistakes) or "none"
        return f"mistake {way.mistake} must be recognised first, but these were found: {found}{details}"
    return ""
