"""``raidlab export``: results as one file, or fio's documents for another program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from lab import __version__
from lab.cli.context import current
from lab.cli.output import out, out_json
from lab.errors import ResultError
from lab.results.exchange import export_results
from lab.results.store import ResultStore


def export(
    *names: Annotated[str, Parameter(help="Results: ids, beginnings of ids, or 'latest'.")],
    to: Annotated[Path, Parameter(help="The file to write, such as results.zip; with --fio-plot a folder.")],
    fio_plot: Annotated[
        bool, Parameter(negative="", show_default=False, help="fio's documents in folders, as fio-plot reads them.")
    ] = False,
) -> None:
    """Write results with fio's documents and checksums to one file; 'raidlab results import' reads it back.

    With --fio-plot: of each array and workload the document of the repeat with the median IOPS, word for word, and the
    commands that draw them.
    """
    if fio_plot:
        _for_fio_plot(names, to)
        return
    context = current()
    ids = export_results(ResultStore(context.host.state.results), names, to, raidlab_version=__version__)
    if context.json:
        out_json({"exported": ids, "file": str(to)})
    else:
        out(f"{to}: {', '.join(ids)}")


def _for_fio_plot(names: tuple[str, ...], folder: Path) -> None:
    from lab.report.fio_plot import commands, export_for_fio_plot
    from lab.report.sources import Loaded, each_result

    context = current()
    found = list(each_result(names or ("latest",), ResultStore(context.host.state.results)))
    problems = [each for each in found if isinstance(each, str)]
    drawn = [export_for_fio_plot(each, folder) for each in found if isinstance(each, Loaded)]
    files = [str(path) for each in drawn for path in each.files]
    for problem in (*problems, *(f"left out: {reason}" for each in drawn for reason in each.left_out)):
        context.narrator.notice(problem)
    if not files:
        raise ResultError("there is no document that fio-plot could draw", hint="'raidlab results' lists what there is")
    lines = tuple(commands(drawn))
    if context.json:
        out_json({"files": files, "commands": lines, "problems": problems})
        return
    context.narrator.notice(f"{len(files)} documents in {folder}; these draw them:")
    out("\n".join(lines))
