"""The commands that show, check, compare and export stored results, and write reports about them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from lab.cli.arguments import flag, number
from lab.cli.context import CollectionReport, Context, Exporter, current, fitted, out, out_json, output_columns, table
from lab.compare import (
    CONDITIONS,
    Compared,
    Comparison,
    PlatformComparison,
    UnlikeRuns,
    compare_platforms,
    platform_of,
    require_alike,
)
from lab.compare import compare as compare_cells
from lab.errors import ExitCode, LabError, RequirementMissing, ResultError, SpecError
from lab.experiments.linting import lint_experiment
from lab.experiments.schema import built_in_names, find_experiment
from lab.gates.decoding import Margin, parse_toml
from lab.gates.files import MOST_RECORD_BYTES, read_text
from lab.host.files import write_file
from lab.lint.experiment_checks import as_shown, lint_result, shown_stamps, worked_out_stamps
from lab.lint.fio_checks import lint_fio, lint_job_file
from lab.lint.rules import Effect, FileLint, LintFinding, LintRule, PublicationLint, all_rules, distinct, find_rule
from lab.machine.target import target_words
from lab.plugins import extension, extensions
from lab.report.tables import TOO_FEW, csv_of, platform_tables, render_result, transfer_counts
from lab.results.record import RunStatus
from lab.results.rows import grouped
from lab.results.statistics import DEFAULT_MARGIN, RatioOutcome
from lab.results.store import (
    RECORD_NAME,
    ResultStore,
    decode_record,
    find_results,
    import_results,
    is_file_name,
    read_files,
)
from lab.store import LATEST
from lab.tables import Table
from lab.tomlfile import toml_text
from lab.units import KIB, counted
from lab.workloads.workload import LoadProgram, find_workload

app = App(name="results", help_format="plaintext")


@app.default
def show_list() -> None:
    """List measured, then imported, then unreadable results, with the newest of each first."""
    context = current()
    found = context.results.list()
    if context.json:
        out_json(found)
        return
    if not found:
        context.narrator.notice(f"no results in {context.results.root}; 'raidlab run antioquia-quick' measures some")
        return
    rows = []
    for each in found:
        measured = "" if each.problem else f"{each.measured_count}/{each.planned_count}"
        status = f"damaged: {each.problem}" if each.problem else str(each.status or RunStatus.INCOMPLETE)
        status += ", imported" if each.is_imported else ""
        # An imported result may have any name as its id.
        has_name = bool(each.problem) or each.experiment in each.id
        status += "" if has_name else f", {each.experiment} of {each.created_utc[:10]}"
        rows.append((each.id, target_words(each.target), measured, status))
    # The id of a result measured here contains the date and the experiment.
    out(table(("id", "on", "measured", "status"), rows, right=("measured",)))


@app.command
def show(
    name: str = LATEST,
    *,
    markdown: Annotated[bool, flag("Write Markdown, for a document.")] = False,
    csv: Annotated[bool, flag("Write CSV, with the columns of the result's study.")] = False,
) -> None:
    """Show one result, specified by an id, a prefix of an id, or 'latest' (the newest that was measured here)."""
    context = current()
    record = as_shown(context.results.load(name))
    if context.json:
        out_json(record)
    elif csv:
        out(csv_of(record).rstrip())
    else:
        out(render_result(record, is_markdown=markdown, most_columns=output_columns()))


@app.command
def path(name: str = LATEST) -> None:
    """Print the folder of a result."""
    context = current()
    folder = context.results.root / context.results.find(name)
    context.out({"path": str(folder), "record": str(folder / RECORD_NAME)}, str(folder))


@app.command
def delete(name: str) -> None:
    """Delete one result."""
    context = current()
    # After each run, 'latest' refers to a different result.
    if name == LATEST:
        raise ResultError("'latest' cannot be deleted", hint="give the id; 'raidlab results' lists the ids")
    deleted = context.results.delete(name)
    context.out({"deleted": deleted}, f"deleted: {deleted}")


@app.command(name="import")
def take_in(
    source: Annotated[
        Path, Parameter(help="A file from 'raidlab export', or a folder of results from another computer.")
    ],
) -> None:
    """Import results from another computer. All are checked before any is stored."""
    context = current()
    new, known = import_results(context.results, source)
    if context.json:
        out_json({"imported": new, "already_there": known})
        return
    if known:
        context.narrator.notice(f"already stored: {', '.join(known)}")
    if new:
        out(f"imported: {', '.join(new)}")


@app.command
def raw(name: str, file: str) -> None:
    """Print fio's output for a cell, verbatim. 'show --json' lists the files."""
    store = current().results
    out(store.raw_json(store.find(name), file).rstrip("\n"))


