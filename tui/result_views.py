"""Converts stored results for the Results screen: list entries, bars, ratios, conditions. Does no I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING

from lab.machine.target import target_words
from lab.report.cells import OFF_THEORY, READ, Row, interval_text, rows
from lab.results.record import RunStatus
from lab.units import human_bytes, human_seconds
from tui.look import Tone
from tui.widgets.interval_charts import Bar, IntervalRow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.compare.cells import Compared, Comparison
    from lab.results.record import Conditions, ResultRecord
    from lab.results.store import ResultSummary

_TONES = {"faster": Tone.GOOD, "slower": Tone.BAD, "the same": Tone.BUSY}


def summary_tone(summary: ResultSummary) -> Tone:
    """The tone of a result: BAD if it is damaged, GOOD if complete, else NOTICE."""
    if summary.problem:
        return Tone.BAD
    return Tone.GOOD if summary.status is RunStatus.COMPLETE else Tone.NOTICE


def summary_facts(summary: ResultSummary) -> str:
    """The date, the number of measurements and the machine of a result."""
    if summary.problem:
        return "damaged"
    where = target_words(summary.target, is_short=True)
    return f"{_short_date(summary.created_utc)}  {summary.measured_count} of {summary.planned_count}  {where}"


def _short_date(created_utc: str) -> str:
    """A date such as ``21 Nov 10:01``."""
    try:
        return f"{datetime.fromisoformat(created_utc):%d %b %H:%M}"
    except ValueError:
        return created_utc


def iops_bars(record: ResultRecord) -> tuple[Bar, ...]:
    """The IOPS of every array, grouped by workload, with reads and writes side by side; then the rebuilds."""
    from lab.lint.result_checks import beside_theory, rebuilds_beside_theory

    found = sorted(rows(record), key=lambda row: row.workload)
    off = {(each.array, each.workload, each.phase) for each in beside_theory(record) if each.is_off}
    bars = (_bar(row, found, is_off=(row.array, row.workload, row.phase) in off) for row in found)
    slow = {(each.array, each.phase) for each in rebuilds_beside_theory(record) if each.is_off}
    return (*bars, *_rebuild_bars(record, slow))


def _bar(row: Row, all_rows: list[Row], *, is_off: bool) -> Bar:
    estimate = row.iops
    has_phases = len({each.phase for each in all_rows}) > 1
    has_both = len({each.direction for each in all_rows if each.workload == row.workload}) > 1
    return Bar(
        label=row.array + (f" {row.phase}" if has_phases else "") + (f" {row.direction}s" if has_both else ""),
        value=estimate.median,
        low=estimate.low,
        high=estimate.high,
        text=interval_text(estimate) + (f" {OFF_THEORY}" if is_off else ""),
        colour=0 if row.direction == READ else 1,
        expected=row.predicted_iops,
        group=f"{row.workload}, IOPS",
    )


def _rebuild_bars(record: ResultRecord, off: Collection[tuple[str, str]]) -> Iterator[Bar]:
    from lab.lint.result_checks import IDLE
    from lab.results.statistics import estimate

    groups = dict.fromkeys((each.array, each.under_workload) for each in record.rebuilds)
    for array, under in groups:
        found = [each for each in record.rebuilds if (each.array, each.under_workload) == (array, under)]
        seconds = estimate([each.rebuild_seconds for each in found])
        yield Bar(
            label=array + (f" under {under}" if under else ""),
            value=seconds.median,
            low=seconds.low,
            high=seconds.high,
            text=f"{interval_text(seconds, digits=1)} s" + (f" {OFF_THEORY}" if (array, under or IDLE) in off else ""),
            expected=found[0].predicted_seconds,
            group="rebuild, seconds: less is better",
        )


def ratio_rows(comparison: Comparison) -> tuple[IntervalRow, ...]:
    """One row for each figure that both results have, sorted by workload, phase and array."""
    found = sorted(comparison.rows, key=lambda each: (each.workload, each.phase, each.array))
    return tuple(_ratio_row(each) for each in found)


def _ratio_row(each: Compared) -> IntervalRow:
    tone = _TONES.get(each.outcome.value, Tone.QUIET)
    phase = "" if each.phase in ("healthy", "rebuilding") else f" {each.phase}"
    label = f"{each.array} {each.workload}{phase}" + (f" {each.figure.split()[0]}" if "IOPS" in each.figure else "")
    if each.ratio is None:
        return IntervalRow(label, None, 1.0, 1.0, each.outcome.value, tone)
    ratio = each.ratio
    # With too few repeats there is no interval.
    low, high = (ratio.low, ratio.high) if ratio.has_enough else (ratio.median, ratio.median)
    interval = f" [{low:.2f}–{high:.2f}]" if low < high else ""
    text = f"{ratio.median:.2f} ×{interval} {each.outcome.value:<11}"
    return IntervalRow(label, ratio.median, low, high, text, tone)


def comparison_verdict(comparison: Comparison) -> tuple[Tone, str, str]:
    """(tone, verdict, sentence) about all figures: how many are faster, slower, the same or undecided."""
    counts = Counter(row.outcome.value for row in comparison.rows)
    said = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    decided = [word for word in ("faster", "slower") if counts[word]]
    sentence = f"Of {len(comparison.rows)} figures of the second: {said}."
    if len(decided) == 1:
        return _TONES[decided[0]], decided[0].upper(), sentence
    if decided:
        return Tone.NOTICE, "MIXED", sentence
    if counts["the same"] == len(comparison.rows):
        return Tone.BUSY, "THE SAME", sentence
    return Tone.QUIET, "CANNOT TELL", sentence


def comparison_notes(comparison: Comparison) -> list[str]:
    """The reasons for undecided figures, and the cells that only one of the results has."""
    reasons = Counter(row.reason for row in comparison.rows if row.reason)
    lines = [f"Cannot be told ({count}): {reason}." for reason, count in reasons.items()]
    missing = (("the first", comparison.only_first), ("the second", comparison.only_second))
    return lines + [f"Only in {which}: {', '.join(cells)}." for which, cells in missing if cells]


def lint_lines(record: ResultRecord) -> list[str]:
    """The broken rules of the lint with their remedies; then notes that do not belong to a rule."""
    from lab.lint.result_checks import lint_result
    from lab.lint.rules import all_rules

    groups: dict[str, list[str]] = {}
    for finding in lint_result(record):
        groups.setdefault(finding.rule_id, []).append(finding.sentence)
    lines: list[str] = []
    for rule_id, sentences in groups.items():
        rule = all_rules()[rule_id]
        lines += [f"{rule_id}: {rule.says}", *(f"    {sentence}" for sentence in sentences)]
        lines += [f"    Why: {rule.why}", f"    Remedy: {rule.remedy}", ""]
    notes = [stamp for stamp in record.stamps if stamp.partition(": ")[0] not in all_rules()]
    lines += [f"Note: {note}" for note in notes]
    return lines or ["No rule of the lint is broken."]


def condition_lines(record: ResultRecord) -> list[str]:
    """The machine, the tools and the disks of a result, and the commands that created the arrays."""
    conditions = record.conditions
    lines = [
        f"Measured    {record.created_utc}, raidlab {record.raidlab_version}, {_how_far(record)}",
        f"Machine     {target_words(conditions.target)} on {conditions.host_name}, {conditions.architecture}",
        f"Kernel      {conditions.kernel_release}{_kernel_notes(conditions)}",
        f"Processor   {conditions.cpu_count} × {conditions.cpu_model or 'unknown'}",
        f"Memory      {human_bytes(conditions.memory_bytes)}",
        f"Tools       mdadm {conditions.mdadm_version}, fio {conditions.fio_version}"
        + (f", nbdkit {conditions.nbdkit_version}" if conditions.nbdkit_version else ""),
        *_named("Disks", _disk_lines(conditions)),
        *_named("Caches", list(conditions.host_cache_notes)),
        *_named("Tunables", _tunable_lines(conditions)),
        f"Time spent  {human_seconds(record.timings.total_seconds)}",
    ]
    for array in record.arrays:
        layout = "" if array.layout == "N/A" else array.layout
        what = " ".join(filter(None, (array.level, layout, array.file_system)))
        lines += ["", f"{array.name}: {what} of {human_bytes(array.size_bytes)} on {', '.join(array.members)}"]
        lines += [f"  {command}" for command in array.commands]
    return lines


def _how_far(record: ResultRecord) -> str:
    if record.status is RunStatus.COMPLETE:
        return "complete"
    return f"incomplete: {len(record.missing_keys)} measurements are missing"


def _kernel_notes(conditions: Conditions) -> str:
    notes = ["in a process" if conditions.is_embedded else "", "virtual time" if conditions.is_virtual_time else ""]
    said = ", ".join(filter(None, notes))
    return f" ({said})" if said else ""


def _disk_lines(conditions: Conditions) -> list[str]:
    counts = Counter(
        f"{disk.model or disk.kind} of {human_bytes(disk.size_bytes)}"
        + (f", {disk.write_cache}" if disk.write_cache else "")
        for disk in conditions.disks
    )
    return [f"{count} × {words}" for words, count in counts.items()]


def _tunable_lines(conditions: Conditions) -> list[str]:
    """One line per tunable and value, with the number of disks that have it."""
    counts = Counter(f"{path.rpartition('/')[2]} = {value}" for path, value in sorted(conditions.tunables.items()))
    return [f"{words} ({count} disks)" if count > 1 else words for words, count in counts.items()]


def _named(name: str, lines: list[str]) -> list[str]:
    """The lines, with the name before the first one."""
    return [f"{name if not number else '':<12}{line}" for number, line in enumerate(lines)]
