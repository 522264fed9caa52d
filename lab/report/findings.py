"""What a study says beside theory and beside what was measured here, each as one ratio, and whether it holds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from lab.adapt.capacity import System, capacity
from lab.arrays.level_names import level_with_layout
from lab.errors import LabError
from lab.experiments.array_plans import ArrayPlan
from lab.experiments.published import Basis, Finding, Published, Quantity, Relation
from lab.experiments.schedule import HEALTHY
from lab.experiments.schema import Experiment
from lab.report.cells import NOTHING
from lab.report.series import Row, rows
from lab.report.table import Column, Table
from lab.results.record import ResultRecord
from lab.results.statistics import Ratio, ratio_of_medians
from lab.results.verdicts import DEFAULT_MARGIN, Outcome, judge
from lab.theory.model import DiskRates, workload_iops
from lab.tomlfile import decode_toml

_UNIT_DISK = DiskRates(1.0, 1.0, 1.0, 1.0)
"""Ratios do not need the disks' pace, only that the disks set it."""
_WANTED = {Relation.MORE: Outcome.FASTER, Relation.LESS: Outcome.SLOWER, Relation.SAME: Outcome.SAME}


class Holds(StrEnum):
    """What became of a finding."""

    YES = "holds"
    ORDER_ONLY = "the order holds"
    """Which is more holds; how much more is another figure than the published one."""
    NO = "does not hold"
    CANNOT_TELL = "cannot tell"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Compared:
    """One finding beside what theory gives and what was measured."""

    finding: Finding
    theory: float | None
    """The same ratio, predicted. None: theory has none for this quantity."""
    measured: Ratio | None
    holds: Holds
    reason: str = ""
    """Why it cannot be told."""
    points_there: bool = True
    """Whether the measured ratio, for what it is worth, lies where the study puts it."""


def compared_findings(record: ResultRecord, published: Published) -> tuple[Compared, ...]:
    """Every finding of the study, in its order."""
    by_place = {(row.array, row.workload, row.direction): row for row in rows(record) if row.phase == HEALTHY}
    theory = Theory(record)
    return tuple(_compared(finding, by_place, theory) for finding in published.findings)


def findings_table(record: ResultRecord, published: Published) -> Table | None:
    """Published, theory and measured side by side; None for a study without findings."""
    found = compared_findings(record, published)
    if not found:
        return None
    columns = (
        *(Column("what the study says", False), Column("ratio", False), Column("published"), Column("theory")),
        *(Column("measured"), Column("here", False)),
    )
    body = tuple(_row(each) for each in found)
    notes = dict.fromkeys(_notes(found))
    return Table("The study's findings, as ratios", columns, body, (*notes, *published.remarks))


def _row(each: Compared) -> tuple[str, ...]:
    finding = each.finding
    return (
        finding.says,
        f"{finding.array} ÷ {finding.beside}",
        published_text(finding),
        f"{each.theory:.2f}" if each.theory is not None else NOTHING,
        ratio_text(each.measured),
        _outcome_text(each),
    )


def _outcome_text(each: Compared) -> str:
    if each.holds is not Holds.CANNOT_TELL:
        return each.holds.value
    return f"{each.holds.value}; points {'there' if each.points_there else 'elsewhere'}"


def published_text(finding: Finding) -> str:
    """``0.53``, ``0.50 (calculated)``, or in words."""
    if finding.ratio is None:
        return finding.relation.value
    calculated = " (calculated)" if finding.basis is Basis.CALCULATED else ""
    return f"{finding.ratio:.2f}{calculated}"


def ratio_text(ratio: Ratio | None) -> str:
    """``0.53 [0.50–0.56]``."""
    if ratio is None:
        return NOTHING
    return f"{ratio.median:.2f}" if ratio.n == 1 else f"{ratio.median:.2f} [{ratio.low:.2f}–{ratio.high:.2f}]"


def _notes(found: tuple[Compared, ...]) -> Iterator[str]:
    yield f"ratios of medians [95 % interval]; within {DEFAULT_MARGIN:.0%} of 1 counts as the same"
    if any(each.theory is not None and each.finding.quantity is not Quantity.CAPACITY for each in found):
        yield "theory: members of one constant pace set the limit, nothing else does"
    for each in found:
        if each.holds is Holds.CANNOT_TELL:
            yield f"cannot tell: {each.reason}"
    for each in found:
        if is_another(each):
            yield f"{each.finding.says}: why it may be different here: {each.finding.difference}"


def is_another(each: Compared) -> bool:
    """Whether what was measured is not what the study says, so that its explanation is due."""
    return each.holds in (Holds.NO, Holds.ORDER_ONLY) or not each.points_there


def _compared(finding: Finding, by_place: dict[tuple[str, str, str], Row], theory: Theory) -> Compared:
    if finding.quantity is Quantity.CAPACITY:
        return _capacity(finding, theory)
    ours = by_place.get((finding.array, finding.workload, finding.direction))
    base = by_place.get((finding.beside, finding.workload, finding.direction))
    above, below = (_values(row, finding.quantity) if row else [] for row in (ours, base))
    if not above or not below or min(*above, *below) <= 0:
        return Compared(finding, theory.ratio(finding), None, Holds.NOT_MEASURED)
    measured = ratio_of_medians(above, below)
    verdict = judge(measured)
    if verdict.outcome is Outcome.CANNOT_TELL:
        points = _points(finding, measured)
        return Compared(finding, theory.ratio(finding), measured, Holds.CANNOT_TELL, verdict.reason, points)
    if verdict.outcome is not _WANTED[finding.relation]:
        holds = Holds.NO
    elif finding.ratio is not None and not _lies_near(measured, finding.ratio):
        holds = Holds.ORDER_ONLY
    else:
        holds = Holds.YES
    return Compared(finding, theory.ratio(finding), measured, holds)


