"""The general tables of a result: figures, rebuilds, time spent, and comparisons of machines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lab.compare.platforms import Agreement, Conclusion, PlatformComparison, Transfer
from lab.errors import LabError
from lab.experiments.schema import Experiment
from lab.lint.result_checks import IDLE, BesideTheory, beside_theory, rebuilds_beside_theory
from lab.results.record import CellRecord, RebuildRecord, ResultRecord
from lab.results.statistics import Estimate, InterimLook, RatioOutcome, estimate, looks_of, outliers
from lab.tables import NOTHING, Column, Table, Value
from lab.tomlfile import decode_toml
from lab.units import counted, human_bytes, human_rate, human_seconds
from lab.workloads.fio_output import DirectionFigures
from lab.workloads.workload import Direction, Workload

READ, WRITE = "read", "write"


@dataclass(frozen=True, slots=True)
class Row:
    """All repeats of one array, workload, phase and direction."""

    array: str
    workload: str
    phase: str
    direction: str
    cells: tuple[CellRecord, ...]
    looks: tuple[InterimLook, ...] = ()
    """Interim evaluations, if measurement continued until the intervals were narrow; the intervals allow for them."""

    def section(self, cell: CellRecord) -> DirectionFigures:
        """The figures of a cell in this row's direction."""
        section = cell.figures.reads if self.direction == READ else cell.figures.writes
        assert section is not None
        return section

    def values(self, pick: Callable[[DirectionFigures], float | None]) -> list[float]:
        """A figure of each repeat, without repeats in which it is missing."""
        return list(self.by_repeat(pick).values())

    def by_repeat(self, pick: Callable[[DirectionFigures], float | None]) -> dict[int, float]:
        """Number of the repeat -> figure; rows of one result are paired by this number."""
        return {cell.repeat: value for cell in self.cells if (value := pick(self.section(cell))) is not None}

    def estimate(self, values: Sequence[float]) -> Estimate:
        """The median of values from this row's repeats, with its interval."""
        return estimate(values, self.looks)

    @property
    def iops(self) -> Estimate:
        """I/Os per second."""
        return self.estimate(self.values(lambda section: section.iops))

    @property
    def bytes_per_second(self) -> Estimate:
        """Throughput in bytes per second."""
        return self.estimate(self.values(lambda section: section.bandwidth_bytes_per_second))

    def latency_seconds(self, name: str) -> Estimate | None:
        """A latency by field name, such as ``p99_seconds``; None if no repeat has it."""
        values = self.values(lambda section: getattr(section, name))
        return self.estimate(values) if values else None

    @property
    def cpu_microseconds_per_io(self) -> Estimate | None:
        """CPU time of the whole machine per I/O, without the CPU time of the idle machine; None if not measured."""
        values = [
            cell.cpu.cpu_microseconds_per_io
            for cell in self.cells
            if cell.cpu is not None and cell.cpu.cpu_microseconds_per_io is not None
        ]
        return self.estimate(values) if values else None

    @property
    def predicted_iops(self) -> float | None:
        """The predicted IOPS of this direction; a mixed load is predicted as a whole, and this is its share."""
        cell, ours = self.cells[0], self.section(self.cells[0])
        if cell.predicted_iops is None or not (cell.figures.reads and cell.figures.writes):
            return cell.predicted_iops
        both = cell.figures.reads.total_ios + cell.figures.writes.total_ios
        return cell.predicted_iops * ours.total_ios / both if both else None


def rows(record: ResultRecord) -> tuple[Row, ...]:
    """All rows of a record: arrays in the record's order, reads before writes."""
    found: dict[tuple[str, str, str, str], list[CellRecord]] = {}
    for cell in sorted(record.cells, key=lambda cell: cell.repeat):
        for direction, section in ((READ, cell.figures.reads), (WRITE, cell.figures.writes)):
            if section is not None:
                found.setdefault((cell.array, cell.workload, cell.phase, direction), []).append(cell)
    order = {array.name: number for number, array in enumerate(record.arrays)}
    keys = sorted(found, key=lambda key: (order.get(key[0], 99), key[3], _phase_rank(key[2]), key[1]))
    looks = looks_of(record)
    return tuple(Row(*key, tuple(found[key]), looks) for key in keys)


def row_for(all_rows: Iterable[Row], array: str, direction: str, phase: str = "healthy") -> Row | None:
    """The first row of an array, direction and phase, or None."""
    for row in all_rows:
        if (row.array, row.direction, row.phase) == (array, direction, phase):
            return row
    return None


