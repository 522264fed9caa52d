"""The tables of a result, which are those of its study or, if it does not belong to one, the general tables.

General tables show figures, rebuilds, time spent, and comparisons of machines. The findings of a study are shown as
ratios beside theory and the published figures, each with a verdict. The antioquia study has its own tables for array
details (its Fig. 4), performance (its Fig. 5), and ratios between levels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain

import msgspec

from lab.arrays.levels import DEFAULT_CHUNK_BYTES, level_with_layout
from lab.compare import Agreement, Conclusion, PlatformComparison, Transfer, is_speed
from lab.errors import LabError, SpecError
from lab.experiments.published import (
    Basis,
    Published,
    PublishedArray,
    PublishedFinding,
    Quantity,
    Relation,
    find_published,
)
from lab.experiments.schema import ArrayPlan, Experiment
from lab.gates.decoding import convert, parse_toml
from lab.lint.experiment_checks import (
    IDLE,
    BesideTheory,
    beside_theory,
    processor_bound,
    rebuilds_beside_theory,
    shown_stamps,
)
from lab.machine.target import target_words
from lab.report.extension import study_report
from lab.results.record import HEALTHY, ArrayRecord, RebuildRecord, ResultRecord, RunStatus
from lab.results.rows import READ, WRITE, Row, grouped, rows
from lab.results.statistics import (
    DEFAULT_MARGIN,
    SIGNIFICANCE,
    Estimate,
    PValues,
    Ratio,
    RatioOutcome,
    RatioTest,
    Side,
    adjusted,
    difference_p_values,
    estimate,
    is_beyond,
    outliers,
    why_not,
)
from lab.tables import NOTHING, Column, Table, Value, as_csv, as_line
from lab.theory.model import DiskRates, predict_load
from lab.tomlfile import decode_toml
from lab.units import counted, human_bytes, human_rate, human_seconds
from lab.workloads.workload import Direction, Workload


def row_for(all_rows: Iterable[Row], array: str, direction: str) -> Row | None:
    """Return the first row of the healthy array in this direction, or None."""
    key = (array, direction, HEALTHY)
    return next((row for row in all_rows if (row.array, row.direction, row.phase) == key), None)


_WAYS = {Direction.READ: "reads", Direction.WRITE: "writes"}
_LARGE_BLOCK_BYTES = 128 * 1024
"""If the mean size of an I/O is at least this, throughput is shown instead of IOPS."""


@dataclass(frozen=True, slots=True)
class ResultLabels:
    """The titles of a result's arrays and workloads."""

    title: str
    question: str = ""
    arrays: Mapping[str, str] = field(default_factory=dict)
    workloads: Mapping[str, Workload] = field(default_factory=dict)

    def array(self, name: str) -> str:
        return self.arrays.get(name) or name

    def workload(self, name: str) -> str:
        """Return the title of a workload, such as ``Random reads, 4 KiB, queue depth 4 × 4 jobs``."""
        found = self.workloads.get(name)
        if found is None or found.recipe or found.trace:
            return found.title if found else name
        # The title in the catalogue may be wrong here, because an experiment can change the block size.
        what = _WAYS.get(found.direction)
        title = f"{found.pattern.capitalize()} {what}, {human_bytes(found.block_bytes)}" if what else found.title
        jobs = f" × {found.jobs} jobs" if found.jobs > 1 else ""
        return f"{title}, queue depth {found.queue_depth}{jobs}"

    def in_flight(self, name: str) -> int | None:
        """Return the number of I/Os that the workload keeps in flight, or None if it is unknown."""
        found = self.workloads.get(name)
        return found.depth_total if found and not found.recipe and not found.trace else None


def _experiment_of(record: ResultRecord) -> Experiment | None:
    """Return the experiment, or None if it has keys that this version of raidlab does not know."""
    try:
        return decode_toml(record.experiment_toml, Experiment, source=f"{record.id}/experiment")
    except LabError:
        return None


def labels_of(record: ResultRecord) -> ResultLabels:
    """Return the labels from the experiment file in the record, or just ids if this version cannot read the file."""
    experiment = _experiment_of(record)
    if experiment is None:
        return ResultLabels(record.experiment)
    try:
        jobs = [job.build() for job in experiment.jobs]
        if experiment.rebuild and experiment.rebuild.under:
            jobs.append(experiment.rebuild.under.build())
    except LabError:
        return ResultLabels(record.experiment)
    return ResultLabels(
        experiment.title,
        experiment.question,
        {plan.id: plan.label for plan in experiment.arrays},
        {job.id: job for job in jobs},
    )


def is_large(row: Row) -> bool:
    """Whether the mean size of the row's I/Os is so large that throughput is shown instead of IOPS."""
    section = row.section(row.cells[0])
    return section.total_ios > 0 and section.io_bytes / section.total_ios >= _LARGE_BLOCK_BYTES


