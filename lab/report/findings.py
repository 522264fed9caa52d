"""The findings of a study beside theory and the measured figures, each as a ratio with a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from lab.arrays.levels import DEFAULT_CHUNK_BYTES, level_with_layout
from lab.compare.platforms import is_speed
from lab.errors import LabError, SpecError
from lab.experiments.published import Basis, Published, PublishedFinding, Quantity, Relation
from lab.experiments.schedule import HEALTHY
from lab.experiments.schema import ArrayPlan, Experiment
from lab.report.cells import Row, paired_note, ratio_text, rows
from lab.results.record import ResultRecord
from lab.results.statistics import (
    DEFAULT_MARGIN,
    SIGNIFICANCE,
    PValues,
    Ratio,
    RatioTest,
    Side,
    adjusted,
    difference_p_values,
    is_beyond,
    why_not,
)
from lab.tables import Column, Table, Value
from lab.theory.model import DiskRates, workload_iops
from lab.tomlfile import decode_toml

_UNIT_DISK = DiskRates(1.0, 1.0, 1.0, 1.0)
"""Rates of a disk in arbitrary units: ratios do not depend on the disks' speed if the disks are the limit."""

NO_CPU_TIME = "CPU cost is undefined in virtual time: the clock does not advance while the processor works"


class Holds(StrEnum):
    """The verdict on a finding."""

    YES = "holds"
    ORDER_ONLY = "the order holds"
    """The direction of the difference is confirmed; its size differs from the published one."""
    ORDER_AT_LEAST = "the order holds; closeness unknown"
    """The direction is confirmed; the ratio is shown neither to be near the published one nor to differ from it."""
    NO = "does not hold"
    CANNOT_TELL = "cannot tell"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class ComparedFinding:
    """A finding with its prediction, the measured ratio and the verdict."""

    finding: PublishedFinding
    theory: float | None
    """The predicted ratio, or None if theory does not cover the quantity."""
    measured: Ratio | None
    holds: Holds
    reason: str = ""
    """The reason for a verdict that is not definite."""
    points_there: bool = True
    """Whether the median of the measured ratio agrees with the finding, regardless of significance."""


def compared_findings(record: ResultRecord, published: Published) -> tuple[ComparedFinding, ...]:
    """All findings of the study, in its order."""
    by_place = {(row.array, row.workload, row.direction): row for row in rows(record) if row.phase == HEALTHY}
    theory = Theory(record)
    tests = [_test(finding, by_place) for finding in published.findings]
    judged = iter(_judged([(f, test) for f, test in zip(published.findings, tests, strict=True) if test]))
    made = []
    for finding, test in zip(published.findings, tests, strict=True):
        if finding.quantity is Quantity.CAPACITY:
            made.append(_capacity(finding, theory))
        elif test is None:
            is_cost = finding.quantity is Quantity.CPU_PER_GIB
            reason = NO_CPU_TIME if is_cost and not record.conditions.has_cpu_time else ""
            made.append(ComparedFinding(finding, theory.ratio(finding), None, Holds.NOT_MEASURED, reason))
        else:
            measured = test.ratio
            holds, reason = next(judged)
            points = holds is not Holds.CANNOT_TELL or _points(finding, measured)
            made.append(ComparedFinding(finding, theory.ratio(finding), measured, holds, reason, points))
    return tuple(made)


def findings_table(record: ResultRecord, published: Published) -> Table | None:
    """Published, predicted and measured ratios of the findings; None for a study without findings."""
    found = compared_findings(record, published)
    if not found:
        return None
    columns = (
        *(Column("what the study says", False), Column("ratio", False), Column("published")),
        *(Column("theory", form=".2f"), Column("measured"), Column("here", False)),
    )
    body = tuple(_row(each) for each in found)
    notes = dict.fromkeys(_notes(found))
    return Table("The study's findings, as ratios", columns, body, (*notes, *published.remarks))


def _row(each: ComparedFinding) -> tuple[Value, ...]:
    finding = each.finding
    return (
        finding.says,
        f"{finding.array} ÷ {finding.beside}",
        published_text(finding),
        each.theory,
        ratio_text(each.measured),
        _outcome_text(each),
    )


def _outcome_text(each: ComparedFinding) -> str:
    if each.holds is not Holds.CANNOT_TELL:
        return each.holds.value
    return f"{each.holds.value}; points {'there' if each.points_there else 'elsewhere'}"