def export(
    *names: Annotated[str, Parameter(help="Results: ids, prefixes of ids, or 'latest'.")],
    to: Annotated[Path, Parameter(help="The file to write, such as results.zip, or with --fio-plot the folder.")],
    fio_plot: Annotated[bool, flag("Write folders of fio's figures for fio-plot.")] = False,
    practice: Annotated[
        bool, flag("Also export lessons and finished drills. Without NAMES, export only these.")
    ] = False,
) -> None:
    """Write results with fio's output and checksums to one file, which 'raidlab results import' reads back.

    With --practice, the file also contains the work in lessons and drills, to hand in. 'raidlab class' reads it. With
    --fio-plot, a folder is written. It contains fio's figures for the measured interval of the repeat with the median
    IOPS, for each array and workload. The commands that draw the plots are printed.
    """
    option = "--fio-plot" if fio_plot else ""
    exporter = next((each for each in extensions(Exporter) if each.option == option), None)
    if exporter is None:
        words = f"export {option}".rstrip()
        raise RequirementMissing(f"this raidlab has no plugin for '{words}'", hint="install the complete raidlab")
    exporter.write(names, to, practice)


FIO_SUFFIXES = (".fio", ".job")
_MOST_RECIPE_BYTES = 64 * KIB
_AS_PUBLISHED = "-as-published"


def lint(
    name: Annotated[
        str | None,
        Parameter(
            help="An experiment, a result, or a file: .toml experiment or workload, .fio job, .sh recipe, "
            "record.json, .zip bundle. By default the rules are listed."
        ),
    ] = None,
    *,
    explain: Annotated[str | None, Parameter(help="Explain one rule: its reason, its remedy and its source.")] = None,
) -> int:
    """List what makes a measurement untrustworthy, and what is not checked. Exits with status 1 if a rule is broken."""
    context = current()
    if explain is not None:
        _show_rule(find_rule(explain), context)
        return ExitCode.DONE
    if name is None:
        rules = tuple(all_rules().values())
        rows = [(rule.id, rule.effect.value, rule.says) for rule in rules]
        context.out(rules, table(("rule", "effect", "what is wrong"), rows))
        return ExitCode.DONE
    found = distinct(_findings_of(name, context.results))
    if context.json:
        out_json([_finding_value(each) for each in found])
    elif found:
        out(_text(found))
    else:
        context.narrator.notice(f"{name}: no rule is broken")
    return ExitCode.FAILED if any(not each.is_note for each in found) else ExitCode.DONE


