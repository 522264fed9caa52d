"""Checks on measurements: directions and bands of ratios between two parts of one result, never a figure of its own.

An absolute figure says more about the computer than about RAID; a ratio measured minutes apart on the same disks says
something about RAID.
"""

from __future__ import annotations

import statistics
from abc import abstractmethod
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from lab.checks.state import Check, CheckedState, CheckOutcome, Facts
from lab.results.record import CellRecord, ResultRecord
from lab.units import human_bytes, human_rate, human_seconds
from lab.workloads.fio_output import DirectionFigures


class Figure(StrEnum):
    """What is compared."""

    IOPS = "iops"
    """I/Os a second."""
    BANDWIDTH = "bandwidth"
    """Bytes a second."""
    P50 = "p50"
    """Median latency."""
    P99 = "p99"

    def of(self, figures: DirectionFigures) -> float | None:
        """The figure of one measured direction, as it was measured: in I/Os or bytes a second, or seconds."""
        match self:
            case Figure.IOPS:
                return figures.iops
            case Figure.BANDWIDTH:
                return figures.bandwidth_bytes_per_second
            case Figure.P50:
                return figures.p50_seconds
            case Figure.P99:
                return figures.p99_seconds

    def text(self, value: float) -> str:
        """With its unit, for people."""
        if self is Figure.IOPS:
            return f"{human_rate(value)} IOPS"
        return f"{human_bytes(value)}/s" if self is Figure.BANDWIDTH else human_seconds(value)


class CellChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of a result is meant; an empty workload: the only one."""

    array: str
    workload: str = ""
    phase: str = "healthy"

    def find(self, record: ResultRecord) -> list[CellRecord]:
        """Its cells, one per repeat, in order."""
        found = [cell for cell in record.cells if cell.array == self.array and cell.phase == self.phase]
        found = [cell for cell in found if self.workload in ("", cell.workload)]
        return sorted(found, key=lambda cell: cell.repeat)


class ResultCheck(Check, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check on a measurement of the lesson."""

    measure: str

    def look(self, lab: CheckedState) -> CheckOutcome:
        record = lab.results.get(self.measure)
        return self.judge(record) if record else CheckOutcome(False, "result-missing", {"measure": self.measure})

    @abstractmethod
    def judge(self, record: ResultRecord) -> CheckOutcome:
        """The look at a measurement that is there."""


class ResultSaved(ResultCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="result.saved"):
    """This measurement of the lesson was run to its end."""

    def judge(self, record: ResultRecord) -> CheckOutcome:
        return CheckOutcome(True, "result-there", {"measure": self.measure, "result": record.id})


class RatioWithin(ResultCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="ratio"):
    """One figure of two parts of a measurement, divided: it lies between ``at_least`` and ``at_most``.

    With several repeats the ratio of every pair must agree; otherwise the measurement is inconclusive.
    """

    of: CellChoice
    to: CellChoice
    figure: Figure = Figure.IOPS
    at_least: float = 0.0
    at_most: float = float("inf")

    @property
    def facts(self) -> Facts:
        return {
            "measure": self.measure,
            "of": label_of(self.of, self.to),
            "to": label_of(self.to, self.of),
            "figure": self.figure.value,
            "at_least": f"{self.at_least:g}",
            "at_most": f"{self.at_most:g}",
        }

    @property
    def _band(self) -> str:
        """Which words tell the bounds. What is wanted does not: it would give the prediction away."""
        if self.at_least and self.at_most != float("inf"):
            return "between"
        return "at-least" if self.at_least else "at-most"

    def judge(self, record: ResultRecord) -> CheckOutcome:
        above, below = values_of(record, self.of, self.figure), values_of(record, self.to, self.figure)
        if not above or not below or min(below) <= 0:
            return CheckOutcome(False, "ratio-lacks", {**self.facts, "measure": self.measure})
        ratio = statistics.median(above) / statistics.median(below)
        facts = {
            **self.facts,
            "above": self.figure.text(statistics.median(above)),
            "below": self.figure.text(statistics.median(below)),
            "ratio": f"{ratio:.3g}",
        }
        inside = [self.at_least <= a / b <= self.at_most for a, b in zip(above, below, strict=False)]
        if any(inside) and not all(inside):
            return CheckOutcome(False, "ratio-unclear", facts)
        cells = (*self.of.find(record), *self.to.find(record))
        if not all(inside) and any(stamp.startswith("disturbed") for cell in cells for stamp in cell.stamps):
            return CheckOutcome(False, "ratio-disturbed", facts)
        return CheckOutcome(all(inside), "ratio-is" if all(inside) else f"ratio-off-{self._band}", facts)


class RebuildIntact(ResultCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="rebuild.data_unchanged"):
    """After every measured rebuild of this array its data had the checksum from before."""

    array: str

    def judge(self, record: ResultRecord) -> CheckOutcome:
        verdicts: Sequence[bool | None] = [each.data_unchanged for each in record.rebuilds if each.array == self.array]
        is_intact = bool(verdicts) and all(verdicts)
        return CheckOutcome(is_intact, "rebuild-intact" if is_intact else "rebuild-not-intact", self.facts)


def values_of(record: ResultRecord, choice: CellChoice, figure: Figure) -> list[float]:
    """A figure of one part of a result, one value per repeat, in order; without those that fio did not give."""
    found = [figure.of(part) for cell in choice.find(record) if (part := _only_direction(cell))]
    return [value for value in found if value is not None]


def label_of(choice: CellChoice, other: CellChoice) -> str:
    """What tells one part of a result from another: the array, and the workload or phase where those differ."""
    words = [choice.array] if choice.array != other.array else []
    if choice.workload != other.workload:
        words.append(choice.workload)
    if choice.phase != other.phase:
        words.append(choice.phase)
    return " ".join(words) or choice.array


def _only_direction(cell: CellRecord) -> DirectionFigures | None:
    """The direction that the job measured; of a mix the reads, which are what users wait for."""
    return cell.figures.reads or cell.figures.writes