TOO_FEW = "too few repeats"
_TOO_FEW_NOTE = f"{TOO_FEW}: this many repeats give no interval that covers 95 %; six do"
OFF_THEORY = "off-theory"


def interval_text(found: Estimate | None, *, digits: int = 0) -> str:
    """Return the median and its interval, such as ``5.93k [5.1k–6.2k]``."""
    if found is None:
        return NOTHING
    low, middle, high = (_rate(value, digits) for value in (found.low, found.median, found.high))
    return middle if found.n == 1 else f"{middle} [{low}–{high}]"


def _seconds_text(found: Estimate | None) -> str:
    return human_seconds(found.median) if found else NOTHING


def _rate(value: float, digits: int) -> str:
    return human_rate(value) if value >= 1000 else f"{value:.{digits}f}"


def figures_table(record: ResultRecord) -> Table:
    """Tabulate the IOPS, throughput, latency and CPU cost of all rows, with the predictions of theory."""
    all_rows = rows(record)
    theory = {(each.array, each.workload, each.phase): each for each in beside_theory(record)}
    columns = {
        Column("array", False): [row.array for row in all_rows],
        Column("workload", False): [row.workload for row in all_rows],
        Column("phase", False): [row.phase for row in all_rows],
        Column("direction", False): [row.direction for row in all_rows],
        Column("IOPS"): [interval_text(row.iops) for row in all_rows],
    }
    if theory:
        predicted = [row.predicted_iops for row in all_rows]
        beside = [theory.get((row.array, row.workload, row.phase)) for row in all_rows]
        columns[Column("theory")] = [human_rate(iops) if iops else NOTHING for iops in predicted]
        columns[Column("÷ theory", False)] = [_theory_text(each) for each in beside]
    columns |= {
        Column("MB/s"): [f"{row.bytes_per_second.median / 1e6:.1f}" for row in all_rows],
        Column("p50"): [_seconds_text(row.latency_seconds("p50_seconds")) for row in all_rows],
        Column("p99"): [_seconds_text(row.latency_seconds("p99_seconds")) for row in all_rows],
    }
    costs = [row.cpu_microseconds_per_io for row in all_rows]
    if any(costs):
        columns[Column("CPU µs/IO")] = [f"{cost.median:.1f}" if cost else NOTHING for cost in costs]
    columns[Column("n")] = [str(len(row.cells)) for row in all_rows]
    notes = (interval_note(all_rows), *_notes_of(tuple(theory.values())), *_outlier_notes(all_rows))
    return Table(f"Figures of {record.experiment}", tuple(columns), tuple(zip(*columns.values(), strict=True)), notes)


def theory_notes(record: ResultRecord) -> tuple[str, ...]:
    """Return a note for each figure that deviates from theory, with the possible reason."""
    return _notes_of((*beside_theory(record), *rebuilds_beside_theory(record)))


def _notes_of(found: Sequence[BesideTheory]) -> tuple[str, ...]:
    notes = [f"{OFF_THEORY}: {each.name}: {each.words}" for each in found if each.is_off]
    if any(each.share.n == 1 for each in found):
        notes.append("one run is too few to say whether a figure differs from theory")
    return tuple(notes)


def _outlier_notes(all_rows: tuple[Row, ...]) -> Iterator[str]:
    """Yield a note for each outlier among the repeats. Outliers are not left out of the figures."""
    for row in all_rows:
        values = row.values(lambda section: section.iops)
        for place in outliers(values):
            what = f"{row.array}/{row.workload} {row.direction}, repeat {row.cells[place].repeat + 1}"
            yield f"outlier, kept: {what}: {_rate(values[place], 0)} IOPS"


def _theory_text(found: BesideTheory | None) -> str:
    if found is None:
        return NOTHING
    return f"{found.share.median:.2f} {OFF_THEORY}" if found.is_off else f"{found.share.median:.2f}"


def interval_note(all_rows: Iterable[Row]) -> str:
    """Return the note on the coverage of the intervals."""
    coverages = [row.iops.coverage for row in all_rows if len(row.cells) > 1]
    if not coverages:
        return "one repeat: no interval can be given"
    return f"median [interval of order statistics; it covers the true median with at least {min(coverages):.1%}]"


def rebuild_table(record: ResultRecord) -> Table | None:
    """Tabulate rebuild times with their predictions and the data checks. Return None if there was no rebuild."""
    if not record.rebuilds:
        return None
    groups = grouped(record.rebuilds, lambda rebuild: (rebuild.array, rebuild.under_workload))
    beside = rebuilds_beside_theory(record)
    off = {(each.array, each.phase) for each in beside if each.is_off}
    columns = (Column("array", False), Column("load", False), Column("rebuild", unit="s"))
    body = tuple(
        _rebuild_row(array, under, group, is_off=(array, under or IDLE) in off)
        for (array, under), group in groups.items()
    )
    notes = dict.fromkeys(rebuild.prediction_reason for rebuild in record.rebuilds if rebuild.prediction_reason)
    return Table(
        "Rebuilds",
        (*columns, Column("predicted", unit="s"), Column("", unit="MB/s"), Column("data", False), Column("n")),
        body,
        (*(f"predicted: {note}" for note in notes), *_notes_of(beside)),
    )


