"""Checks on measurements, and readings, which are numbers that a student reads from the lab.

A check on a measurement bounds the ratio of two parts of one result, never an absolute figure. An absolute figure
depends more on the computer than on RAID, whereas a ratio of two measurements that were made minutes apart on the same
disks depends mainly on RAID. A reading has a source and a tolerance. Some readings are calculated, such as the
rebuild time of a large drive and the mean time to data loss of an array.
"""

from __future__ import annotations

import math
import re
import statistics
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import msgspec

from lab.checks.state import Check, CheckedState, CheckOutcome, Facts
from lab.errors import SpecError
from lab.results.record import CellRecord, ResultRecord
from lab.units import GIB, KIB, MIB, SECTOR_BYTES, human_bytes, human_rate, human_seconds
from lab.workloads.fio_output import DirectionFigures


class Figure(StrEnum):
    """The figure that a check or a reading compares."""

    IOPS = "iops"
    BANDWIDTH = "bandwidth"
    P50 = "p50"
    P99 = "p99"

    def of(self, figures: DirectionFigures) -> float | None:
        """Return this figure of one direction in I/Os per second, bytes per second or seconds, or None if missing."""
        return {
            Figure.IOPS: figures.iops,
            Figure.BANDWIDTH: figures.bandwidth_bytes_per_second,
            Figure.P50: figures.p50_seconds,
            Figure.P99: figures.p99_seconds,
        }[self]

    def text(self, value: float) -> str:
        if self is Figure.IOPS:
            return f"{human_rate(value)} IOPS"
        return f"{human_bytes(value)}/s" if self is Figure.BANDWIDTH else human_seconds(value)


class CellChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects one part of a result. An empty ``workload`` matches any, which suits results with only one workload."""

    array: str
    workload: str = ""
    phase: str = "healthy"

    def find(self, record: ResultRecord) -> list[CellRecord]:
        found = [cell for cell in record.cells if cell.array == self.array and cell.phase == self.phase]
        found = [cell for cell in found if self.workload in ("", cell.workload)]
        return sorted(found, key=lambda cell: cell.repeat)


class ResultCheck(Check, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check on a measurement of the lesson."""

    needs_lab = False
    measure: str

    def evaluate(self, lab: CheckedState) -> CheckOutcome:
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
    """The ratio of a figure in one part of a measurement to that in another is between ``at_least`` and ``at_most``.

    With several repeats, the ratios of all pairs of repeats must agree. Otherwise the measurement is inconclusive.
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
            "of": _label_of(self.of, self.to),
            "to": _label_of(self.to, self.of),
            "figure": self.figure.value,
            "at_least": f"{self.at_least:g}",
            "at_most": f"{self.at_most:g}",
        }

    @property
    def _band(self) -> str:
        # The sentence of the requirement omits the bounds, because they would reveal the answer to the prediction.
        if self.at_least and self.at_most != float("inf"):
            return "between"
        return "at-least" if self.at_least else "at-most"

    def judge(self, record: ResultRecord) -> CheckOutcome:
        above, below = _values_of(record, self.of, self.figure), _values_of(record, self.to, self.figure)
        if not above or not below or min(below) <= 0:
            return CheckOutcome(False, "ratio-lacks", self.facts)
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
    """After each measured rebuild of this array, the checksum of its data was the same as before the rebuild."""

    array: str

    def judge(self, record: ResultRecord) -> CheckOutcome:
        verdicts = [each.data_unchanged for each in record.rebuilds if each.array == self.array]
        is_intact = bool(verdicts) and all(verdicts)
        return CheckOutcome(is_intact, "rebuild-intact" if is_intact else "rebuild-not-intact", self.facts)


def _values_of(record: ResultRecord, choice: CellChoice, figure: Figure) -> list[float]:
    """Return one part's figure for each repeat, in order, omitting repeats for which fio reported none."""
    # Use the direction that the job measured. For a mixed load, use the reads, because users wait for reads.
    parts = [cell.figures.reads or cell.figures.writes for cell in choice.find(record)]
    found = [figure.of(part) for part in parts if part]
    return [value for value in found if value is not None]


def _label_of(choice: CellChoice, other: CellChoice) -> str:
    """Return a label for one part of a result: its array, workload and phase where they differ from the other."""
    words = [choice.array] if choice.array != other.array else []
    if choice.workload != other.workload:
        words.append(choice.workload)
    if choice.phase != other.phase:
        words.append(choice.phase)
    return " ".join(words) or choice.array


