"""Numbers that a student reads off: where the right one comes from, and how near a typed one must be.

A reading asks for a figure of the student's own result or of the lab as it is, so no two students need type the same
number. ``get`` in a lesson file names the class by its tag.
"""

from __future__ import annotations

import re
import statistics
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from lab.errors import SpecError
from lab.lessons.measure_checks import CellChoice, Figure, values_of
from lab.lessons.state import CheckedState, CheckOutcome
from lab.units import GIB, KIB, MIB

UNITS = {
    "": 1.0,
    "IOPS": 1.0,
    "sectors": 1.0,
    "s": 1.0,
    "h": 3600.0,
    "years": 365.25 * 24 * 3600.0,
    "%": 0.01,
    "ms": 1e-3,
    "KiB": float(KIB),
    "MiB": float(MIB),
    "GiB": float(GIB),
    "KiB/s": float(KIB),
    "MiB/s": float(MIB),
}
"""Unit in which a figure can be asked for -> its size in seconds, bytes, bytes a second or counts."""
_NUMBER = re.compile(r"([-+]?\d+(?:[.,]\d+)?(?:[eE][-+]?\d+)?)\s*(.*)")
_MISTAKEN_FACTORS = (1000.0, 1024.0, 8.0)
"""What a wrong unit makes of a right number: a prefix, or bits for bytes."""
_NEAR_A_FACTOR = 0.03


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="get"):
    """Where a number comes from. Subclasses carry a tag, the name in lesson files."""

    needs_lab: ClassVar[bool] = False
    """It is about arrays, so the lab must be open to know it."""
    is_plain: ClassVar[bool] = False
    """The value is written in the unit that is asked for."""

    @abstractmethod
    def value(self, lab: CheckedState) -> float | None:
        """The number, in seconds, bytes, bytes a second or as a count; None: not there yet."""


class Number(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="number"):
    """A number that follows from the text, written in the unit that is asked for."""

    is_plain = True
    equals: float

    def value(self, lab: CheckedState) -> float | None:
        return self.equals


class ResultFigure(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="result.figure"):
    """A figure of one part of a measurement; of several repeats their median."""

    measure: str
    of: CellChoice
    figure: Figure = Figure.IOPS

    def value(self, lab: CheckedState) -> float | None:
        record = lab.results.get(self.measure)
        found = values_of(record, self.of, self.figure) if record else []
        return statistics.median(found) if found else None


class ResultRatio(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="result.ratio"):
    """One figure of two parts of a measurement, divided."""

    measure: str
    of: CellChoice
    to: CellChoice
    figure: Figure = Figure.IOPS

    def value(self, lab: CheckedState) -> float | None:
        above = ResultFigure(measure=self.measure, of=self.of, figure=self.figure).value(lab)
        below = ResultFigure(measure=self.measure, of=self.to, figure=self.figure).value(lab)
        return None if above is None or not below else above / below


class ArraySize(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.size"):
    """What a running array holds."""

    needs_lab = True
    array: str = "md0"

    def value(self, lab: CheckedState) -> float | None:
        status = lab.arrays.get(self.array)
        return float(status.size_bytes) if status else None


@dataclass(frozen=True, slots=True)
class Reading:
    """A number that is asked for, as the student meets it."""

    question: str
    unit: str
    source: Source
    within_percent: float

    def expected(self, lab: CheckedState) -> float | None:
        """The right number, in the unit that is asked for; None: there is nothing to read yet."""
        value = self.source.value(lab)
        return value if value is None or self.source.is_plain else value / UNITS[self.unit]

    def parse(self, text: str) -> float:
        """The number in what was typed, with a decimal point or comma, and with the unit or without.

        Raises SpecError for anything else.
        """
        match = _NUMBER.fullmatch(text.strip())
        asked = f"a number in {self.unit}" if self.unit else "a number"
        if match is None:
            raise SpecError(f"'{text}' is no number", hint=f"this step asks for {asked}, such as 12.5")
        if match[2] and match[2].lower() != self.unit.lower():
            raise SpecError(f"'{text}' is not in the unit asked for", hint=f"this step asks for {asked}")
        # Thousands are what lessons and tools print with commas; a decimal comma has other digits after it.
        is_grouped = re.fullmatch(r"[1-9][0-9]{0,2}(,[0-9]{3})+", match[1])
        return float(match[1].replace(",", "" if is_grouped else "."))

    def compare(self, typed: str, lab: CheckedState) -> CheckOutcome:
        """What becomes of a typed number; empty: none was typed. The right one is told only to those who have it."""
        if not typed:
            return CheckOutcome(False, "reading-not-given")
        facts = {"given": self._with_unit(typed)}
        expected = self.expected(lab)
        if expected is None:
            return CheckOutcome(False, "reading-nothing-there", facts)
        try:
            given = self.parse(typed)
        except SpecError:
            # Kept by an earlier raidlab, whose lesson asked for another unit, or written by hand.
            return CheckOutcome(False, "reading-not-given")
        # What is printed is rounded, so nothing finer than that can be asked for.
        if abs(given - expected) <= abs(expected) * self.within_percent / 100 + 1e-9:
            return CheckOutcome(True, "reading-right", {**facts, "value": self._with_unit(_plain(expected))})
        return CheckOutcome(False, "reading-other-unit" if _is_other_unit(given, expected) else "reading-off", facts)

    def _with_unit(self, number: str) -> str:
        number = number.strip()
        return f"{number} {self.unit}" if self.unit and number[-1:].isdigit() else number


def _plain(value: float) -> str:
    return f"{value:.0f}" if value == round(value) else f"{value:.4g}"


def _is_other_unit(given: float, expected: float) -> bool:
    if given <= 0 or expected <= 0:
        return False
    larger = max(given, expected) / min(given, expected)
    return any(abs(larger / factor - 1) < _NEAR_A_FACTOR for factor in _MISTAKEN_FACTORS)