def _rebuild_row(array: str, under: str, group: list[RebuildRecord], *, is_off: bool) -> tuple[Value, ...]:
    seconds = estimate([rebuild.rebuild_seconds for rebuild in group])
    predicted = [rebuild.predicted_seconds for rebuild in group if rebuild.predicted_seconds is not None]
    # In an imported record, a rebuild may have taken no time.
    timed = [rebuild for rebuild in group if is_speed(rebuild.rebuild_seconds)]
    rate = estimate([rebuild.rebuilt_bytes / rebuild.rebuild_seconds / 1e6 for rebuild in timed]) if timed else None
    return (
        array,
        under or "none",
        interval_text(seconds, digits=1),
        f"{estimate(predicted).median:.1f}{f' {OFF_THEORY}' if is_off else ''}" if predicted else None,
        f"{rate.median:.{1 if rate.median < 10 else 0}f}" if rate else None,
        integrity_text(group),
        len(group),
    )


def integrity_text(group: list[RebuildRecord]) -> str:
    """Return the outcome of the data checks, such as ``intact (3 of 3)``."""
    checked = [rebuild for rebuild in group if rebuild.data_unchanged is not None]
    intact = [rebuild for rebuild in checked if rebuild.data_unchanged]
    if not checked:
        return "not checked"
    word = "intact" if len(intact) == len(checked) else "DAMAGED"
    return f"{word} ({len(intact)} of {len(checked)})"


def timings_table(record: ResultRecord) -> Table:
    """Tabulate how much wall-clock time each activity took."""
    timings, names = record.timings, {"resync": "resync and rebuild", "other": "everything else"}
    parts = [
        (word, names.get(word, word), getattr(timings, f"{word}_seconds"))
        for word in ("fio", "mkfs", "mdadm", "resync", "other", "total")
    ]
    if not timings.simulated_seconds:
        columns = (Column("on", False), Column("", unit="seconds", form=".1f"))
        return Table("Time spent", columns, tuple((name, seconds) for _, name, seconds in parts))
    both = tuple((name, timings.simulated_seconds.get(word, 0.0), seconds) for word, name, seconds in parts)
    clocks = (Column(whose, unit="s", form=".1f") for whose in ("simulated", "this computer's"))
    return Table("Time spent", (Column("on", False), *clocks), both)


def ratio_text(found: Estimate | None) -> str:
    """Return the estimate and its interval, such as ``0.53 [0.50–0.56]``, or a dash."""
    return found.text() if found else NOTHING


def paired_note(found: Iterable[Estimate | None]) -> str:
    """Return the note that explains ratios from paired repeats and their intervals."""
    coverages = [each.coverage for each in found if each is not None and each.n > 1]
    what = "ratio: Hodges-Lehmann estimate over the paired repeats"
    if not coverages:
        return f"{what}; one repeat gives no interval"
    return (
        f"{what} [interval of the exact signed-rank test: covers the true ratio with at least {min(coverages):.1%}, "
        "if the logarithms of the pairs' ratios lie symmetrically about it]"
    )


RATIO_NOTE = (
    "ratios to one disk: Hodges-Lehmann estimate over paired repeats [interval of the exact signed-rank test, which "
    "assumes that their logarithms lie symmetrically about the true one]; for rebuilds, which are not paired: interval "
    "of the Mann-Whitney test"
)


def platform_tables(experiment: str, found: PlatformComparison, names: Sequence[str] | None = None) -> Iterator[Table]:
    """Yield those tables of a comparison that have rows. ``names`` are short names of the platforms, in their order."""
    whole = [platform.name for platform in found.platforms]
    names = whole if names is None else names
    if found.rows:
        columns = (Column("figure without unit", False), Column("of", False), *map(Column, names))
        body = tuple((row.measure.value, row.what, *map(_covered_text, row.values)) for row in found.rows)
        has_all = all(each.has_enough for row in found.rows for each in row.values if each)
        ratio_notes = (RATIO_NOTE,) if has_all else (RATIO_NOTE, _TOO_FEW_NOTE)
        yield Table(f"{experiment} on {len(names)} machines", columns, body, ratio_notes)
    if found.agreements:
        columns = (Column(f"same order as on {names[0]}", False), Column("of", False), Column("arrays"))
        columns += (Column("Kendall's tau", form=".2f"), Column("pairs known"), Column("reversed"))
        short = dict(zip(whole, names, strict=True))
        agreements = tuple(_agreement_row(each, short) for each in found.agreements)
        note = "tau is computed from the medians and has no interval; pairs known are those with a verdict on both"
        yield Table("Order of the arrays", columns, agreements, (note,))
    if found.conclusions:
        columns = (Column(f"conclusion on {names[0]}", False), Column("of", False))
        counts = tuple(f"on {name}: {transfer_counts(found, place)}" for place, name in enumerate(names[1:]))
        body, notes = _conclusion_rows(found)
        yield Table(
            "What carries over", (*columns, *(Column(name, False) for name in names[1:])), body, (*counts, *notes)
        )


