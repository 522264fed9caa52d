"""``raidlab results``, stored results; and ``raidlab export``, results as one file, or fio's documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from lab.cli.context import current
from lab.cli.extension import Exporter
from lab.cli.output import out, out_json, table
from lab.errors import RequirementMissing, ResultError
from lab.lint.result_checks import as_shown
from lab.machine.target import target_words
from lab.plugins import extensions
from lab.report.tables import csv_of, render_result
from lab.results.elsewhere import import_results
from lab.results.record import RunStatus
from lab.results.store import RECORD_NAME, ResultStore
from lab.store.runs import LATEST

app = App(name="results", help="Stored results.", help_format="plaintext")


def _store() -> ResultStore:
    return ResultStore(current().host.state.results)


@app.default
def show_list() -> None:
    """List all results, newest first: those measured here, then those imported, then those that cannot be read."""
    context, store = current(), _store()
    found = store.list()
    if context.json:
        out_json(found)
        return
    if not found:
        context.narrator.notice(f"no results in {store.root}; 'raidlab run antioquia-quick' measures some")
        return
    rows = []
    for each in found:
        measured = "" if each.problem else f"{each.measured_count}/{each.planned_count}"
        status = f"damaged: {each.problem}" if each.problem else str(each.status or RunStatus.INCOMPLETE)
        status += ", imported" if each.is_imported else ""
        rows.append((each.id, each.created_utc, each.experiment, target_words(each.target), measured, status))
    out(table(("id", "date", "experiment", "on", "measured", "status"), rows, right=("measured",)))


@app.command
def show(
    name: str = LATEST,
    *,
    markdown: Annotated[bool, Parameter(negative="", help="As Markdown, for a document.")] = False,
    csv: Annotated[bool, Parameter(negative="", help="As CSV, in the columns of its study.")] = False,
) -> None:
    """Show one result by id, the beginning of an id, or 'latest': the newest that was measured here."""
    context = current()
    record = as_shown(_store().load(name))
    if context.json:
        out_json(record)
    elif csv:
        out(csv_of(record).rstrip())
    else:
        out(render_result(record, is_markdown=True) if markdown else render_result(record))


@app.command
def path(name: str = LATEST) -> None:
    """Print the folder of a result."""
    context, store = current(), _store()
    folder = store.root / store.find(name)
    if context.json:
        out_json({"path": str(folder), "record": str(folder / RECORD_NAME)})
    else:
        out(str(folder))


@app.command
def delete(name: str) -> None:
    """Delete one result."""
    context, store = current(), _store()
    # Not by a word that refers to another result later.
    if name == LATEST:
        raise ResultError("'latest' is not deleted", hint="write the id: 'raidlab results' lists them")
    deleted = store.delete(name)
    if context.json:
        out_json({"deleted": deleted})
    else:
        out(f"deleted: {deleted}")


@app.command(name="import")
def take_in(
    source: Annotated[
        Path, Parameter(help="A file of 'raidlab export', or a folder of results from another computer.")
    ],
) -> None:
    """Take in results from elsewhere, checked as a whole before any is stored."""
    context = current()
    new, known = import_results(_store(), source)
    if context.json:
        out_json({"imported": new, "already_there": known})
        return
    if known:
        context.narrator.notice(f"already there: {', '.join(known)}")
    if new:
        out(f"imported: {', '.join(new)}")


@app.command
def raw(name: str, file: str) -> None:
    """Print the document of fio behind a cell, word for word; 'show --json' names the files."""
    store = _store()
    out(store.raw_json(store.find(name), file).rstrip("\n"))


def export(
    *names: Annotated[str, Parameter(help="Results: ids, beginnings of ids, or 'latest'.")],
    to: Annotated[Path, Parameter(help="The file to write, such as results.zip; with --fio-plot a folder.")],
    fio_plot: Annotated[
        bool, Parameter(negative="", show_default=False, help="fio's documents in folders, as fio-plot reads them.")
    ] = False,
    practice: Annotated[
        bool, Parameter(negative="", show_default=False, help="Also all lessons and ended drills, or they alone.")
    ] = False,
) -> None:
    """Write results with fio's documents and checksums to one file; 'raidlab results import' reads it back.

    With --practice: what was done in lessons and drills too, to be handed in; 'raidlab class' reads it.
    With --fio-plot: of each array and workload the document of the repeat with the median IOPS, word for word, and the
    commands that draw them.
    """
    option = "--fio-plot" if fio_plot else ""
    exporter = next((each for each in extensions(Exporter) if each.option == option), None)
    if exporter is None:
        words = f"export {option}".rstrip()
        raise RequirementMissing(f"this raidlab has no plugin for '{words}'", hint="install the whole of it")
    exporter.write(names, to, practice)