def _phase_rank(phase: str) -> int:
    phases = ("healthy", "degraded", "rebuilding", "restored")
    return phases.index(phase) if phase in phases else len(phases)


_WAYS = {Direction.READ: "reads", Direction.WRITE: "writes"}
_LARGE_BLOCK_BYTES = 128 * 1024
"""Mean size of an I/O from which throughput is shown in place of IOPS."""


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
        """The title of a workload, such as ``Random reads, 4 KiB, queue depth 4 × 4 jobs``."""
        found = self.workloads.get(name)
        if found is None or found.recipe or found.trace:
            return found.title if found else name
        # The catalogue's title may be wrong, since an experiment can change the block size.
        what = _WAYS.get(found.direction)
        title = f"{found.pattern.capitalize()} {what}, {human_bytes(found.block_bytes)}" if what else found.title
        jobs = f" × {found.jobs} jobs" if found.jobs > 1 else ""
        return f"{title}, queue depth {found.queue_depth}{jobs}"

    def in_flight(self, name: str) -> int | None:
        """Number of I/Os that the workload keeps in flight, or None if unknown."""
        found = self.workloads.get(name)
        return found.queue_depth * found.jobs if found and not found.recipe and not found.trace else None


def labels_of(record: ResultRecord) -> ResultLabels:
    """The labels from the experiment file in the record; only ids if this raidlab version cannot read the file."""
    try:
        experiment = decode_toml(record.experiment_toml, Experiment, source=f"{record.id}/experiment")
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
    """Whether the mean I/O of the row is so large that throughput is shown in place of IOPS."""
    section = row.section(row.cells[0])
    return section.total_ios > 0 and section.io_bytes / section.total_ios >= _LARGE_BLOCK_BYTES


TOO_FEW = "too few repeats"
_TOO_FEW_NOTE = f"{TOO_FEW}: where their number stands, they give no interval that covers 95 %; six do"
OFF_THEORY = "off-theory"


def interval_text(found: Estimate | None, *, digits: int = 0) -> str:
    """The median and its interval: ``5.93k [5.1k–6.2k]``."""
    if found is None:
        return NOTHING
    low, middle, high = (_rate(value, digits) for value in (found.low, found.median, found.high))
    return middle if found.n == 1 else f"{middle} [{low}–{high}]"


def seconds_text(found: Estimate | None) -> str:
    """The median as a duration."""
    return human_seconds(found.median) if found else NOTHING


def _rate(value: float, digits: int) -> str:
    return human_rate(value) if value >= 1000 else f"{value:.{digits}f}"


def figures_table(record: ResultRecord) -> Table:
    """IOPS, throughput, latency and CPU cost of all rows, with the predictions of theory."""
    all_rows = rows(record)
    theory = {(each.array, each.workload, each.phase): each for each in beside_theory(record)}
    has_cpu = any(row.cpu_microseconds_per_io for row in all_rows)
    columns = [Column("array", False), Column("workload", False), Column("phase", False), Column("direction", False)]
    columns.append(Column("IOPS"))
    columns += [Column("theory"), Column("÷ theory", False)] if theory else []
    columns += [Column("MB/s"), Column("p50"), Column("p99")]
    columns += [Column("CPU µs/IO")] if has_cpu else []
    body = tuple(
        _figures_row(row, theory.get((row.array, row.workload, row.phase)), bool(theory), has_cpu) for row in all_rows
    )
    notes = (_interval_note(all_rows), *_notes_of(beside_theory(record)), *outlier_notes(all_rows))
    return Table(f"Figures of {record.experiment}", (*columns, Column("n")), body, notes)


def theory_notes(record: ResultRecord) -> tuple[str, ...]:
    """A note for each figure that deviates from theory, with the possible reason."""
    return _notes_of((*beside_theory(record), *rebuilds_beside_theory(record)))


def _notes_of(found: Sequence[BesideTheory]) -> tuple[str, ...]:
    notes = [f"{OFF_THEORY}: {each.name}: {each.words}" for each in found if each.is_off]
    if any(each.share.n == 1 for each in found):
        notes.append("one run is too few to say whether a figure differs from theory")
    return tuple(notes)


def outlier_notes(all_rows: tuple[Row, ...]) -> tuple[str, ...]:
    """A note for each outlier among the repeats. Outliers count like the other repeats."""
    notes = []
    for row in all_rows:
        values = row.values(lambda section: section.iops)
        for place in outliers(values):
            what = f"{row.array}/{row.workload} {row.direction}, repeat {row.cells[place].repeat + 1}"
            notes.append(f"outlier, kept: {what}: {_rate(values[place], 0)} IOPS")
    return tuple(notes)