def _covered_text(found: Estimate | None) -> str:
    """Return text such as ``0.53 [0.50–0.56]``, or ``0.53 (2 repeats)`` if there are too few for a useful interval."""
    if found is None or found.has_enough:
        return ratio_text(found)
    return f"{found.median:.2f} ({counted(found.n, 'repeat')})"


def _conclusion_rows(found: PlatformComparison) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """Return a row for each conclusion that another platform can check, a row for the rest, and notes with reasons."""
    undecided = [each for each in found.conclusions if set(each.transfers) == {Transfer.CANNOT_TELL}]
    rows = [(_claim(each), each.what, *_transfers(each)) for each in found.conclusions if each not in undecided]
    if undecided:
        pairs = f"{counted(len(undecided), 'pair')} of arrays"
        settings = len(dict.fromkeys(each.what for each in undecided))
        what = undecided[0].what if settings == 1 else f"{settings} loads"
        rows.append((pairs, what, *[str(Transfer.CANNOT_TELL)] * (len(found.platforms) - 1)))
    reasons: dict[str, int] = {}
    for each in found.conclusions:
        for reason in dict.fromkeys(
            verdict.reason or "not on the first"
            for transfer, verdict in zip(each.transfers, each.verdicts[1:], strict=True)
            if transfer is Transfer.CANNOT_TELL
        ):
            reasons[reason] = reasons.get(reason, 0) + 1
    notes = (f"{Transfer.CANNOT_TELL} ({count}): {reason}" for reason, count in reasons.items())
    return tuple(rows), tuple(notes)


def _agreement_row(each: Agreement, short: Mapping[str, str]) -> tuple[Value, ...]:
    tau = None if math.isnan(each.tau) else each.tau
    return (short[each.platform], each.what, each.arrays, tau, f"{each.told} of {each.pairs}", each.turned)


def transfer_counts(found: PlatformComparison, place: int) -> str:
    """Count the conclusions by outcome on one platform, as in ``carries over 3, flips 1``.

    The second platform has ``place`` 0.
    """
    transfers = [each.transfers[place] for each in found.conclusions]
    return ", ".join(f"{each.value} {transfers.count(each)}" for each in Transfer if each in transfers)


def _claim(conclusion: Conclusion) -> str:
    """Return the conclusion that the first platform gives, such as ``raid0 is faster than raid5``."""
    outcome = conclusion.verdicts[0].outcome
    if outcome is RatioOutcome.CANNOT_TELL:
        return f"{conclusion.faster} or {conclusion.slower}: {outcome}"
    return f"{conclusion.faster} is {outcome} {'as' if outcome is RatioOutcome.SAME else 'than'} {conclusion.slower}"


def _transfers(conclusion: Conclusion) -> tuple[str, ...]:
    pairs = zip(conclusion.transfers, conclusion.verdicts[1:], strict=True)
    return tuple(
        str(transfer) if transfer is Transfer.CANNOT_TELL else f"{transfer}: {verdict.outcome}"
        for transfer, verdict in pairs
    )


_UNIT_DISK = DiskRates(1.0, 1.0, 1.0, 1.0)
"""Rates of a disk in arbitrary units. If the disks are the limit, ratios do not depend on their speed."""

NO_CPU_TIME = "CPU cost is undefined in virtual time, because the clock does not advance while the processor works"


class Holds(StrEnum):
    """The verdict on a finding."""

    YES = "holds"
    ORDER_ONLY = "the order holds"
    """The direction of the difference is confirmed, but its size is not the published one."""
    ORDER_AT_LEAST = "the order holds; closeness unknown"
    """The direction is confirmed. Whether the ratio is near the published one is undecided."""
    NO = "does not hold"
    CANNOT_TELL = "cannot tell"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class ComparedFinding:
    """A finding with its prediction, the measured ratio and the verdict."""

    finding: PublishedFinding
    theory: float | None
    """The predicted ratio, or None if theory does not cover the quantity that the finding compares."""
    measured: Ratio | None
    holds: Holds
    reason: str = ""
    points_there: bool = True
    """Whether the median of the measured ratio agrees with the finding, regardless of significance."""


