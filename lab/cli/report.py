"""``raidlab report``: results as a single document."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from lab.cli.context import Context, current
from lab.cli.extension import CollectionReport
from lab.cli.output import out, out_json
from lab.errors import SpecError
from lab.plugins import extensions
from lab.results.store import ResultStore


class Format(StrEnum):
    """Output formats of a report."""

    HTML = "html"
    MARKDOWN = "markdown"
    CSV = "csv"
    TEXT = "text"


_SUFFIXES = {".html": Format.HTML, ".htm": Format.HTML, ".md": Format.MARKDOWN, ".csv": Format.CSV, ".txt": Format.TEXT}


def report(
    *names: Annotated[
        str,
        Parameter(help="Results (ids, beginnings of ids, 'latest'), bundles (.zip), folders of either, or one sweep."),
    ],
    format: Annotated[  # noqa: A002 - the word for it on a command line
        Format | None, Parameter(help="How to write it; without it, as the file's ending says, else as text.")
    ] = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="The file to write.")] = None,
    title: Annotated[str, Parameter(help="The report's title.")] = "",
    faults: Annotated[
        str | None, Parameter(help="Also the verdicts of a run of fault scenarios: its id, or 'latest'.")
    ] = None,
) -> None:
    """Write a report: figures with intervals, theory and published numbers beside them, plots, conditions, cautions.

    HTML is one file with everything in it, that opens without a network. Results that cannot be read are named in the
    report, which covers the rest. More than twelve results become distributions.
    """
    from lab.faults.scenario_run import load_run, outcome_table
    from lab.report.collected import collect, each_result
    from lab.report.written import csv_report, html_report, text_report

    context = current()
    if _is_of_collection(names, format, output, title, context, has_faults=faults is not None):
        return
    chosen = format or _by_ending(output)
    if chosen is Format.HTML and output is None and sys.stdout.isatty():
        raise SpecError("an HTML report is for a browser, not for a terminal", hint="add --output report.html")
    if faults and chosen is Format.CSV:
        raise SpecError("verdicts on faults have no place in a CSV file", hint="use 'raidlab fault show --json'")
    others = (outcome_table(load_run(context.host, faults)),) if faults else ()
    wanted = names or (() if others else ("latest",))
    found = collect(each_result(wanted, ResultStore(context.host.state.results)) if wanted else (), others=others)
    for problem in found.problems:
        context.narrator.notice(problem)
    for each in found.detailed:
        for problem in each.problems:
            context.narrator.notice(f"{each.record.id}: {problem}")
    match chosen:
        case Format.HTML:
            text = html_report(found, title)
        case Format.CSV:
            text = csv_report(found)
        case _:
            text = text_report(found, title, is_markdown=chosen is Format.MARKDOWN)
    if output is None:
        out(text.rstrip("\n"))
        return
    from lab.host.files import write_file

    write_file(output, text.encode())
    ids = [each.id for each in found.listed]
    if context.json:
        out_json({"file": str(output), "format": chosen, "results": ids, "problems": found.problems})
    else:
        out(f"{output}: {len(ids)} result{'s' if len(ids) != 1 else ''}, {len(text.encode()) / 1e6:.1f} MB")


def _is_of_collection(
    names: tuple[str, ...],
    chosen: Format | None,
    output: Path | None,
    title: str,
    context: Context,
    *,
    has_faults: bool,
) -> bool:
    """Whether this is the report of a collection, such as a sweep; if so, it is written."""
    # Without an output file and a format it is the collection's own document, as for every command with --json.
    kind = chosen or ("json" if context.json and output is None else "")
    reports = (
        each.write(names, kind, output, title, context.host, not has_faults) for each in extensions(CollectionReport)
    )
    told = next((told for told in reports if told is not None), None)
    if told is not None:
        out_json({"file": str(output), "told": told}) if context.json and output else out(told)
    return told is not None


def _by_ending(output: Path | None) -> Format:
    """The format for the file's suffix. Raises SpecError for an unknown suffix."""
    ending = output.suffix.lower() if output else ""
    if ending and ending not in _SUFFIXES:
        raise SpecError(
            f"'{output}': a report cannot be a {ending} file", hint=f"use {', '.join(_SUFFIXES)}, or say --format"
        )
    return _SUFFIXES.get(ending, Format.TEXT)