def _findings_of(name: str, store: ResultStore) -> Iterable[LintFinding]:
    path = Path(name)
    added = {each.suffix: each.lint for each in extensions(FileLint)}
    lint_text = lint_job_file if path.suffix in FIO_SUFFIXES else added.get(path.suffix)
    if lint_text:
        text = read_text(path, _MOST_RECIPE_BYTES)
        try:
            return tuple(lint_text(text))
        except SpecError as error:
            raise SpecError(f"'{path}': {error.message}", hint=error.hint) from None
    if path.suffix == ".json":
        return lint_result(decode_record(read_text(path, MOST_RECORD_BYTES).encode(), source=name))
    if path.suffix and is_file_name(path.name):
        files = read_files(path)
        return [finding for result_id in files.ids for finding in lint_result(files.record(result_id))]
    # Only workloads have this key, not experiments.
    if path.suffix == ".toml" and "direction" in parse_toml(toml_text(path), source=name):
        workload = find_workload(name)
        return lint_fio(workload.recipe) if workload.program is LoadProgram.FIO else ()
    if path.suffix == ".toml" or name in built_in_names():
        return lint_experiment(find_experiment(name)[0])
    publications = extension(PublicationLint)
    studies = publications.names() if publications else ()
    study = name.removesuffix(_AS_PUBLISHED)
    if publications and study != name and study in studies:
        return publications.lint(study)
    try:
        return lint_result(store.load(name))
    except LabError as error:
        known = ", ".join((*built_in_names(), *(f"{each}{_AS_PUBLISHED}" for each in studies)))
        error.hint = f"{error.hint}; experiments: {known}"
        raise


def _finding_value(finding: LintFinding) -> dict[str, str]:
    seen = {key: getattr(finding, key) for key in ("subject", "observed", "required")}
    return {"rule": finding.rule_id, **seen, "effect": finding.rule.effect.value, "remedy": finding.rule.remedy}


def _text(found: tuple[LintFinding, ...]) -> str:
    rows = [(each.rule_id, each.rule.effect.value, each.subject, each.observed, each.required) for each in found]
    lines = [table(("rule", "effect", "where", "found", "needed"), rows), ""]
    lines += [f"{name}: {find_rule(name).remedy}" for name in dict.fromkeys(each.rule_id for each in found)]
    return "\n".join(lines)


def _show_rule(rule: LintRule, context: Context) -> None:
    effect = {
        Effect.REFUSE: "the run is refused",
        Effect.STAMP: "the result is stamped with it",
        Effect.NOTE: "nothing is wrong, but it is not checked",
    }[rule.effect]
    context.out(
        rule, f"{rule.id}: {rule.says} ({effect})\n\nwhy:    {rule.why}\nremedy: {rule.remedy}\nsource: {rule.source}"
    )


_LETTERS = 26


def compare(
    *names: Annotated[
        str,
        Parameter(help="Two or more results (ids, prefixes of ids, 'latest'), bundles (.zip), or folders of bundles."),
    ],
    platforms: Annotated[
        bool, flag("Compare machines, in ratios only. This is implied by bundles and by more than two results.")
    ] = False,
    allow: Annotated[
        list[str] | None,
        Parameter(negative="", help=f"A difference to allow: {', '.join(CONDITIONS)} or all. May be repeated."),
    ] = None,
    margin: Annotated[float, number(Margin, help="Ratios this close to 1 count as no difference.")] = DEFAULT_MARGIN,
) -> None:
    """Compare two results from one machine cell by cell, or results from several machines by ratios.

    For two results, show by how much the second is faster or slower. For several machines, do not compare raw figures,
    but the speed-up over each machine's own single disk, the share of the theoretical value, the order of the levels,
    the CPU cost and the rebuild rate. Also show which conclusions from the first machine hold on the others.
    """
    if platforms or len(names) != 2 or any(map(is_file_name, names)):
        _show_platforms(names, margin)
    else:
        _compare_two(names[0], names[1], allow or (), margin)


def _compare_two(first: str, second: str, allow: Sequence[str], margin: float) -> None:
    context = current()
    before, after = context.results.load(first), context.results.load(second)
    try:
        allowed = require_alike(before, after, allow)
    except UnlikeRuns as error:
        error.hint += f"; for ratios only: raidlab compare --platforms {first} {second}"
        raise
    found = compare_cells(before, after, margin=margin)
    for each in allowed:
        context.narrator.notice(f"allowed: {each.sentence}")
    for name, only in ((before.id, found.only_first), (after.id, found.only_second)):
        if only:
            context.narrator.notice(f"only in {name}: {', '.join(only)}")
    for record in (before, after):
        for stamp in worked_out_stamps(record):
            context.narrator.notice(f"{record.id}: {stamp}")
    if context.json:
        stamps = {record.id: shown_stamps(record) for record in (before, after)}
        value = {"first": before.id, "second": after.id, "margin": margin, "allowed": allowed, "stamps": stamps}
        out_json({**msgspec.to_builtins(value), **msgspec.to_builtins(found)})
    else:
        out(_compare_text(found))


