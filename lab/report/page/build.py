"""Reports in all output formats, and the content of the report page. Templates determine how the page looks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from lab.compare import PlatformComparison
from lab.errors import LabError, RequirementMissing, ResultError
from lab.experiments.published import Published, find_published
from lab.gates.text import visible
from lab.host.files import make_folder, write_file
from lab.lint.experiment_checks import (
    BesideTheory,
    beside_theory,
    is_without_service_time,
    rebuilds_beside_theory,
    shown_stamps,
)
from lab.lint.rules import all_rules
from lab.machine.target import target_words
from lab.report.collected import Collected, Loaded, distribution_table
from lab.report.extension import study_report
from lab.report.page.blocks import (
    Block,
    Facts,
    Fold,
    Marked,
    Page,
    PageGroup,
    PageSection,
    Plot,
    ShownTable,
    Stamp,
    Stamps,
    render_page,
)
from lab.report.page.plots import (
    LevelPlots,
    chunk_plots,
    distribution_plots,
    findings_plot,
    platform_plots,
    timeline_plot,
    times_plot,
)
from lab.report.tables import (
    OFF_THEORY,
    ComparedFinding,
    Holds,
    ResultLabels,
    Theory,
    compared_findings,
    csv_of,
    figure_lines,
    foremost,
    heading,
    is_another,
    labels_of,
    platform_tables,
    published_text,
    ratio_text,
    study_of,
    tables_of,
)
from lab.results.record import HEALTHY, ResultRecord
from lab.results.rows import Row, grouped, rows
from lab.tables import NOTHING, Column, Table, Value, as_csv, as_line
from lab.units import human_bytes, human_seconds

SIGNS = {
    Holds.YES: "✓",
    Holds.ORDER_ONLY: "≈",
    Holds.ORDER_AT_LEAST: "≈",
    Holds.NO: "✗",
    Holds.CANNOT_TELL: "?",
    Holds.NOT_MEASURED: "–",
}
"""A sign for each verdict, so that verdicts can be told apart without colour."""
_KINDS = (
    ("✓ holds", ((Holds.YES, True), (Holds.YES, False))),
    ("≈ the order holds", ((Holds.ORDER_ONLY, True), (Holds.ORDER_AT_LEAST, True))),
    ("✗ does not hold", ((Holds.NO, True), (Holds.NO, False))),
    ("? cannot tell, the median agrees", ((Holds.CANNOT_TELL, True),)),
    ("? cannot tell, the median disagrees", ((Holds.CANNOT_TELL, False),)),
    ("– not measured", ((Holds.NOT_MEASURED, True), (Holds.NOT_MEASURED, False))),
)
_MOST_PLOTTED_REBUILDS = 6


_FOOTER = (
    "Bars and points are medians of all repeats; lines through them are intervals that cover the true median (95 % "
    "from six repeats on); small strokes are the individual repeats. Absolute figures of an embedded kernel have "
    "no meaning elsewhere, but ratios and orders do if emulated drives limit the speed."
)
_FEW_RESULTS = 12
"""A list with more results than this is folded at first."""


def _build_page(found: Collected, title: str) -> Page:
    """Build the content of the page. An error message replaces those parts of a result that cannot be shown."""
    problems = list(found.problems)
    sections: list[PageSection] = []
    for experiment, comparison in found.comparisons.items():
        if comparison.rows or comparison.conclusions:
            sections.append(_comparison_section(experiment, comparison))
        else:
            problems.append(f"{experiment}: its results have no dimensionless figure in common")
    sections += [_result_section(each, title) for each, title in zip(found.detailed, _titles(found), strict=True)]
    for experiment, distributions in found.distributions.items():
        if distributions:
            plots = tuple(distribution_plots(distributions))
            count = max(len(each.values) for each in distributions)
            lead = f"{count} results. Each ratio divides the speed of an array by that of the baseline of its result."
            tables = (distribution_table(experiment, distributions),)
            group = PageGroup("Ratios over all results", plots=plots)
            blocks = (group, all_figures(tables, is_open=True))
            sections.append(PageSection(_anchor(experiment), experiment, lead, blocks))
    sections += [
        PageSection(_anchor(table.title), table.title, blocks=(all_figures((table,), is_open=True),))
        for table in found.others
    ]
    return Page(
        title,
        _lead(found),
        tuple(sections),
        problems=tuple(problems),
        overview=_overview(found.detailed),
        contents=_contents(found) if len(found.listed) > 1 else None,
        footer=_FOOTER,
    )


def all_figures(tables: tuple[Table, ...], *, is_open: bool) -> Fold:
    """Return a foldable block with all tables."""
    return Fold("All figures as tables", tables, is_open)


def _titles(found: Collected) -> list[str]:
    """Return the titles of the results. If several have the same title, the machine or the time is added to it."""
    plain = [labels_of(each.record).title for each in found.detailed]
    longer = [f"{title}: {each.machine}" for title, each in zip(plain, found.detailed, strict=True)]
    return [
        title if plain.count(title) == 1 else long if longer.count(long) == 1 else f"{title}: {each.record.created_utc}"
        for title, long, each in zip(plain, longer, found.detailed, strict=True)
    ]


def _comparison_section(experiment: str, comparison: PlatformComparison) -> PageSection:
    hosts = {platform.record.conditions.host_name for platform in comparison.platforms}
    names = "; ".join(platform.name for platform in comparison.platforms)
    return PageSection(
        _anchor(f"machines-{experiment}"),
        f"{experiment}: {'machines' if len(hosts) > 1 else 'runs'} side by side",
        f"IOPS of different machines are not compared, only figures without a unit. {names}.",
        (
            *shown((PageGroup("Figures without a unit", plots=tuple(platform_plots(comparison))),)),
            all_figures(tuple(platform_tables(experiment, comparison)), is_open=True),
        ),
    )


def _lead(found: Collected) -> str:
    count = len(found.listed)
    experiments = len({each.experiment for each in found.listed})
    dates = sorted(each.created_utc[:10] for each in found.listed)
    if not dates:
        return "" if found.others else "No result could be read."
    span = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    results = "1 result" if count == 1 else f"{count} results"
    return f"{results} of {experiments} experiment{'s' if experiments > 1 else ''}, measured {span} (UTC)."


def _contents(found: Collected) -> Fold:
    words = ("result", "experiment", "measured (UTC)", "machine", "cells", "state", "stamps", "left out")
    columns = tuple(Column(word, word in ("cells", "stamps", "left out")) for word in words)
    body = tuple(
        (
            each.id,
            each.experiment,
            each.created_utc,
            each.machine,
            each.cells,
            "complete" if each.is_complete else "INCOMPLETE",
            each.stamps,
            each.problems,
        )
        for each in found.listed
    )
    table, count = Table("Results in this report", columns, body), len(body)
    return Fold(f"{table.title} ({count})", (ShownTable(table, is_titled=False),), is_open=count <= _FEW_RESULTS)


def _overview(detailed: Sequence[Loaded]) -> Table | None:
    body: list[tuple[Value, ...]] = []
    for each in detailed:
        published = find_published(study_of(each.record))
        if not published or not published.findings or not each.record.cells:
            continue
        verdicts = [(found.holds, found.points_there) for found in compared_findings(each.record, published)]
        counts = (sum(verdict in kind for verdict in verdicts) for _, kind in _KINDS)
        body.append((published.title, each.record.experiment, *counts))
    if not body:
        return None
    columns = (Column("study", False), Column("measured as", False), *(Column(words) for words, _ in _KINDS))
    note = "numbers of findings, each a ratio; 'cannot tell' means undecided (a verdict needs at least six repeats)"
    return Table("The studies' findings", columns, tuple(body), (note,))


def _result_section(each: Loaded, title: str) -> PageSection:
    record = each.record
    labels = labels_of(record)
    published = find_published(study_of(record))
    problems = list(each.problems)
    groups: list[PageGroup] = []
    tables: tuple[Table, ...] = ()
    try:
        groups += _groups(each, labels, published, problems)
        tables = tables_of(record)
        if published and published.findings and record.cells:
            groups.insert(0, _findings(record, published, labels))
    except LabError as error:
        problems.append(f"this result can be shown only in part: {error.message}")
    blocks: list[Block] = [*shown(groups)]
    if record.stamps:
        blocks.append(Stamps(tuple(map(explained, record.stamps))))
    if tables:
        blocks.append(all_figures(tables, is_open=False))
    blocks.append(Fold("Conditions of measurement", (Facts(tuple(_facts(record))),)))
    return PageSection(
        _anchor(record.id),
        title,
        labels.question,
        tuple(blocks),
        foremost=foremost(record),
        badges=tuple(_badges(each)),
        problems=tuple(problems),
    )


def shown(groups: Iterable[PageGroup]) -> Iterator[PageGroup]:
    """Yield the groups that have plots or tables."""
    yield from (group for group in groups if group.plots or group.tables)


def _groups(
    each: Loaded, labels: ResultLabels, published: Published | None, problems: list[str]
) -> Iterator[PageGroup]:
    record = each.record
    if own := study_report(study_of(record)):
        yield own.plots(record)
    else:
        settings = grouped(rows(record), lambda row: (row.workload, row.direction))
        # The predicted ratios are for drives, and do not apply if the drives do not limit the speed.
        theory = None if is_without_service_time(record.conditions) else Theory(record)
        beside = beside_theory(record)
        chunks = tuple(chunk_plots(record, settings.values(), labels))
        for (workload, direction), compared in settings.items():
            title = labels.workload(workload)
            both = sum(other == workload for other, _ in settings) > 1
            title = f"{title}: {direction}s" if both else title
            plots = tuple(LevelPlots(compared, labels, published, theory).plots())
            note = "" if title == workload else f"job {workload}"
            yield PageGroup(title, note, plots, warnings=tuple(_off_theory(compared, beside, labels)))
        if chunks:
            note = "arrays that differ only in their chunk size"
            yield PageGroup("Chunk size", note, chunks)
    if record.rebuilds:
        plots = (times_plot(record, labels), *_timelines(each, labels, problems))
        off = [each for each in rebuilds_beside_theory(record) if each.is_off]
        warnings = tuple(f"{OFF_THEORY}: {labels.array(each.array)}: {each.words}" for each in off)
        yield PageGroup("Rebuilds", plots=plots, warnings=warnings)


def _off_theory(compared: Sequence[Row], beside: Sequence[BesideTheory], labels: ResultLabels) -> Iterator[str]:
    """Yield warnings about deviations from theory.

    A mixed load gets a single warning, since it is predicted as a whole.
    """
    shown = {(row.array, row.workload, row.phase) for row in compared}
    for each in beside:
        if each.is_off and (each.array, each.workload, each.phase) in shown:
            phase = "" if each.phase == HEALTHY else f", {each.phase}"
            yield f"{OFF_THEORY}: {labels.array(each.array)}{phase}: {each.words}"


def _timelines(each: Loaded, labels: ResultLabels, problems: list[str]) -> Iterator[Plot]:
    """Yield the timeline of the first rebuild that has one, for each array and load."""
    shown: set[tuple[str, str]] = set()
    for rebuild in each.record.rebuilds:
        key = (rebuild.array, rebuild.under_workload)
        if key in shown or len(shown) == _MOST_PLOTTED_REBUILDS:
            continue
        try:
            timeline = each.timeline(rebuild)
        except LabError as error:
            problems.append(error.message)
            continue
        if timeline:
            shown.add(key)
            yield timeline_plot(rebuild, timeline, labels)


def _findings(record: ResultRecord, published: Published, labels: ResultLabels) -> PageGroup:
    found = compared_findings(record, published)
    columns = (
        *(Column("#"), Column("the study says", False), Column("ratio", False), Column("published")),
        *(Column("theory", form=".2f"), Column("measured [95 %]"), Column("here", False)),
    )
    notes = (
        "Ratios of medians with an interval of 95 %; within 5 % of 1 counts as the same.",
        "Theory assumes that only the members limit the rate, all at the same constant speed.",
    )
    rows = tuple(_finding_row(number, each, labels) for number, each in enumerate(found, 1))
    table = Table("Findings: published, theory, measured, verdict", columns, rows, notes)
    return PageGroup(
        "What the study found, and what was found here",
        plots=(findings_plot(found, labels),),
        tables=(ShownTable(table, is_titled=False, css_class="findings", head_column=1),),
        remarks=published.remarks,
    )


def _finding_row(number: int, each: ComparedFinding, labels: ResultLabels) -> tuple[Value, ...]:
    finding = each.finding
    explanation = finding.difference if is_another(each) else ""
    if each.holds is Holds.CANNOT_TELL:
        agrees = "agrees" if each.points_there else "disagrees"
        explanation = f"The median {agrees} with the study, but {each.reason}. {explanation}".strip()
    elif each.holds is Holds.NOT_MEASURED and each.reason:
        explanation = f"{each.reason}."
    return (
        number,
        Marked(finding.says, why=explanation),
        f"{_unbroken(labels.array(finding.array))} ÷ {_unbroken(labels.array(finding.beside))}",
        published_text(finding),
        each.theory,
        ratio_text(each.measured),
        Marked(each.holds.value, sign=SIGNS[each.holds], css_class=f"verdict {each.holds.name.lower()}"),
    )


def _unbroken(text: str) -> str:
    return text.replace(" ", "\u00a0")


def explained(text: str) -> Stamp:
    """Return a warning with the explanation that its lint rule gives."""
    rest = text.removeprefix("recipe: ")
    rule_id, _, sentence = rest.partition(": ")
    rule = all_rules().get(rule_id)
    if rule is None:
        return Stamp("recipe" if rest != text else "", rest)
    return Stamp(rule.id, sentence, rule.why, rule.remedy)


def _badges(each: Loaded) -> Iterator[str]:
    record = each.record
    yield each.machine
    yield f"{record.created_utc.replace('T', ' ').replace('Z', ' UTC')}"
    repeats = [len(row.cells) for row in rows(record)]
    if repeats:
        span = str(min(repeats)) if min(repeats) == max(repeats) else f"{min(repeats)} to {max(repeats)}"
        yield f"{span} repeat{'s' if span != '1' else ''}"
    if record.missing_keys:
        yield f"INCOMPLETE: {len(record.missing_keys)} cells missing"
    if record.stamps:
        yield f"{len(record.stamps)} stamp{'s' if len(record.stamps) > 1 else ''}"


def _facts(record: ResultRecord) -> Iterator[tuple[str, str]]:
    conditions = record.conditions
    yield "result", record.id
    yield "experiment", record.experiment
    yield "machine", f"{target_words(conditions.target)} ({conditions.host_name})"
    yield "kernel", f"{conditions.kernel_release}, {conditions.architecture}"
    yield "processor", f"{conditions.cpu_count} × {conditions.cpu_model or 'unknown'}"
    yield "memory", human_bytes(conditions.memory_bytes)
    tools = [f"raidlab {record.raidlab_version}", f"mdadm {conditions.mdadm_version}", f"fio {conditions.fio_version}"]
    tools += [f"nbdkit {conditions.nbdkit_version}"] if conditions.nbdkit_version else []
    yield "tools", ", ".join(tools)
    disks: dict[str, int] = {}
    for disk in conditions.disks:
        words = f"{disk.model or disk.kind}, {human_bytes(disk.size_bytes)}"
        words += f", {disk.write_cache}" if disk.write_cache else ""
        disks[words] = disks.get(words, 0) + 1
    if disks:
        yield "disks", "; ".join(f"{count} × {words}" for words, count in disks.items())
    for note in conditions.host_cache_notes:
        yield "caches", note
    yield "time spent", human_seconds(record.timings.total_seconds)


def _anchor(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text)


def _default_title(found: Collected) -> str:
    experiments = list(dict.fromkeys(each.experiment for each in found.listed))
    if not experiments and found.others:
        return "Report on faults"
    if len(found.listed) == 1:
        return f"Report on {experiments[0]}"
    if len(experiments) == 1:
        return f"{len(found.listed)} results of {experiments[0]}"
    few = len(experiments) <= 3
    return f"Report on {', '.join(experiments)}" if few else f"Report on {len(experiments)} experiments"


def html_report(found: Collected, title: str = "") -> str:
    """Return the report as the text of one HTML file.

    Raises RequirementMissing if the extra ``report`` is not installed.
    """
    return render_page(_build_page(found, visible(title or _default_title(found))))


def write_report(found: Collected, folder: Path, name: str, title: str) -> Path:
    """Write a report into ``folder``, and return its path.

    It is HTML, or Markdown if the extra ``report`` is not installed.
    """
    try:
        path, text = folder / f"{name}.html", html_report(found, title)
    except RequirementMissing:
        path, text = folder / f"{name}.md", text_report(found, title, is_markdown=True)
    make_folder(folder)
    write_file(path, text.encode())
    return path


def text_report(found: Collected, title: str = "", *, is_markdown: bool = False) -> str:
    """Return the report for a terminal, or as Markdown."""
    head, bullet = ("# ", "- ") if is_markdown else ("", "  ")

    def line(text: str) -> str:
        return as_line(text, is_markdown)

    parts = [f"{head}{line(title or _default_title(found))}"]
    if found.problems:
        parts.append("\n".join(("Left out or missing:", "", *(f"{bullet}{line(each)}" for each in found.problems))))
    for each in found.detailed:
        parts.append(f"{'## ' if is_markdown else ''}{line(heading(each.record))}")
        if stamp := foremost(each.record):
            parts.append(f"Read this first: {line(stamp)}")
        notes = [*(f"left out or missing: {problem}" for problem in each.problems)]
        try:
            parts += [table.as_document(is_markdown) for table in tables_of(each.record)]
        except LabError as error:
            notes.append(f"this result can be shown only in part: {error.message}")
        notes += shown_stamps(each.record)
        if notes:
            parts.append("\n".join(("Warnings:", "", *(f"{bullet}{line(note)}" for note in notes))))
    parts += [table.as_document(is_markdown) for table in (*_tables_of_many(found), *found.others)]
    return "\n\n".join(parts) + "\n"


def _tables_of_many(found: Collected) -> Iterator[Table]:
    for experiment, comparison in found.comparisons.items():
        yield from platform_tables(experiment, comparison)
    for experiment, distributions in found.distributions.items():
        if distributions:
            yield distribution_table(experiment, distributions)
    if not found.detailed and found.listed:
        columns = (Column("result", False), Column("machine", False), Column("cells"), Column("stamps"))
        body = tuple((each.id, each.machine, each.cells, each.stamps) for each in found.listed)
        yield Table("Results", columns, body)


def csv_report(found: Collected) -> str:
    """Return one result in the columns of its study, or the repeats of several results.

    If there are more than ``MOST_DETAILED`` results, return a line for each ratio to the baseline. Raises ResultError
    if there is none.
    """
    if len(found.listed) == 1 and found.detailed:
        return csv_of(found.detailed[0].record)
    if not found.detailed:
        lines = [
            [experiment, each.array, each.baseline, each.workload, each.direction, f"{value:.6g}"]
            for experiment, distributions in found.distributions.items()
            for each in distributions
            for value in each.values
        ]
        if not lines:
            raise ResultError(
                "no result has two arrays to compare", hint="name fewer results to see the figures of each"
            )
        return as_csv(("experiment", "array", "baseline", "workload", "direction", "ratio"), lines)
    body: list[list[object]] = []
    head: tuple[str, ...] = ()
    for each in found.detailed:
        names, lines_of = figure_lines(each.record)
        head = ("result", "experiment", "machine", *names)
        body += [[each.record.id, each.record.experiment, each.machine or NOTHING, *line] for line in lines_of]
    return as_csv(head, body)
