"""The tables of a result: those of its study, if it belongs to one, or the general ones.

The antioquia study has its own tables: array details (its Fig. 4), performance (its Fig. 5), ratios between levels.
"""

from __future__ import annotations

import msgspec

from lab.errors import SpecError
from lab.experiments.published import Published, PublishedArray, find_published
from lab.gates.decoding import convert, parse_toml
from lab.lint.result_checks import processor_bound, shown_stamps
from lab.machine.target import target_words
from lab.report.cells import (
    READ,
    WRITE,
    Row,
    figures_table,
    integrity_text,
    interval_text,
    outlier_notes,
    paired_note,
    ratio_text,
    rebuild_table,
    row_for,
    rows,
    seconds_text,
    timings_table,
)
from lab.report.extension import study_report
from lab.report.findings import findings_table
from lab.results.record import ArrayRecord, RebuildRecord, ResultRecord, RunStatus
from lab.results.statistics import Estimate, Ratio, estimate, paired_ratio
from lab.tables import NOTHING, Column, Table, Value, as_csv, as_line
from lab.units import human_rate

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
    """The title of an array: ``RAID 5`` for ``raid5``, ``RAID 0 (3 disks)`` for ``raid0-3``."""
    level, _, members = array_id.removeprefix("raid").partition("-")
    return f"RAID {level} ({members} disks)" if members else f"RAID {level}"


def details_table(record: ResultRecord, published: Published) -> Table:
    """The output of mdadm for each array beside the published values (Fig. 4)."""
    columns = [Column("", False)]
    texts: list[list[str]] = [[] for _ in _DETAILS]
    for array in record.arrays:
        columns.append(Column(title_of(array.name)))
        theirs = published.array(array.name)
        if theirs:
            columns.append(Column("published"))
        for row, (key, _) in zip(texts, _DETAILS, strict=True):
            row.append(array.details.get(key, NOTHING))
            if theirs:
                row.append(_published_text(theirs, key))
    body = tuple((label, *row) for (_, label), row in zip(_DETAILS, texts, strict=True))
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
    """Fig. 5 with the published IOPS, extended by p99, CPU cost, rebuild time, data check, repeats and intervals."""
    all_rows = rows(record)
    has_cpu = any(row.cpu_microseconds_per_io for row in all_rows)
    columns = (
        Column("level", False),
        *(Column(way, unit="IOPS") for way in (READ, WRITE)),
        *(Column(way, unit="MB/s", form=".1f") for way in (READ, WRITE)),
        *(Column("read p99"), Column("write p99")),
        *(Column("CPU", unit=f"µs/{way}", form=".0f") for way in (READ, WRITE) if has_cpu),
        *(Column("rebuild", unit="s"), Column("data", False), Column("n")),
        *(Column("published read"), Column("published write")),
    )
    body = tuple(_performance_row(record, array.name, all_rows, published, has_cpu) for array in record.arrays)
    coverages = [row.iops.coverage for row in all_rows if len(row.cells) > 1]
    note = (
        f"median [interval; covers the true median with at least {min(coverages):.1%}]"
        if coverages
        else "one repeat: no interval can be given"
    )
    return Table(
        "Performance (the study's Fig. 5, extended)",
        columns,
        body,
        (note, *outlier_notes(all_rows), *published.remarks),
    )


def _performance_row(
    record: ResultRecord, array: str, all_rows: tuple[Row, ...], published: Published, has_cpu: bool
) -> tuple[Value, ...]:
    reads, writes = row_for(all_rows, array, READ), row_for(all_rows, array, WRITE)
    theirs = published.figures_of(array)
    rebuilds = [rebuild for rebuild in record.rebuilds if rebuild.array == array]
    return (
        title_of(array),
        interval_text(reads.iops if reads else None),
        interval_text(writes.iops if writes else None),
        _megabytes(reads),
        _megabytes(writes),
        seconds_text(reads.latency_seconds("p99_seconds") if reads else None),
        seconds_text(writes.latency_seconds("p99_seconds") if writes else None),
        *((_cpu(reads), _cpu(writes)) if has_cpu else ()),
        interval_text(_rebuild_seconds(rebuilds), digits=1),
        integrity_text(rebuilds) if rebuilds else "no redundancy" if array.startswith("raid0") else None,
        len(reads.cells) if reads else 0,
        human_rate(theirs.read_iops) if theirs else None,
        human_rate(theirs.write_iops) if theirs else None,
    )


def _megabytes(row: Row | None) -> float | None:
    return row.bytes_per_second.median / 1e6 if row else None


def _cpu(row: Row | None) -> float | None:
    cost = row.cpu_microseconds_per_io if row else None
    return cost.median if cost else None


def _rebuild_seconds(rebuilds: list[RebuildRecord]) -> Estimate | None:
    return estimate([rebuild.rebuild_seconds for rebuild in rebuilds]) if rebuilds else None