def _compare_text(found: Comparison) -> str:
    headings = ("array", "workload", "phase", "figure", "first", "second", "ratio", "interval", "second is")
    lines = [fitted(Table.listing(headings, map(_row, found.rows), right=("first", "second", "ratio")))]
    reasons = Counter(each.reason for each in found.rows if each.reason)
    return "\n".join([*lines, *(f"{RatioOutcome.CANNOT_TELL} ({count}): {why}" for why, count in reasons.items())])


def _row(each: Compared) -> tuple[str, ...]:
    ratio, interval = "", ""
    if each.ratio:
        ratio = f"{each.ratio.median:.2f}"
        covered = f"{each.ratio.low:.2f} to {each.ratio.high:.2f} ({100 * each.ratio.coverage:.0f} %)"
        interval = covered if each.ratio.has_enough else TOO_FEW
    # Four significant digits would be printed with an exponent from 10,000 on.
    medians = (f"{value:.0f}" if value >= 9999.5 else f"{value:.4g}" for value in (each.first, each.second))
    return (each.array, each.workload, each.phase, each.figure, *medians, ratio, interval, str(each.outcome))


def _show_platforms(names: Sequence[str], margin: float) -> None:
    context = current()
    named = list(find_results(names, context.results))
    platforms = [platform_of(each.record) for each in named if not isinstance(each, str)]
    found: dict[str, PlatformComparison] = {}
    problems = [each for each in named if isinstance(each, str)]
    for experiment, group in grouped(platforms, lambda each: each.record.experiment).items():
        if len(group) < 2:
            problems.append(f"arm-missing: {experiment} was measured on {group[0].name} only")
            continue
        try:
            found[experiment] = compare_platforms(group, margin=margin)
        except SpecError as error:
            problems.append(error.message)
            continue
        problems += found[experiment].left_out
        for each in found[experiment].platforms:
            problems += [
                f"{each.name}: {each_problem}" for each_problem in (*each.problems, *worked_out_stamps(each.record))
            ]
    for problem in problems:
        context.narrator.notice(problem)
    if not found:
        raise ResultError(
            f"nothing can be compared: {'; '.join(problems) or 'no result was specified'}",
            hint="name results of the same experiment from two or more machines",
        )
    context.out(
        {"problems": problems, "experiments": {name: _compare_plain(each) for name, each in found.items()}},
        "\n\n".join(_platforms_text(name, each) for name, each in found.items()),
    )


def _compare_plain(found: PlatformComparison) -> dict[str, object]:
    """Return a comparison for JSON, without the records themselves, which are in the bundles."""
    names = [{"name": each.name, "result": each.record.id} for each in found.platforms]
    value = {"rows": found.rows, "agreements": found.agreements, "conclusions": found.conclusions}
    return {"platforms": names, **msgspec.to_builtins(value)}