UNITS = {
    "": 1.0,
    "IOPS": 1.0,
    "sectors": 1.0,
    "s": 1.0,
    "h": 3600.0,
    "years": 365.25 * 24 * 3600.0,
    "%": 0.01,
    "ms": 1e-3,
    "bytes": 1.0,
    "KiB": float(KIB),
    "MiB": float(MIB),
    "GiB": float(GIB),
    "KiB/s": float(KIB),
    "MiB/s": float(MIB),
    "MB/s": 1e6,
}
"""The units of readings, with their sizes in seconds, bytes, bytes per second or counts."""
_BYTES = {
    "bytes": 1.0,
    "KB": 1e3,
    "KiB": float(KIB),
    "MB": 1e6,
    "MiB": float(MIB),
    "GB": 1e9,
    "GiB": float(GIB),
    "TB": 1e12,
}
_SAME_KIND: tuple[Mapping[str, float], ...] = (
    {"ms": 1e-3, "s": 1.0, "minutes": 60.0, "h": 3600.0, "days": 86400.0, "years": UNITS["years"]},
    {**_BYTES, "sectors": float(SECTOR_BYTES), "blocks of 4 KiB": 4.0 * KIB, "terabits": 1e12 / 8},
    {**{f"{name}/s": size for name, size in _BYTES.items()}, "Kibit/s": KIB / 8, "Mbit/s": 1e6 / 8},
    {"%": 0.01, "fractions of 1": 1.0},
    {"thousand": 1e3, "single ones": 1.0},
)
"""Groups of units that students confuse, with their sizes."""
_NUMBER = re.compile(r"([-+]?\d+(?:[.,]\d+)?(?:[eE][-+]?\d+)?)\s*(.*)")
NOT_COMPARED = ("reading-not-given", "reading-nothing-there")
"""Outcomes that do not say whether a number is correct."""
_CLOSEST_UNITS_PERCENT = 1.0
"""A number this close to the value in a different unit is taken to be in that unit. KiB and KB differ by 2.4 %."""


@dataclass(frozen=True, slots=True)
class LikelyMistake:
    """A number that students type by mistake.

    ``key`` selects a message in each language, and ``facts`` fill its placeholders.
    """

    value: float | None
    """The mistaken number, in the same unit as ``Source.value``."""
    key: str
    facts: Facts


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="get"):
    """The source of a number. The tag of a subclass is its name in lesson files."""

    needs_lab: ClassVar[bool] = False
    """Whether the value is a property of arrays, so that the lab must be open."""
    needs_disks: ClassVar[bool] = False
    """Whether the source reads ``CheckedState.deep``, which is gathered only for lessons that need it."""
    is_plain: ClassVar[bool] = False
    """Whether the value is already in the unit of the reading."""
    is_of_result: ClassVar[bool] = False

    @abstractmethod
    def value(self, lab: CheckedState) -> float | None:
        """Return the number as seconds, bytes, bytes per second or a count, or None if it is not available yet."""

    def mistakes(self, lab: CheckedState) -> Iterable[LikelyMistake]:
        """Return numbers that are likely to be typed instead of the correct one, most likely first."""
        return ()


class Number(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="number"):
    """A number that follows from the text, in the unit of the reading."""

    is_plain = True
    equals: float

    def value(self, lab: CheckedState) -> float | None:
        return self.equals


class ResultFigure(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="result.figure"):
    """A figure of one part of a measurement, or its median if there are several repeats."""

    is_of_result = True
    measure: str
    of: CellChoice
    figure: Figure = Figure.IOPS

    def value(self, lab: CheckedState) -> float | None:
        record = lab.results.get(self.measure)
        found = _values_of(record, self.of, self.figure) if record else []
        return statistics.median(found) if found else None

    def mistakes(self, lab: CheckedState) -> Iterable[LikelyMistake]:
        for other in _other_cells(lab, self.measure, self.of):
            row = {"row": _label_of(other, self.of)}
            yield LikelyMistake(msgspec.structs.replace(self, of=other).value(lab), "reading-other-row", row)
        for figure in Figure:
            if figure is not self.figure:
                other_figure = msgspec.structs.replace(self, figure=figure).value(lab)
                facts = {"figure": figure.value, "asked": self.figure.value}
                yield LikelyMistake(other_figure, "reading-other-figure", facts)