def compared_findings(record: ResultRecord, published: Published) -> tuple[ComparedFinding, ...]:
    """Compare all findings of the study, in its order."""
    by_place = {(row.array, row.workload, row.direction): row for row in rows(record) if row.phase == HEALTHY}

    def paired(finding: PublishedFinding) -> RatioTest | None:
        names = (finding.array, finding.beside)
        ours, base = (by_place.get((name, finding.workload, finding.direction)) for name in names)
        return _paired(ours, base, finding.quantity)

    theory = Theory(record)
    tests = [paired(finding) for finding in published.findings]
    judged = _judged([(f, test) for f, test in zip(published.findings, tests, strict=True) if test])
    made = []
    for finding, test in zip(published.findings, tests, strict=True):
        if finding.quantity is Quantity.CAPACITY:
            made.append(_capacity(finding, theory))
        elif test is None:
            is_cost = finding.quantity is Quantity.CPU_PER_GIB
            reason = NO_CPU_TIME if is_cost and not record.conditions.has_cpu_time else ""
            made.append(ComparedFinding(finding, theory.ratio(finding), None, Holds.NOT_MEASURED, reason))
        else:
            measured, holds, reason = next(judged)
            points = holds is not Holds.CANNOT_TELL or _points(finding, measured)
            made.append(ComparedFinding(finding, theory.ratio(finding), measured, holds, reason, points))
    return tuple(made)


def findings_table(record: ResultRecord, published: Published) -> Table | None:
    """Tabulate published, predicted and measured ratios. Return None if the study has no findings."""
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
    return f"{each.holds.value}; the median {'agrees' if each.points_there else 'disagrees'}"


def published_text(finding: PublishedFinding) -> str:
    """Return the published ratio, such as ``0.53`` or ``0.50 (calculated)``, or a relation in words."""
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
        yield "theory assumes that only the members limit the rate, all at the same constant speed"
    for each in found:
        if each.reason:
            words = each.holds.value if each.holds in (Holds.CANNOT_TELL, Holds.NOT_MEASURED) else "closeness"
            yield f"{words}: {each.reason}"
    for each in found:
        if is_another(each):
            yield f"possible reason for the difference in '{each.finding.says}': {each.finding.difference}"


def is_another(each: ComparedFinding) -> bool:
    """Whether the measurement contradicts the study. If it does, a possible explanation is shown."""
    return each.holds in (Holds.NO, Holds.ORDER_ONLY) or not each.points_there


def _paired(ours: Row | None, base: Row | None, quantity: Quantity = Quantity.IOPS) -> RatioTest | None:
    """Return the test of a ratio, or None if a row is missing or the rows have no repeat in common."""
    if ours is None or base is None:
        return None
    # A repeat without I/O has no speed, so it gives no ratio.
    above, below = (
        {number: value for number, value in _values(row, quantity).items() if is_speed(value)} for row in (ours, base)
    )
    try:
        return RatioTest.paired(above, below)
    except SpecError:
        return None


def _judged(asked: list[tuple[PublishedFinding, RatioTest]]) -> Iterator[tuple[Ratio, Holds, str]]:
    """Yield ratios and verdicts. All findings, and their closeness to published ratios, form one family of tests."""
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
            yield measured, holds, reason or why_not(test, min(alone.claim, alone.opposite), len(family))
        elif holds is Holds.NO or finding.ratio is None or how_near is None or how_near.opposite <= SIGNIFICANCE:
            yield measured, holds, ""
        elif how_near.claim <= SIGNIFICANCE and is_beyond(measured, DEFAULT_MARGIN, at=finding.ratio):
            yield measured, Holds.ORDER_ONLY, ""
        else:
            reason = "the repeats do not show whether the ratio is near the published one"
            yield measured, Holds.ORDER_AT_LEAST, reason


def _order_p_values(relation: Relation, test: RatioTest) -> PValues:
    """Return the one-sided p-values of the finding (the claim) and its opposite. The finding states the direction."""
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
    """Judge a ratio of capacities, which is exact and needs no statistics."""
    expected = theory.capacity_ratio(finding)
    ratio = theory.size_ratio(finding)
    if ratio is None:
        return ComparedFinding(finding, expected, None, Holds.NOT_MEASURED)
    measured = Ratio(ratio, ratio, ratio, n=1, coverage=1.0, p_value=0.0)
    if not _points(finding, measured):
        holds = Holds.NO
    elif finding.ratio is not None and is_beyond(measured, DEFAULT_MARGIN, at=finding.ratio):
        holds = Holds.ORDER_ONLY
    else:
        holds = Holds.YES
    return ComparedFinding(finding, expected, measured, holds)


def _points(finding: PublishedFinding, measured: Ratio) -> bool:
    match finding.relation:
        case Relation.MORE:
            return measured.median > 1
        case Relation.LESS:
            return measured.median < 1
        case Relation.SAME:
            return not is_beyond(measured, DEFAULT_MARGIN)


