"""The tables of a result: those of its study, if it belongs to one, or the general ones."""

from __future__ import annotations

import msgspec

from lab.errors import SpecError
from lab.experiments.published import find_published
from lab.gates.decoding import convert, parse_toml
from lab.lint.result_checks import shown_stamps
from lab.lint.theory_checks import processor_bound
from lab.machine.target import target_words
from lab.report import antioquia
from lab.report.cells import figures_table, rebuild_table, rows, timings_table
from lab.report.extension import study_report
from lab.report.findings import findings_table
from lab.results.record import ResultRecord, RunStatus
from lab.tables import Table, as_csv, as_line

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
        tables.append(antioquia.details_table(record, published))
        if record.cells:
            tables.append(antioquia.performance_table(record, published))
            tables.append(antioquia.ratio_table(record, published))
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
        return antioquia.csv_text(record)
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
    return f"What was measured is the {seen.subject}: {seen.observed}. {_PROCESSOR_BOUND}"


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