class ResultRatio(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="result.ratio"):
    """The ratio of a figure in one part of a measurement to that in another."""

    is_of_result = True
    measure: str
    of: CellChoice
    to: CellChoice
    figure: Figure = Figure.IOPS

    def mistakes(self, lab: CheckedState) -> Iterable[LikelyMistake]:
        facts: Facts = {"of": _label_of(self.of, self.to), "to": _label_of(self.to, self.of)}
        right = self.value(lab)
        yield LikelyMistake(1 / right if right else None, "reading-upside-down", facts)
        for choice in (self.of, self.to):
            alone = ResultFigure(measure=self.measure, of=choice, figure=self.figure).value(lab)
            yield LikelyMistake(alone, "reading-not-divided", facts)
        for name in dict.fromkeys(other.workload for other in _other_cells(lab, self.measure, self.of)):
            if name in (self.of.workload, self.to.workload):
                continue
            pair = {side: msgspec.structs.replace(getattr(self, side), workload=name) for side in ("of", "to")}
            other = msgspec.structs.replace(self, **pair).value(lab)
            yield LikelyMistake(other, "reading-other-row", {**facts, "row": name})
        for figure in Figure:
            if figure is not self.figure:
                wrong = {"figure": figure.value, "asked": self.figure.value}
                other = msgspec.structs.replace(self, figure=figure).value(lab)
                yield LikelyMistake(other, "reading-other-ratio", wrong)

    def value(self, lab: CheckedState) -> float | None:
        above = ResultFigure(measure=self.measure, of=self.of, figure=self.figure).value(lab)
        below = ResultFigure(measure=self.measure, of=self.to, figure=self.figure).value(lab)
        return None if above is None or not below else above / below