def _values(row: Row, quantity: Quantity) -> dict[int, float]:
    """Map the number of each repeat to the value of the quantity."""
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
            # CPU time is counted in ticks of 10 ms, and the idle machine's is subtracted, so a short job may show none.
            return {repeat: cost for repeat, cost in row.cpu_by_repeat("cpu_seconds_per_gib").items() if cost > 0}


class Theory:
    """The predicted ratios between the arrays of one result."""

    def __init__(self, record: ResultRecord) -> None:
        self._record = record
        self._experiment = _experiment_of(record)

    def ratio(self, finding: PublishedFinding) -> float | None:
        """Return the predicted ratio of a finding, or None if theory does not cover it."""
        if finding.quantity is Quantity.CPU_PER_GIB:
            return None
        above, below = (self._iops(name, finding.workload) for name in (finding.array, finding.beside))
        if not above or not below:
            return None
        # This is Little's law, with the same number of I/Os in flight on both arrays.
        return below / above if finding.quantity is Quantity.MEAN_LATENCY else above / below

    def size_ratio(self, finding: PublishedFinding) -> float | None:
        """Return the ratio of the sizes of the arrays that were created, or None."""
        sizes = {array.name: array.size_bytes for array in self._record.arrays}
        ours, theirs = sizes.get(finding.array), sizes.get(finding.beside)
        return ours / theirs if ours and theirs else None

    def capacity_ratio(self, finding: PublishedFinding) -> float | None:
        """Return the ratio of the arrays' capacities without metadata, or None."""
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
        """Predict IOPS in arbitrary units, for ratios between arrays of equal disks.

        Return None if that is not possible.
        """
        if self._experiment is None or self._experiment.disks.pools:
            # ``_UNIT_DISK`` represents each of the disks, which are all equal.
            return None
        try:
            plan = self._experiment.array(array)
            workload = next(each for each in self._experiment.workloads_on(array) if each.id == job)
            level = level_with_layout(plan.level, plan.layout)
            disks = (_UNIT_DISK,) * plan.members
            return predict_load(level, disks, workload, chunk_bytes=plan.chunk_bytes or DEFAULT_CHUNK_BYTES).iops
        except (LabError, StopIteration):
            return None


CSV_HEAD = ("RAID Level", "Read IOPS", "Write IOPS", "Rebuild Time")
_DETAILS = (
    ("metadata", "metadata"),
    ("array_size_kib", "array size KiB"),
    ("used_device_size_kib", "used device KiB"),
    ("raid_devices", "RAID devices"),
    ("total_devices", "total devices"),
    ("chunk_kib", "chunk KiB"),
    ("layout", "layout"),
    ("consistency_policy", "consistency policy"),
)


def title_of(array_id: str) -> str:
    """Return the title of an array, such as ``RAID 5`` for ``raid5`` and ``RAID 0 (3 disks)`` for ``raid0-3``."""
    level, _, members = array_id.removeprefix("raid").partition("-")
    return f"RAID {level} ({members} disks)" if members else f"RAID {level}"


def details_table(record: ResultRecord, published: Published) -> Table:
    """Tabulate mdadm's output for each array beside the published values (Fig. 4)."""
    columns, texts = [Column("", False)], [[label for _, label in _DETAILS]]
    for array in record.arrays:
        columns.append(Column(title_of(array.name)))
        texts.append([array.details.get(key, NOTHING) for key, _ in _DETAILS])
        if theirs := published.array(array.name):
            columns.append(Column("published"))
            texts.append([_published_text(theirs, key) for key, _ in _DETAILS])
    body = tuple(zip(*texts, strict=True))
    return Table("Array details (the study's Fig. 4)", tuple(columns), body, (_agreement(record.arrays, published),))


def _published_text(theirs: PublishedArray, key: str) -> str:
    value = getattr(theirs, key)
    return str(value) if value not in (None, "") else "N/A"


def _agreement(arrays: tuple[ArrayRecord, ...], published: Published) -> str:
    differing = [
        f"{title_of(array.name)} {label}"
        for array in arrays
        for key, label in _DETAILS
        if (theirs := published.array(array.name)) and array.details.get(key, "") != _published_text(theirs, key)
    ]
    return f"differs from the published table: {', '.join(differing)}" if differing else "equal to the published table"