def _figures_row(row: Row, theory: BesideTheory | None, has_theory: bool, has_cpu: bool) -> tuple[str, ...]:
    cpu = row.cpu_microseconds_per_io
    cells = [row.array, row.workload, row.phase, row.direction, interval_text(row.iops)]
    if has_theory:
        cells += [human_rate(row.predicted_iops) if row.predicted_iops else NOTHING, theory_text(theory)]
    cells += [
        f"{row.bytes_per_second.median / 1e6:.1f}",
        seconds_text(row.latency_seconds("p50_seconds")),
        seconds_text(row.latency_seconds("p99_seconds")),
    ]
    if has_cpu:
        cells.append(f"{cpu.median:.1f}" if cpu else NOTHING)
    return (*cells, str(len(row.cells)))


def theory_text(found: BesideTheory | None) -> str:
    """The ratio to theory: ``0.98``, or ``0.80 off-theory``."""
    if found is None:
        return NOTHING
    return f"{found.share.median:.2f} {OFF_THEORY}" if found.is_off else f"{found.share.median:.2f}"


def _interval_note(all_rows: tuple[Row, ...]) -> str:
    counts = {len(row.cells) for row in all_rows}
    if counts <= {1}:
        return "one repeat: no interval can be given"
    coverage = min((row.iops.coverage for row in all_rows), default=0.0)
    return f"median [interval of order statistics; it covers the true median with at least {coverage:.1%}]"


def rebuild_table(record: ResultRecord) -> Table | None:
    """Rebuild times with their predictions, and the data checks; None if there was no rebuild."""
    if not record.rebuilds:
        return None
    groups: dict[tuple[str, str], list[RebuildRecord]] = {}
    for rebuild in record.rebuilds:
        groups.setdefault((rebuild.array, rebuild.under_workload), []).append(rebuild)
    beside = rebuilds_beside_theory(record)
    off = {(each.array, each.phase) for each in beside if each.is_off}
    columns = (Column("array", False), Column("meanwhile", False), Column("rebuild", unit="s"))
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
    rate = estimate([rebuild.rebuilt_bytes / rebuild.rebuild_seconds / 1e6 for rebuild in group])
    return (
        array,
        under or "nothing",
        interval_text(seconds, digits=1),
        f"{estimate(predicted).median:.1f}{f' {OFF_THEORY}' if is_off else ''}" if predicted else None,
        f"{rate.median:.1f}" if rate.median < 10 else f"{rate.median:.0f}",
        integrity_text(group),
        len(group),
    )


def integrity_text(group: list[RebuildRecord]) -> str:
    """The result of the data checks, such as ``intact (3 of 3)``."""
    checked = [rebuild for rebuild in group if rebuild.data_unchanged is not None]
    intact = [rebuild for rebuild in checked if rebuild.data_unchanged]
    if not checked:
        return "not checked"
    word = "intact" if len(intact) == len(checked) else "DAMAGED"
    return f"{word} ({len(intact)} of {len(checked)})"


def timings_table(record: ResultRecord) -> Table:
    """The wall-clock time by activity."""
    timings = record.timings
    parts = (
        ("fio", timings.fio_seconds),
        ("mkfs", timings.mkfs_seconds),
        ("mdadm", timings.mdadm_seconds),
        ("resync and rebuild", timings.resync_seconds),
        ("everything else", timings.other_seconds),
        ("total", timings.total_seconds),
    )
    if not timings.simulated_seconds:
        return Table("Time spent", (Column("on", False), Column("", unit="seconds", form=".1f")), parts)
    words = ("fio", "mkfs", "mdadm", "resync", "other", "total")
    both = tuple(
        (name, timings.simulated_seconds.get(word, 0.0), seconds)
        for word, (name, seconds) in zip(words, parts, strict=True)
    )
    clocks = (Column(whose, unit="s", form=".1f") for whose in ("simulated", "this computer's"))
    return Table("Time spent", (Column("on", False), *clocks), both)


def ratio_text(found: Estimate | None) -> str:
    """The estimate and its interval, ``0.53 [0.50–0.56]``, or a dash."""
    return found.text() if found else NOTHING