def published_text(finding: PublishedFinding) -> str:
    """The published ratio: ``0.53``, ``0.50 (calculated)``, or a relation in words."""
    if finding.ratio is None:
        return finding.relation.value
    calculated = " (calculated)" if finding.basis is Basis.CALCULATED else ""
    return f"{finding.ratio:.2f}{calculated}"


def _notes(found: tuple[ComparedFinding, ...]) -> Iterator[str]:
    yield paired_note(each.measured for each in found if each.finding.quantity is not Quantity.CAPACITY)
    yield (
        f"within {DEFAULT_MARGIN:.0%} of 1 counts as the same, within {DEFAULT_MARGIN:.0%} of the published ratio as "
        "near it, each shown by an equivalence test; at most 5 % of these claims are expected to be wrong"
    )
    if any(each.theory is not None and each.finding.quantity is not Quantity.CAPACITY for each in found):
        yield "theory: members of one constant pace set the limit, nothing else does"
    for each in found:
        if each.reason:
            words = each.holds.value if each.holds in (Holds.CANNOT_TELL, Holds.NOT_MEASURED) else "how near"
            yield f"{words}: {each.reason}"
    for each in found:
        if is_another(each):
            yield f"{each.finding.says}: why it may be different here: {each.finding.difference}"


def is_another(each: ComparedFinding) -> bool:
    """Whether the measurement contradicts the study, so that a possible explanation is shown."""
    return each.holds in (Holds.NO, Holds.ORDER_ONLY) or not each.points_there


def _test(finding: PublishedFinding, by_place: dict[tuple[str, str, str], Row]) -> RatioTest | None:
    """The test of a finding, or None if a row is missing or the rows have no repeat in common."""
    ours = by_place.get((finding.array, finding.workload, finding.direction))
    base = by_place.get((finding.beside, finding.workload, finding.direction))
    if ours is None or base is None:
        return None
    # A repeat without I/O has no speed; the notes below the table list it.
    above, below = (
        {number: value for number, value in _values(row, finding.quantity).items() if is_speed(value)}
        for row in (ours, base)
    )
    try:
        return RatioTest.paired(above, below)
    except SpecError:
        return None


def _judged(asked: list[tuple[PublishedFinding, RatioTest]]) -> Iterator[tuple[Holds, str]]:
    """The verdicts. All findings of a study, and their closeness to the published ratios, are one family of tests."""
    near = [(finding.ratio, test) for finding, test in asked if finding.ratio is not None]
    orders = [_order_p_values(finding.relation, test) for finding, test in asked]
    family = [*orders, *(difference_p_values(test, at=ratio) for ratio, test in near)]
    sure = adjusted(family)
    sure_near = iter(sure[len(asked) :])
    for (finding, test), alone, surely in zip(asked, orders, sure, strict=False):
        how_near = next(sure_near) if finding.ratio is not None else None
        measured = test.ratio
        holds, reason = _order(finding.relation, measured, surely)
        if holds is Holds.CANNOT_TELL:
            yield holds, reason or why_not(test, min(alone.claim, alone.opposite), len(family))
        elif holds is Holds.NO or finding.ratio is None or how_near is None or how_near.opposite <= SIGNIFICANCE:
            yield holds, ""
        elif how_near.claim <= SIGNIFICANCE and is_beyond(measured, DEFAULT_MARGIN, at=finding.ratio):
            yield Holds.ORDER_ONLY, ""
        else:
            yield Holds.ORDER_AT_LEAST, "the repeats show neither that the published ratio is near nor that it is not"


def _order_p_values(relation: Relation, test: RatioTest) -> PValues:
    """The p-values of the finding (claim) and of its opposite; one-sided, as the direction was stated beforehand."""
    margin = 1 + DEFAULT_MARGIN
    match relation:
        case Relation.MORE:
            return PValues(test.p_value(Side.GREATER), test.p_value(Side.LESS, at=margin))
        case Relation.LESS:
            return PValues(test.p_value(Side.LESS), test.p_value(Side.GREATER, at=1 / margin))
        case Relation.SAME:
            found = difference_p_values(test)
            return PValues(found.opposite, found.claim)


def _order(relation: Relation, measured: Ratio, sure: PValues) -> tuple[Holds, str]:
    is_far = is_beyond(measured, DEFAULT_MARGIN)
    if sure.opposite <= SIGNIFICANCE and (is_far or relation is not Relation.SAME):
        return Holds.NO, ""
    if sure.claim <= SIGNIFICANCE and (is_far or relation is Relation.SAME):
        return Holds.YES, ""
    if min(sure.claim, sure.opposite) <= SIGNIFICANCE:
        return Holds.CANNOT_TELL, f"there is a difference, perhaps less than the margin of {DEFAULT_MARGIN:.0%}"
    return Holds.CANNOT_TELL, ""


