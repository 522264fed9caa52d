"""What the package for bundles and classes adds to raidlab."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lab.cli.context import Command, Exporter
from lab.drills.extension import DrillLosses
from lab.plugins import Plugin
from lab.results.store import ResultFiles, ResultFormat, ResultStore

if TYPE_CHECKING:
    from lab.cli.context import Loaded

_SUFFIX = ".zip"


def _class() -> Loaded:
    from lab.classroom.command import classroom

    return classroom


def _handout() -> Loaded:
    from lab.classroom.command import handout

    return handout


def _export(names: Sequence[str], to: Path, practice: bool) -> None:
    from lab.classroom.command import export

    export(names, to, practice)


def _read(file: Path) -> ResultFiles:
    from lab.classroom.bundle import read_bundle

    return read_bundle(file)


def _write(store: ResultStore, names: Sequence[str], file: Path) -> object:
    from lab.classroom.bundle import export_results

    return export_results(store, names, file)


def _share(folder: str) -> float:
    from lab.classroom.view import lost_in_drills

    return lost_in_drills(folder)


PLUGIN = Plugin(
    (
        Command("class", _class, "Show what a class measured and practised, from a folder of bundles."),
        Command("handout", _handout, "Write pages with keys or lessons for printing."),
        Exporter("", _export),
        ResultFormat(_SUFFIX, _read, _write),
        DrillLosses(_share),
    ),
    folder=Path(__file__).parent,
)