def performance_table(record: ResultRecord, published: Published) -> Table:
    """Tabulate Fig. 5 and the published IOPS, plus p99, CPU cost, rebuild time, data check, repeats and intervals."""
    all_rows, names = rows(record), [array.name for array in record.arrays]
    found = {way: [row_for(all_rows, name, way) for name in names] for way in (READ, WRITE)}
    columns: dict[Column, list[Value]] = {Column("level", False): [title_of(name) for name in names]}
    for way, each in found.items():
        columns[Column(way, unit="IOPS")] = [interval_text(row.iops if row else None) for row in each]
    for way, each in found.items():
        columns[Column(way, unit="MB/s", form=".1f")] = [
            row.bytes_per_second.median / 1e6 if row else None for row in each
        ]
    for way, each in found.items():
        columns[Column(f"{way} p99")] = [
            _seconds_text(row.latency_seconds("p99_seconds") if row else None) for row in each
        ]
    if any(row.cpu_microseconds_per_io for row in all_rows):
        for way, each in found.items():
            columns[Column("CPU", unit=f"µs/{way}", form=".0f")] = [_cpu(row) for row in each]
    rebuilds = [[rebuild for rebuild in record.rebuilds if rebuild.array == name] for name in names]
    printed = [published.figures_of(name) for name in names]
    columns |= {
        Column("rebuild", unit="s"): [interval_text(_rebuild_seconds(group), digits=1) for group in rebuilds],
        Column("data", False): [
            integrity_text(group) if group else "no redundancy" if name.startswith("raid0") else None
            for name, group in zip(names, rebuilds, strict=True)
        ],
        Column("n"): [len(row.cells) if row else 0 for row in found[READ]],
        Column("published read"): [human_rate(theirs.read_iops) if theirs else None for theirs in printed],
        Column("published write"): [human_rate(theirs.write_iops) if theirs else None for theirs in printed],
    }
    notes = (interval_note(all_rows), *_outlier_notes(all_rows), *published.remarks)
    title = "Performance (the study's Fig. 5, extended)"
    return Table(title, tuple(columns), tuple(zip(*columns.values(), strict=True)), notes)


def _cpu(row: Row | None) -> float | None:
    cost = row.cpu_microseconds_per_io if row else None
    return cost.median if cost else None


def _rebuild_seconds(rebuilds: list[RebuildRecord]) -> Estimate | None:
    return estimate([rebuild.rebuild_seconds for rebuild in rebuilds]) if rebuilds else None


def ratio_table(record: ResultRecord, published: Published) -> Table:
    """Tabulate the ratios between levels, with intervals.

    Unlike absolute figures, they can be compared between systems. The table contains the study's own pairs, and fair
    pairs, which have equal numbers of members or of data disks.
    """
    all_rows = rows(record)
    names = [array.name for array in record.arrays]
    columns = (
        *(Column("ratio", False), Column("members", False), Column("reads"), Column("writes")),
        *(Column("published reads", form=".2f"), Column("published writes", form=".2f")),
    )
    body = []
    found: list[Ratio | None] = []
    left_out = set()
    for name, base in _pairs(names, published.baseline):
        compared = [(row_for(all_rows, name, way), row_for(all_rows, base, way)) for way in (READ, WRITE)]
        for row in filter(None, chain(*compared)):
            left_out |= {cell.key for cell in row.cells if not is_speed(row.section(cell).iops)}
        tests = [_paired(*each) for each in compared]
        ratios = [test.ratio if test else None for test in tests]
        found += ratios
        ours, theirs = published.figures_of(name), published.figures_of(base)
        printed: tuple[Value, Value] = (None, None)
        if ours and theirs:
            printed = (ours.read_iops / theirs.read_iops, ours.write_iops / theirs.write_iops)
        cells = map(ratio_text, ratios)
        body.append((f"{title_of(name)} ÷ {title_of(base)}", _members(record, name, base), *cells, *printed))
    notes = [paired_note(found), "a ratio whose interval spans 1 does not tell which of the two is faster"]
    if left_out:
        notes.append(f"left out: {counted(len(left_out), 'repeat')} (a ratio needs speeds above 0)")
    return Table("Ratios between levels", columns, tuple(body), tuple(notes))


def _pairs(names: list[str], baseline: str) -> list[tuple[str, str]]:
    # The baseline may be missing from an incomplete result.
    pairs = [(name, baseline) for name in names if name != baseline and baseline in names]
    if "raid0-3" in names and "raid5" in names:
        pairs.append(("raid5", "raid0-3"))
    return pairs


def _members(record: ResultRecord, name: str, base: str) -> str:
    counts = {array.name: len(array.members) for array in record.arrays}
    equal = "equal" if counts[name] == counts[base] else "unequal"
    return f"{counts[name]} against {counts[base]}: {equal}"


def csv_text(record: ResultRecord) -> str:
    """Return the study's CSV, with median IOPS and rebuild seconds.

    The latter are empty for arrays without redundancy.
    """
    all_rows = rows(record)
    body: list[list[object]] = []
    for array in record.arrays:
        reads, writes = row_for(all_rows, array.name, READ), row_for(all_rows, array.name, WRITE)
        seconds = _rebuild_seconds([rebuild for rebuild in record.rebuilds if rebuild.array == array.name])
        body.append(
            [
                title_of(array.name),
                round(reads.iops.median) if reads else "",
                round(writes.iops.median) if writes else "",
                f"{seconds.median:.2f}" if seconds else "",
            ]
        )
    return as_csv(CSV_HEAD, body)


