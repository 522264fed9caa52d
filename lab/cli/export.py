"""``raidlab export``: results as one file, or fio's documents for another program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from lab.cli.extension import Exporter
from lab.errors import RequirementMissing
from lab.plugins import extensions


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