def ratio_table(record: ResultRecord, published: Published) -> Table:
    """Ratios between levels, each with its interval; unlike absolute figures, they can be compared between systems.

    The table has the study's own pairs, and fair pairs, which have equal numbers of members or of data disks.
    """
    all_rows = rows(record)
    names = [array.name for array in record.arrays]
    columns = (
        *(Column("ratio", False), Column("members", False), Column("reads"), Column("writes")),
        *(Column("published reads", form=".2f"), Column("published writes", form=".2f")),
    )
    body = []
    found: list[Ratio | None] = []
    for name, base in _pairs(names, published.baseline):
        ratios = [_ratio(row_for(all_rows, name, way), row_for(all_rows, base, way)) for way in (READ, WRITE)]
        found += ratios
        ours, theirs = published.figures_of(name), published.figures_of(base)
        printed: tuple[Value, Value] = (None, None)
        if ours and theirs:
            printed = (ours.read_iops / theirs.read_iops, ours.write_iops / theirs.write_iops)
        cells = map(ratio_text, ratios)
        body.append((f"{title_of(name)} ÷ {title_of(base)}", _members(record, name, base), *cells, *printed))
    note = "a ratio whose interval spans 1 does not tell which of the two is faster"
    return Table("Ratios between levels", columns, tuple(body), (paired_note(found), note))


def _pairs(names: list[str], baseline: str) -> list[tuple[str, str]]:
    # The baseline may be missing from an incomplete result.
    pairs = [(name, baseline) for name in names if name != baseline and baseline in names]
    if "raid0-3" in names and "raid5" in names:
        pairs.append(("raid5", "raid0-3"))
    return pairs


def _ratio(ours: Row | None, base: Row | None) -> Ratio | None:
    """The paired ratio, or None if one row is missing or the rows have no repeat in common."""
    if ours is None or base is None or not {c.repeat for c in ours.cells} & {c.repeat for c in base.cells}:
        return None
    return paired_ratio(ours.by_repeat(lambda section: section.iops), base.by_repeat(lambda section: section.iops))


def _members(record: ResultRecord, name: str, base: str) -> str:
    counts = {array.name: len(array.members) for array in record.arrays}
    equal = "equal" if counts[name] == counts[base] else "unequal"
    return f"{counts[name]} against {counts[base]}: {equal}"


def csv_text(record: ResultRecord) -> str:
    """The study's CSV: median IOPS, and the rebuild time in seconds, which is empty without redundancy."""
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
    "Its disks answer as fast as it asks, so levels look more alike than on drives: neither figures nor ratios are "
    "those of drives."
)
STUDY_ANTIOQUIA = "antioquia"


class _Told(msgspec.Struct):
    """The keys of an experiment file that reports use."""

    study: str = ""
    why: str = ""


def _told(record: ResultRecord) -> _Told:
    try:
        # Other keys are ignored: a different version of raidlab may have written keys that this one does not know.
        return convert(parse_toml(record.experiment_toml), _Told)
    except (SpecError, msgspec.ValidationError):
        return _Told()


def study_of(record: ResultRecord) -> str:
    """The study of the result's experiment; empty for none."""
    return _told(record).study


def tables_of(record: ResultRecord) -> tuple[Table, ...]:
    """All tables of a result, in the order of the report."""
    study = study_of(record)
    published = find_published(study)
    tables: list[Table] = []
    if study == STUDY_ANTIOQUIA and published and record.arrays:
        tables.append(details_table(record, published))
        if record.cells:
            tables.append(performance_table(record, published))
            tables.append(ratio_table(record, published))
    elif record.cells and (own := study_report(study)):
        tables += own.tables(record, published)
    elif record.cells:
        tables.append(figures_table(record))
    findings = findings_table(record, published) if published and record.cells else None
    if findings:
        tables.append(findings)
    rebuilds = rebuild_table(record)
    if rebuilds:
        tables.append(rebuilds)
    tables.append(timings_table(record))
    return tuple(tables)


def csv_of(record: ResultRecord) -> str:
    """The result as CSV: in the columns of its study, or one line per cell and direction."""
    if study_of(record) == STUDY_ANTIOQUIA:
        return csv_text(record)
    return as_csv(*figure_lines(record))


def figure_lines(record: ResultRecord) -> tuple[tuple[str, ...], list[list[object]]]:
    """A header with units, and one line per repeat and direction."""
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
    """One line that identifies the result, its machine and its tools."""
    conditions = record.conditions
    state = "" if record.status is RunStatus.COMPLETE else f", INCOMPLETE ({len(record.missing_keys)} cells missing)"
    return (
        f"{record.id}{state}: {target_words(conditions.target)}, Linux {conditions.kernel_release}, "
        f"mdadm {conditions.mdadm_version}, fio {conditions.fio_version}"
    )


def cautions(record: ResultRecord) -> tuple[str, ...]:
    """The warnings of a result, to be shown below its tables."""
    return shown_stamps(record)


def foremost(record: ResultRecord) -> str:
    """A sentence to show before all figures, because it decides how they are read; empty for none.

    It says that the processor and not the disks limited the speed, or else why the experiment is done in this way.
    """
    seen = next(iter(processor_bound(record)), None)
    if seen is None:
        why = _told(record).why[:400]
        return "".join(character if character.isprintable() else " " for character in why)
    return f"The {seen.subject} limited these figures: {seen.observed}. {_PROCESSOR_BOUND}"


def render_result(record: ResultRecord, *, is_markdown: bool = False) -> str:
    """Heading, tables and warnings of a result, for a terminal or as Markdown."""
    tables = (table.as_markdown() if is_markdown else table.as_text() for table in tables_of(record))
    said = foremost(record)
    parts = [as_line(heading(record), is_markdown)]
    parts += [f"First of all: {as_line(said, is_markdown)}"] if said else []
    parts += tables
    if stamps := cautions(record):
        head, bullet = (("Be careful:", ""), "- ") if is_markdown else (("Be careful:",), "  ")
        parts.append("\n".join((*head, *(f"{bullet}{as_line(stamp, is_markdown)}" for stamp in stamps))))
    return "\n\n".join(parts)
