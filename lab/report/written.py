"""Reports in all output formats."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lab.errors import LabError, RequirementMissing, ResultError
from lab.gates.text import visible
from lab.host.files import make_folder, write_file
from lab.report.collected import Collected, distribution_table
from lab.report.tables import cautions, csv_of, figure_lines, foremost, heading, platform_tables, tables_of
from lab.tables import NOTHING, Column, Table, as_csv, as_line


def default_title(found: Collected) -> str:
    """The title of a report for which none was given."""
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
    """The report as one HTML file. Raises RequirementMissing without the extra ``report``."""
    from lab.report.page.blocks import render_page
    from lab.report.page.build import build_page

    return render_page(build_page(found, visible(title or default_title(found))))


def write_report(found: Collected, folder: Path, name: str, title: str) -> Path:
    """Write a report into ``folder``: HTML, or Markdown without the extra ``report``. Returns its path."""
    try:
        path, text = folder / f"{name}.html", html_report(found, title)
    except RequirementMissing:
        path, text = folder / f"{name}.md", text_report(found, title, is_markdown=True)
    make_folder(folder)
    write_file(path, text.encode())
    return path


def text_report(found: Collected, title: str = "", *, is_markdown: bool = False) -> str:
    """The report for a terminal, or as Markdown."""
    head, bullet = ("# ", "- ") if is_markdown else ("", "  ")

    def line(text: str) -> str:
        return as_line(text, is_markdown)

    parts = [f"{head}{line(title or default_title(found))}"]
    if found.problems:
        parts.append("\n".join(("Left out or missing:", "", *(f"{bullet}{line(each)}" for each in found.problems))))
    for each in found.detailed:
        parts.append(f"{'## ' if is_markdown else ''}{line(heading(each.record))}")
        if said := foremost(each.record):
            parts.append(f"First of all: {line(said)}")
        notes = [*(f"left out or missing: {problem}" for problem in each.problems)]
        try:
            parts += [_form(table, is_markdown) for table in tables_of(each.record)]
        except LabError as error:
            notes.append(f"this result can be shown only in part: {error.message}")
        notes += cautions(each.record)
        if notes:
            parts.append("\n".join(("Be careful:", "", *(f"{bullet}{line(note)}" for note in notes))))
    parts += [_form(table, is_markdown) for table in (*_tables_of_many(found), *found.others)]
    return "\n\n".join(parts) + "\n"


def _form(table: Table, is_markdown: bool) -> str:
    return table.as_markdown() if is_markdown else table.as_text()


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
    """The report as CSV: one result in the columns of its study, or all repeats of several results in one table.

    More results than ``MOST_DETAILED`` give one line per ratio to the baseline. Raises ResultError if no result then
    has two arrays.
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
            raise ResultError("no result has two arrays to compare", hint="name fewer, for each one's figures")
        return as_csv(("experiment", "array", "baseline", "workload", "direction", "ratio"), lines)
    body: list[list[object]] = []
    head: tuple[str, ...] = ()
    for each in found.detailed:
        names, lines_of = figure_lines(each.record)
        head = ("result", "experiment", "machine", *names)
        body += [[each.record.id, each.record.experiment, each.machine or NOTHING, *line] for line in lines_of]
    return as_csv(head, body)
