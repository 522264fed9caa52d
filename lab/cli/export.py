"""``raidlab export``: results as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from lab import __version__
from lab.cli.context import current
from lab.cli.output import out, out_json
from lab.results.exchange import export_results
from lab.results.store import ResultStore


def export(
    *names: Annotated[str, Parameter(help="Results: ids, beginnings of ids, or 'latest'.")],
    to: Annotated[Path, Parameter(help="The file to write, such as results.zip.")],
) -> None:
    """Write results with fio's documents and checksums to one file; 'raidlab results import' reads it back."""
    context = current()
    ids = export_results(ResultStore(context.host.state.results), names, to, raidlab_version=__version__)
    if context.json:
        out_json({"exported": ids, "file": str(to)})
    else:
        out(f"{to}: {', '.join(ids)}")