_PROCESSOR_BOUND = (
    "The disks answer as fast as the kernel sends requests, so levels look more alike than on drives, and neither "
    "figures nor ratios apply to drives."
)
STUDY_ANTIOQUIA = "antioquia"


class _StudyKeys(msgspec.Struct):
    """The keys of an experiment file that are used by reports."""

    study: str = ""
    why: str = ""


def _study_keys(record: ResultRecord) -> _StudyKeys:
    try:
        # Other keys are ignored, because another version of raidlab may have written keys that this one does not know.
        return convert(parse_toml(record.experiment_toml), _StudyKeys)
    except (SpecError, msgspec.ValidationError):
        return _StudyKeys()


def study_of(record: ResultRecord) -> str:
    """Return the study that the result's experiment belongs to, or an empty string if there is none."""
    return _study_keys(record).study


def tables_of(record: ResultRecord) -> tuple[Table, ...]:
    """Return all tables of a result, in the order of the report."""
    study = study_of(record)
    published = find_published(study)
    tables: list[Table] = []
    if study == STUDY_ANTIOQUIA and published and record.arrays:
        tables.append(details_table(record, published))
        if record.cells:
            tables += [performance_table(record, published), ratio_table(record, published)]
    elif record.cells and (own := study_report(study)):
        tables += own.tables(record, published)
    elif record.cells:
        tables.append(figures_table(record))
    findings = findings_table(record, published) if published and record.cells else None
    return (*tables, *filter(None, (findings, rebuild_table(record))), timings_table(record))


def csv_of(record: ResultRecord) -> str:
    """Return the result as CSV, with the columns of its study, or with one line per cell and direction."""
    if study_of(record) == STUDY_ANTIOQUIA:
        return csv_text(record)
    return as_csv(*figure_lines(record))


def figure_lines(record: ResultRecord) -> tuple[tuple[str, ...], list[list[object]]]:
    """Return a header with units, and one line per repeat and direction."""
    place = ("array", "workload", "phase", "direction", "repeat", "iops", "bytes_per_second")
    more = ("p50_seconds", "p95_seconds", "p99_seconds", "p999_seconds", "predicted_iops", "cpu_microseconds_per_io")
    body: list[list[object]] = []
    for row in rows(record):
        for cell in row.cells:
            section = row.section(cell)
            figures = [section.p50_seconds, section.p95_seconds, section.p99_seconds, section.p999_seconds]
            figures += [cell.predicted_iops, cell.cpu.cpu_microseconds_per_io if cell.cpu else None]
            body.append(
                [row.array, row.workload, row.phase, row.direction, cell.repeat]
                + [round(section.iops, 2), round(section.bandwidth_bytes_per_second)]
                + ["" if value is None else float(f"{value:.6g}") for value in figures]
            )
    return (*place, *more), body


def heading(record: ResultRecord) -> str:
    """Return a line that identifies the result, its machine and its tools."""
    conditions = record.conditions
    state = "" if record.status is RunStatus.COMPLETE else f", INCOMPLETE ({len(record.missing_keys)} cells missing)"
    return (
        f"{record.id}{state}: {target_words(conditions.target)}, Linux {conditions.kernel_release}, "
        f"mdadm {conditions.mdadm_version}, fio {conditions.fio_version}"
    )


def foremost(record: ResultRecord) -> str:
    """Return a sentence that says how to read all figures, or why the method was chosen, or an empty string."""
    seen = next(iter(processor_bound(record)), None)
    if seen is None:
        why = _study_keys(record).why[:400]
        return "".join(character if character.isprintable() else " " for character in why)
    return f"The {seen.subject} limited these figures: {seen.observed}. {_PROCESSOR_BOUND}"


def render_result(record: ResultRecord, *, is_markdown: bool = False, most_columns: int | None = None) -> str:
    """Render the heading, tables and warnings of a result as Markdown, or for a terminal.

    The tables are at most ``most_columns`` characters wide.
    """
    tables = (table.as_document(is_markdown, most_columns) for table in tables_of(record))
    first_stamp = foremost(record)
    parts = [as_line(heading(record), is_markdown)]
    parts += [f"Read this first: {as_line(first_stamp, is_markdown)}"] if first_stamp else []
    parts += tables
    if stamps := shown_stamps(record):
        head, bullet = (("Warnings:", ""), "- ") if is_markdown else (("Warnings:",), "  ")
        parts.append("\n".join((*head, *(f"{bullet}{as_line(stamp, is_markdown)}" for stamp in stamps))))
    return "\n\n".join(parts)