def paired_note(found: Iterable[Estimate | None]) -> str:
    """The note that explains ratios from paired repeats and their intervals."""
    coverages = [each.coverage for each in found if each is not None and each.n > 1]
    what = "ratio: Hodges-Lehmann estimate over the paired repeats"
    if not coverages:
        return f"{what}; one repeat gives no interval"
    return (
        f"{what} [interval of the exact signed-rank test: holds the true ratio with at least {min(coverages):.1%}, "
        "if the logarithms of the pairs' ratios lie symmetrically about it]"
    )


RATIO_NOTE = (
    "ratios to one disk: Hodges-Lehmann estimate over paired repeats [interval of the exact signed-rank test, which "
    "takes their logarithms to lie symmetrically about the true one]; of rebuilds: Mann-Whitney's, for runs apart"
)


def platform_tables(experiment: str, found: PlatformComparison, names: Sequence[str] | None = None) -> Iterator[Table]:
    """The tables of a comparison that have rows. ``names`` are short names of the platforms, in their order."""
    whole = [platform.name for platform in found.platforms]
    names = whole if names is None else names
    if found.rows:
        columns = (Column("figure without unit", False), Column("of", False), *map(Column, names))
        body = tuple((row.measure.value, row.what, *map(_covered_text, row.values)) for row in found.rows)
        has_all = all(each.has_enough for row in found.rows for each in row.values if each)
        told = (RATIO_NOTE,) if has_all else (RATIO_NOTE, _TOO_FEW_NOTE)
        yield Table(f"{experiment} on {len(names)} machines", columns, body, told)
    if found.agreements:
        columns = (Column(f"same order as on {names[0]}", False), Column("of", False), Column("arrays"))
        columns += (Column("Kendall's tau", form=".2f"), Column("pairs known"), Column("reversed"))
        short = dict(zip(whole, names, strict=True))
        agreements = tuple(_agreement_row(each, short) for each in found.agreements)
        note = "tau: of the medians, without an interval; pairs known: those with a verdict on both machines"
        yield Table("Order of the arrays", columns, agreements, (note,))
    if found.conclusions:
        columns = (Column(f"conclusion on {names[0]}", False), Column("of", False))
        counts = tuple(f"on {name}: {transfer_counts(found, place)}" for place, name in enumerate(names[1:]))
        body, notes = _conclusion_rows(found)
        yield Table(
            "What carries over",
            (*columns, *(Column(name, False) for name in names[1:])),
            body,
            (*counts, *notes),
        )


def _covered_text(found: Estimate | None) -> str:
    """``0.53 [0.50–0.56]``, or ``0.53 (2 repeats)`` if there are too few repeats for a useful interval."""
    if found is None or found.has_enough:
        return ratio_text(found)
    return f"{found.median:.2f} ({counted(found.n, 'repeat')})"


def _conclusion_rows(found: PlatformComparison) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """One row for each conclusion that can be checked somewhere, one row for all others, and the reasons for those."""
    untold = [each for each in found.conclusions if set(each.transfers) == {Transfer.CANNOT_TELL}]
    rows = [(_claim(each), each.what, *_transfers(each)) for each in found.conclusions if each not in untold]
    if untold:
        pairs = f"{counted(len(untold), 'pair')} of arrays"
        settings = len(dict.fromkeys(each.what for each in untold))
        what = untold[0].what if settings == 1 else f"{settings} loads"
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
    """Number of conclusions by their outcome on a further platform, such as ``confirmed 3, flips 1``.

    ``place`` is the index of the platform after the first.
    """
    transfers = [each.transfers[place] for each in found.conclusions]
    return ", ".join(f"{each.value} {transfers.count(each)}" for each in Transfer if each in transfers)


def _claim(conclusion: Conclusion) -> str:
    """The conclusion on the first platform, such as ``raid0 is faster than raid5``."""
    outcome = conclusion.verdicts[0].outcome
    if outcome is RatioOutcome.CANNOT_TELL:
        return f"{conclusion.faster} or {conclusion.slower}: {outcome}"
    return f"{conclusion.faster} is {outcome} {'as' if outcome is RatioOutcome.SAME else 'than'} {conclusion.slower}"


def _transfers(conclusion: Conclusion) -> tuple[str, ...]:
    """The outcome of the conclusion on each further platform."""
    pairs = zip(conclusion.transfers, conclusion.verdicts[1:], strict=True)
    return tuple(
        str(transfer) if transfer is Transfer.CANNOT_TELL else f"{transfer}: {verdict.outcome}"
        for transfer, verdict in pairs
    )