def _platforms_text(experiment: str, found: PlatformComparison) -> str:
    """Return the comparison as text, with letters for the machines to keep the tables narrow."""
    letters = [chr(ord("A") + place) if place < _LETTERS else str(place + 1) for place in range(len(found.platforms))]
    machines = [f"{letter}: {each.name}" for letter, each in zip(letters, found.platforms, strict=True)]
    tables = [
        "\n".join(
            [
                fitted(replace(each, title="", notes=())),
                *(note for note in each.notes if note.startswith((str(RatioOutcome.CANNOT_TELL), TOO_FEW))),
            ]
        )
        for each in platform_tables(experiment, found, letters)
    ]
    summaries = [
        f"of {counted(len(found.conclusions), 'conclusion')} on A, on {name}: "
        f"{transfer_counts(found, place) or 'none can be compared'}"
        for place, name in enumerate(letters[1:])
    ]
    last = tables[-1:] if found.conclusions else []
    others = tables[:-1] if found.conclusions else tables
    heading = "\n".join([f"{experiment} on {len(machines)} machines", *machines])
    return "\n\n".join([heading, *others, *summaries, *last])


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
        Parameter(help="Results (ids, prefixes of ids, 'latest'), bundles (.zip), folders of either, or one sweep."),
    ],
    format: Annotated[  # noqa: A002 - the word for it on a command line
        Format | None, Parameter(help="Format. By default, it follows from the file's extension, or is text.")
    ] = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="The file to write.")] = None,
    title: Annotated[str, Parameter(help="The report's title.")] = "",
    faults: Annotated[
        str | None, Parameter(help="Also include the verdicts of this run of fault scenarios (an id, or 'latest').")
    ] = None,
) -> None:
    """Write a report with figures, confidence intervals, theory, published numbers, plots, conditions and cautions.

    An HTML report is one self-contained file. Results that cannot be read are only listed. If there are more than
    twelve results, they are shown as distributions.
    """
    from lab.faults.scenario_run import load_run, outcome_table
    from lab.report.collected import collect, each_result
    from lab.report.page.build import csv_report, html_report, text_report

    context = current()
    if _is_of_collection(names, format, output, title, context, has_faults=faults is not None):
        return
    chosen = _fitting(format or _by_ending(output), output, context, has_faults=bool(faults))
    others = (outcome_table(load_run(context.host, faults)),) if faults else ()
    selected = names or (() if others else ("latest",))
    found = collect(each_result(selected, context.results) if selected else (), others=others)
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
    write_file(output, text.encode())
    ids = [each.id for each in found.listed]
    context.out(
        {"file": str(output), "format": chosen, "results": ids, "problems": found.problems},
        f"{output}: {len(ids)} result{'s' if len(ids) != 1 else ''}, {len(text.encode()) / 1e6:.1f} MB",
    )


def _is_of_collection(
    names: tuple[str, ...],
    chosen: Format | None,
    output: Path | None,
    title: str,
    context: Context,
    *,
    has_faults: bool,
) -> bool:
    """Write the report if it covers a collection, such as a sweep. Return whether it does."""
    # With --json and without a format or an output file, the report is the collection's own JSON document.
    kind = chosen or ("json" if context.json and output is None else "")
    reports = (
        each.write(names, kind, output, title, context.host, not has_faults) for each in extensions(CollectionReport)
    )
    message = next((message for message in reports if message is not None), None)
    if message is not None:
        out_json({"file": str(output), "told": message}) if context.json and output else out(message)
    return message is not None


def _fitting(chosen: Format, output: Path | None, context: Context, *, has_faults: bool) -> Format:
    if output is None and context.json:
        raise SpecError(
            "a report cannot be printed as JSON",
            hint="use 'raidlab --json results show ID' to print all figures, or add --output",
        )
    if chosen is Format.HTML and output is None and sys.stdout.isatty():
        raise SpecError("an HTML report cannot be shown on a terminal", hint="add --output report.html")
    if has_faults and chosen is Format.CSV:
        raise SpecError("verdicts on faults cannot be written to a CSV file", hint="use 'raidlab fault show --json'")
    return chosen


def _by_ending(output: Path | None) -> Format:
    ending = output.suffix.lower() if output else ""
    if ending and ending not in _SUFFIXES:
        raise SpecError(
            f"'{output}': a report cannot be written as {ending}", hint=f"use {', '.join(_SUFFIXES)}, or add --format"
        )
    return _SUFFIXES.get(ending, Format.TEXT)
