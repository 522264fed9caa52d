"""Checks on measurements: bounds on the ratio of two parts of one result, never on an absolute figure.

An absolute figure depends more on the computer than on RAID; a ratio of two measurements, made minutes apart on the
same disks, depends on RAID.
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
    """The figure that is compared."""

    IOPS = "iops"
    """I/Os per second."""
    BANDWIDTH = "bandwidth"
    """Bytes per second."""
    P50 = "p50"
    """Median latency."""
    P99 = "p99"

    def of(self, figures: DirectionFigures) -> float | None:
        """The measured figure of one direction in I/Os per second, bytes per second or seconds; None if missing."""
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
        """The value as text with its unit."""
        if self is Figure.IOPS:
            return f"{human_rate(value)} IOPS"
        return f"{human_bytes(value)}/s" if self is Figure.BANDWIDTH else human_seconds(value)


class CellChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects one part of a result. An empty ``workload`` matches any: it is for results with one workload."""

    array: str
    workload: str = ""
    phase: str = "healthy"

    def find(self, record: ResultRecord) -> list[CellRecord]:
        """The matching cells, one per repeat, sorted by repeat."""
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
        """Return the outcome for a complete result."""


class ResultSaved(ResultCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="result.saved"):
    """This measurement of the lesson is complete."""

    def judge(self, record: ResultRecord) -> CheckOutcome:
        return CheckOutcome(True, "result-there", {"measure": self.measure, "result": record.id})


class RatioWithin(ResultCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="ratio"):
    """The ratio of one figure between two parts of a measurement is between ``at_least`` and ``at_most``.

    With several repeats the ratios of all pairs must agree; otherwise the measurement is inconclusive.
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
        """The suffix of the message that states the bounds.

        The sentence with the requirement omits them, because they would reveal the answer to the prediction.
        """
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
    """After each measured rebuild of this array, the checksum of its data was the same as before."""

    array: str

    def judge(self, record: ResultRecord) -> CheckOutcome:
        verdicts: Sequence[bool | None] = [each.data_unchanged for each in record.rebuilds if each.array == self.array]
        is_intact = bool(verdicts) and all(verdicts)
        return CheckOutcome(is_intact, "rebuild-intact" if is_intact else "rebuild-not-intact", self.facts)


def values_of(record: ResultRecord, choice: CellChoice, figure: Figure) -> list[float]:
    """One value of the figure per repeat, in order, of one part of a result, without values that fio did not report."""
    found = [figure.of(part) for cell in choice.find(record) if (part := _only_direction(cell))]
    return [value for value in found if value is not None]


def label_of(choice: CellChoice, other: CellChoice) -> str:
    """A label that distinguishes one part of a result from another: array, workload and phase, if they differ."""
    words = [choice.array] if choice.array != other.array else []
    if choice.workload != other.workload:
        words.append(choice.workload)
    if choice.phase != other.phase:
        words.append(choice.phase)
    return " ".join(words) or choice.array


def _only_direction(cell: CellRecord) -> DirectionFigures | None:
    """The direction that the job measured; of a mix the reads, because users wait for those."""
    return cell.figures.reads or cell.figures.writes
