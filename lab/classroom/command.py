"""``raidlab class``, what a folder of bundles says together, and ``raidlab export``, which makes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from lab.classroom.bundle import DRILLS, LESSONS, export_results
from lab.classroom.practice import practice_of
from lab.classroom.telling import cautions, grading_sheet, practice_tables
from lab.classroom.view import ClassRow, ClassView, view_class
from lab.cli.context import current
from lab.cli.output import out, out_json, table
from lab.cli.progress import ProgressBar
from lab.errors import ResultError
from lab.gates.text import visible
from lab.host.files import write_file
from lab.results.store import ResultStore

_PLOT_WIDTH = 40


def classroom(
    folder: Annotated[Path, Parameter(help="A folder of bundles, one or more for each student.")],
    *,
    experiment: Annotated[str | None, Parameter(help="Only this experiment.")] = None,
    grades: Annotated[
        Path | None, Parameter(help="Also write a sheet for grading, one line a bundle: a .csv file.")
    ] = None,
    page: Annotated[
        Path | None, Parameter(help="Also write one page with pictures that names nobody: a .html file.")
    ] = None,
) -> None:
    """Show what a class measured and practised, with intervals.

    Of each level the speed-up over the student's own disk; of each drill who saved the data, where they erred and how
    long it took; of each lesson who passed. Edited or damaged bundles are named and left out; named are copies, seeds
    that several students share, and values far from the others.
    """
    context = current()
    with ProgressBar(quiet=context.quiet) as bar:
        found = view_class(folder, context.host.state.root / "class", tell=bar.show)
    rows = [row for row in found.rows if experiment in (None, row.experiment)]
    for problem in found.problems.values():
        context.narrator.notice(problem)
    for names in found.copies:
        context.narrator.notice(f"the same measurement: {', '.join(names)}")
    for caution in cautions(found):
        context.narrator.notice(visible(caution))
    if grades is not None:
        write_file(grades, grading_sheet(found).encode())
    if page is not None:
        from lab.classroom.page import class_page
        from lab.report.page.render import render_page

        write_file(page, render_page(class_page(found, f"The class of {visible(folder.resolve().name)}")).encode())
    if context.json:
        out_json({**msgspec.to_builtins(found), "rows": msgspec.to_builtins(rows)})
        return
    if not rows and (experiment or not (found.practice.drills or found.practice.lessons)):
        raise ResultError(
            f"no bundle of '{folder}' has two arrays of one experiment, or practice",
            hint="'raidlab export' makes bundles",
        )
    practised = [] if experiment else [table.as_text() for table in practice_tables(found.practice)]
    out("\n\n".join([_text(found, rows), *practised]))


def _text(found: ClassView, rows: Sequence[ClassRow]) -> str:
    keys = f"{len(found.keys)} key" + ("s" if len(found.keys) != 1 else "")
    parts = [f"{found.results} results in {found.files} bundles, signed by {keys}"]
    for experiment in dict.fromkeys(row.experiment for row in rows):
        group = [row for row in rows if row.experiment == experiment]
        highest = max(row.highest for row in group)
        lines = [
            (
                f"{row.array} ÷ {row.baseline}",
                f"{row.workload}, {row.direction}",
                row.results,
                f"{row.median:.2f}",
                f"{row.first_quartile:.2f}–{row.third_quartile:.2f}",
                f"{row.lowest:.2f}–{row.highest:.2f}",
                box(row, highest),
            )
            for row in group
        ]
        scale = f"0 to {highest:.2f}"
        headings = (experiment, "of", "results", "median", "half of them", "all", scale)
        parts.append(table(headings, lines, right=("results", "median")))
        parts += [
            f"far from the others in {row.array}, {row.workload}: {', '.join(row.far)}" for row in group if row.far
        ]
    return "\n\n".join(parts)


def box(row: ClassRow, highest: float, width: int = _PLOT_WIDTH) -> str:
    """A box plot in one line: all values ─, the middle half █, the median ┃; the scale begins at 0."""

    def place(value: float) -> int:
        return min(width - 1, int(value / highest * width)) if highest > 0 else 0

    line = [" "] * width
    for start, end, mark in ((row.lowest, row.highest, "─"), (row.first_quartile, row.third_quartile, "█")):
        for column in range(place(start), place(end) + 1):
            line[column] = mark
    line[place(row.median)] = "┃"
    return "".join(line).rstrip()


def export(names: Sequence[str], file: Path, practice: bool = False) -> None:
    """``raidlab export``: results, and with ``practice`` all lessons and ended drills, as one signed file."""
    context = current()
    own = practice_of(context.host) if practice else {}
    ids = export_results(ResultStore(context.host.state.results), names, file, own)
    if context.json:
        out_json({"exported": ids, "practice": sorted(own), "file": str(file)})
        return
    counts = [sum(place.startswith(folder) for place in own) for folder in (LESSONS, DRILLS)]
    told = [f"{counts[0]} lessons and {counts[1]} ended drills"] if practice else []
    out(f"{file}: {', '.join([*ids, *told])}")