def _capacity(finding: PublishedFinding, theory: Theory) -> ComparedFinding:
    """The verdict on a ratio of capacities, which is exact and needs no statistics."""
    expected = theory.capacity_ratio(finding)
    ratio = theory.size_ratio(finding)
    if ratio is None:
        return ComparedFinding(finding, expected, None, Holds.NOT_MEASURED)
    measured = Ratio(ratio, ratio, ratio, n=1, coverage=1.0, p_value=0.0)
    is_so = {Relation.MORE: ratio > 1, Relation.LESS: ratio < 1, Relation.SAME: _lies_near(measured, 1.0)}
    if not is_so[finding.relation]:
        holds = Holds.NO
    elif finding.ratio is not None and not _lies_near(measured, finding.ratio):
        holds = Holds.ORDER_ONLY
    else:
        holds = Holds.YES
    return ComparedFinding(finding, expected, measured, holds)


def _lies_near(measured: Ratio, ratio: float) -> bool:
    """Whether a ratio of capacities lies within the margin of ``ratio``."""
    return not is_beyond(measured, DEFAULT_MARGIN, at=ratio)


def _points(finding: PublishedFinding, measured: Ratio) -> bool:
    margin = math.log(1 + DEFAULT_MARGIN)
    distance = math.log(measured.median)
    return {
        Relation.MORE: distance > 0,
        Relation.LESS: distance < 0,
        Relation.SAME: abs(distance) <= margin,
    }[finding.relation]


def _values(row: Row, quantity: Quantity) -> dict[int, float]:
    """Number of the repeat -> value of the quantity."""
    match quantity:
        case Quantity.IOPS:
            return row.by_repeat(lambda section: section.iops)
        case Quantity.BANDWIDTH:
            return row.by_repeat(lambda section: section.bandwidth_bytes_per_second)
        case Quantity.MEAN_LATENCY:
            return row.by_repeat(lambda section: section.mean_seconds)
        case Quantity.CAPACITY:
            return {}
        case Quantity.CPU_PER_GIB:
            costs = {cell.repeat: cell.cpu.cpu_seconds_per_gib for cell in row.cells if cell.cpu is not None}
            # CPU time is counted in ticks of 10 ms, less that of the idle machine, so a short job may show none.
            return {repeat: cost for repeat, cost in costs.items() if cost is not None and cost > 0}


class Theory:
    """Predicted ratios for the arrays and jobs of one result."""

    def __init__(self, record: ResultRecord) -> None:
        self._record = record
        try:
            self._experiment: Experiment | None = decode_toml(
                record.experiment_toml, Experiment, source=f"{record.id}/experiment"
            )
        except LabError:
            # A different version of raidlab wrote the experiment, with unknown keys; there are no predictions.
            self._experiment = None

    def ratio(self, finding: PublishedFinding) -> float | None:
        """The predicted ratio of a finding, or None if theory does not cover it."""
        if finding.quantity is Quantity.CPU_PER_GIB:
            return None
        above, below = (self._iops(name, finding.workload) for name in (finding.array, finding.beside))
        if not above or not below:
            return None
        # Little's law, with the same number of I/Os in flight on both arrays.
        return below / above if finding.quantity is Quantity.MEAN_LATENCY else above / below

    def size_ratio(self, finding: PublishedFinding) -> float | None:
        """The ratio of the sizes of the arrays that were created, or None."""
        sizes = {array.name: array.size_bytes for array in self._record.arrays}
        ours, theirs = sizes.get(finding.array), sizes.get(finding.beside)
        return ours / theirs if ours and theirs else None

    def capacity_ratio(self, finding: PublishedFinding) -> float | None:
        """The ratio of the arrays' capacities without metadata, or None."""
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
        return plan.spec(disks).ideal_bytes(disks)

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
        """Predicted IOPS in arbitrary units, for ratios between arrays of equal disks; None without a prediction."""
        if self._experiment is None or self._experiment.disks.pools:
            # ``_UNIT_DISK`` stands for disks that are all equal.
            return None
        try:
            plan = self._experiment.array(array)
            workload = next(each for each in self._experiment.workloads_on(array) if each.id == job)
            level = level_with_layout(plan.level, plan.layout)
            disks = (_UNIT_DISK,) * plan.members
            return workload_iops(level, disks, workload, chunk_bytes=plan.chunk_bytes or DEFAULT_CHUNK_BYTES).value
        except (LabError, StopIteration):
            return None