def _capacity(finding: Finding, theory: Theory) -> Compared:
    """Sizes are exact: no repeat can tell more, and no margin is needed."""
    expected = theory.capacity_ratio(finding)
    ratio = theory.size_ratio(finding)
    if ratio is None:
        return Compared(finding, expected, None, Holds.NOT_MEASURED)
    measured = Ratio(ratio, ratio, ratio, n=1, coverage=1.0, p_value=0.0)
    is_so = {Relation.MORE: ratio > 1, Relation.LESS: ratio < 1, Relation.SAME: _lies_near(measured, 1.0)}
    if not is_so[finding.relation]:
        holds = Holds.NO
    elif finding.ratio is not None and not _lies_near(measured, finding.ratio):
        holds = Holds.ORDER_ONLY
    else:
        holds = Holds.YES
    return Compared(finding, expected, measured, holds)


def _lies_near(measured: Ratio, ratio: float) -> bool:
    """Within the interval, or within the margin of it."""
    return measured.low / (1 + DEFAULT_MARGIN) <= ratio <= measured.high * (1 + DEFAULT_MARGIN)


def _points(finding: Finding, measured: Ratio) -> bool:
    margin = math.log(1 + DEFAULT_MARGIN)
    distance = math.log(measured.median)
    return {
        Relation.MORE: distance > 0,
        Relation.LESS: distance < 0,
        Relation.SAME: abs(distance) <= margin,
    }[finding.relation]


def _values(row: Row, quantity: Quantity) -> list[float]:
    match quantity:
        case Quantity.IOPS:
            return row.values(lambda section: section.iops)
        case Quantity.BANDWIDTH:
            return row.values(lambda section: section.bandwidth_bytes_per_second)
        case Quantity.MEAN_LATENCY:
            return row.values(lambda section: section.mean_seconds)
        case Quantity.CAPACITY:
            return []
        case Quantity.CPU_PER_GIB:
            return [
                cell.cpu.cpu_seconds_per_gib
                for cell in row.cells
                if cell.cpu is not None and cell.cpu.cpu_seconds_per_gib is not None
            ]


class Theory:
    """Predicted ratios for the arrays and jobs of one result."""

    def __init__(self, record: ResultRecord) -> None:
        self._record = record
        try:
            self._experiment: Experiment | None = decode_toml(
                record.experiment_toml, Experiment, source=f"{record.id}/experiment"
            )
        except LabError:
            # Written by another raidlab, with keys that this one does not know: no theory then.
            self._experiment = None

    def ratio(self, finding: Finding) -> float | None:
        """None where theory has nothing to say."""
        if finding.quantity is Quantity.CPU_PER_GIB:
            return None
        above, below = (self._iops(name, finding.workload) for name in (finding.array, finding.beside))
        if not above or not below:
            return None
        # Little's law, with as many I/Os in flight on both.
        return below / above if finding.quantity is Quantity.MEAN_LATENCY else above / below

    def size_ratio(self, finding: Finding) -> float | None:
        """Of the devices that were built."""
        sizes = {array.name: array.size_bytes for array in self._record.arrays}
        ours, theirs = sizes.get(finding.array), sizes.get(finding.beside)
        return ours / theirs if ours and theirs else None

    def capacity_ratio(self, finding: Finding) -> float | None:
        """The same without metadata."""
        if self._experiment is None:
            return None
        try:
            ours, theirs = (self._capacity(self._experiment.array(name)) for name in (finding.array, finding.beside))
        except LabError:
            return None
        return ours / theirs

    def _capacity(self, plan: ArrayPlan) -> float:
        assert self._experiment is not None
        disks = plan.stand_ins(self._experiment.disks)
        if plan.level in tuple(System):
            return float(capacity(System(plan.level), [disk.size_bytes for disk in disks], reference=plan.reference))
        level = level_with_layout(plan.level, plan.layout)
        return float(level.capacity_bytes(len(disks), min(disk.size_bytes for disk in disks)))

    def _iops(self, array: str, job: str) -> float | None:
        stored = next(
            (
                cell.predicted_iops
                for cell in self._record.cells
                if (cell.array, cell.workload, cell.phase) == (array, job, HEALTHY)
            ),
            None,
        )
        return stored or self.relative_iops(array, job)

    def relative_iops(self, array: str, job: str) -> float | None:
        """In units of nothing: good for ratios between arrays, with disks of any one pace."""
        if self._experiment is None or self._experiment.disks.pools:
            # The unit disk stands for equal ones.
            return None
        try:
            plan = self._experiment.array(array)
            workload = next(each for each in self._experiment.workloads_on(array) if each.id == job)
            level = level_with_layout(plan.level, plan.layout)
            return workload_iops(level, (_UNIT_DISK,) * plan.members, workload).value
        except (LabError, StopIteration):
            return None