class ArraySource(Source, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number about a running array."""

    needs_lab = True
    array: str = "md0"


class ArraySize(ArraySource, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.size"):
    """The size of a running array."""

    def value(self, lab: CheckedState) -> float | None:
        status = lab.arrays.get(self.array)
        return float(status.size_bytes) if status else None


@dataclass(frozen=True, slots=True)
class Reading:
    """The reading of a step, with the values of the seed filled in."""

    question: str
    unit: str
    source: Source
    within_percent: float
    times: float = 1.0
    """Factor by which the value of the source is multiplied."""

    def expected(self, lab: CheckedState) -> float | None:
        """Return the correct number in the unit of the reading, or None if it is not available yet."""
        value = self.source.value(lab)
        if value is None:
            return None
        return self.times * (value if self.source.is_plain else value / UNITS[self.unit])

    @property
    def question_words(self) -> str:
        return f"{self.question} ({self.unit})" if self.unit else self.question

    @property
    def requirement_key(self) -> str:
        return "reading.result" if self.source.is_of_result else "reading"

    def parse(self, text: str) -> tuple[float, ...]:
        """Parse a typed number, which may contain a decimal point or comma, and may be followed by the unit.

        A comma before three digits may also separate thousands. Then both possible numbers are returned, the larger
        one first.

        Raises SpecError for any other text. Its hint contains no example, because that might be the answer.
        """
        digits = "type digits, with a point or comma before decimals"
        asked = f"{digits}; the unit is {self.unit}" if self.unit else digits
        if not text.strip():
            raise SpecError("no number was typed", hint=asked)
        # Digits may be written in groups, such as 12 000.
        joined = re.sub(r"(?<=\d) +(?=\d)", "", text.strip())
        match = _NUMBER.fullmatch(joined)
        if match is None:
            raise SpecError(f"'{text}' is not a number", hint=asked)
        if match[2] and match[2].lower() != self.unit.lower():
            raise SpecError(f"'{text}' is not in the requested unit", hint=asked)
        # Lessons and tools print thousands with commas, and a student may type three decimals.
        is_ambiguous = re.fullmatch(r"[1-9][0-9]{0,2},[0-9]{3}", match[1])
        return tuple(float(match[1].replace(",", mark)) for mark in (("", ".") if is_ambiguous else (".",)))

    def compare(self, typed: str, lab: CheckedState) -> CheckOutcome:
        """Compare typed text with the correct number. Empty text means that there is no answer.

        The outcome reveals the number only if the answer is correct.
        """
        if not typed:
            return CheckOutcome(False, "reading-not-given")
        facts = {"given": self._with_unit(typed)}
        expected = self.expected(lab)
        if expected is None:
            return CheckOutcome(False, "reading-nothing-there", facts)
        try:
            meanings = self.parse(typed)
        except SpecError:
            # The text was stored by an earlier raidlab whose lesson used a different unit, or it was written by hand.
            return CheckOutcome(False, "reading-not-given")
        given = next((meaning for meaning in meanings if self._is_near(meaning, expected)), meanings[0])
        if self._is_near(given, expected):
            value = self._with_unit(_plain(expected))
            key = "reading-exact" if value == facts["given"] else "reading-right"
            return CheckOutcome(True, key, {**facts, "value": value})
        for likely in self.source.mistakes(lab):
            if likely.value is None:
                continue
            wrong = likely.value / (1.0 if self.source.is_plain else UNITS[self.unit])
            if self._is_near(given, wrong) or _is_rounded(typed, given, wrong):
                return CheckOutcome(False, likely.key, {**facts, **likely.facts})
        if other := self._other_unit(given, expected):
            other_facts = {"number": f"{given:.12g}", "other": other, "unit": self.unit}
            return CheckOutcome(False, "reading-other-unit", other_facts)
        return CheckOutcome(False, "reading-off-result" if self.source.is_of_result else "reading-off", facts)

    def _is_near(self, given: float, expected: float) -> bool:
        """Whether two numbers agree within the tolerance, which is needed because displayed numbers are rounded."""
        return abs(given - expected) <= abs(expected) * self.within_percent / 100 + 1e-9

    def _other_unit(self, given: float, expected: float) -> str:
        """Return the unit, among those often confused with this one, in which the number would be correct.

        Returns an empty string if there is none.
        """
        kind: Mapping[str, float] = next((kind for kind in _SAME_KIND if self.unit in kind), {})
        most = max(self.within_percent, _CLOSEST_UNITS_PERCENT) / 100
        found = {
            name: abs(given * size / (expected * kind[self.unit]) - 1)
            for name, size in kind.items()
            if name != self.unit and expected > 0
        }
        near = min(found, key=lambda name: found[name], default="")
        return near if near and found[near] <= most else ""

    def _with_unit(self, number: str) -> str:
        number = number.strip()
        return f"{number} {self.unit}" if self.unit and number[-1:].isdigit() else number


def _other_cells(lab: CheckedState, measure: str, choice: CellChoice) -> list[CellChoice]:
    """Return the other parts of a result in order, without duplicates."""
    record = lab.results.get(measure)
    if record is None:
        return []
    own = choice.find(record)
    rows = dict.fromkeys((cell.array, cell.workload, cell.phase) for cell in record.cells if cell not in own)
    return [CellChoice(array=array, workload=workload, phase=phase) for array, workload, phase in rows]


def _is_rounded(typed: str, given: float, value: float) -> bool:
    """Whether ``typed`` is ``value`` rounded to fewer digits, of which at least two must remain.

    The inverse of a ratio of rates is close to the ratio of latencies. A rounded inverse must be recognised as an
    inverse, not as a ratio of latencies.
    """
    written = re.match(r"\s*(\d+)(?:[.,](\d+))?(?![\d.,eE])", typed)
    if written is None:
        return False
    whole, decimals = written[1], written[2] or ""
    return len((whole + decimals).lstrip("0")) >= 2 and abs(given - value) <= 0.5 * 10.0 ** -len(decimals) + 1e-9


def _plain(value: float) -> str:
    return f"{value:.0f}" if value == round(value) else f"{value:.4g}"


TB = 10**12


class RebuildRate(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="rebuild.rate"):
    """The bytes per second that a measured rebuild wrote to the new drive, or the median of several rebuilds."""

    is_of_result = True
    measure: str
    array: str

    def value(self, lab: CheckedState) -> float | None:
        record = lab.results.get(self.measure)
        rebuilds = [each for each in record.rebuilds if each.array == self.array] if record else []
        rates = [each.rebuilt_bytes / each.rebuild_seconds for each in rebuilds if each.rebuild_seconds > 0]
        return statistics.median(rates) if rates else None


class RebuildHours(RebuildRate, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="rebuild.time"):
    """The rebuild time of a drive of this many TB (10^12 bytes) at the rate of a measured rebuild."""

    is_of_result = False
    drive_tb: float

    def value(self, lab: CheckedState) -> float | None:
        rate = super().value(lab)
        return self.drive_tb * TB / rate if rate else None


class ExpectedLife(RebuildHours, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="rebuild.mttdl"):
    """The mean time to data loss of an array that tolerates one failure, from ``rebuild.time`` and the AFR.

    MTTF = 1 / AFR and MTTDL = MTTF^2 / (N * (N - 1) * MTTR), where AFR is the annual failure rate and MTTR is the
    rebuild time.
    """

    members: int
    afr_percent: float

    def value(self, lab: CheckedState) -> float | None:
        repair_seconds = super().value(lab)
        if not repair_seconds:
            return None
        mean_life_seconds = UNITS["years"] / (self.afr_percent / 100)
        return mean_life_seconds**2 / (self.members * (self.members - 1) * repair_seconds)


class ReadErrorChance(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="read_error.chance"):
    """The probability that a read of this many TB meets an unreadable sector, at one error per 10^exponent bits."""

    read_tb: float
    exponent: int

    def value(self, lab: CheckedState) -> float | None:
        return -math.expm1(-self.read_tb * TB * 8 / 10.0**self.exponent)
