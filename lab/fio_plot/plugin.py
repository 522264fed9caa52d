"""The export for fio-plot, as a plugin of raidlab."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lab.cli.context import Exporter
from lab.errors import SpecError
from lab.plugins import Plugin


def _export(names: Sequence[str], to: Path, practice: bool) -> None:
    from lab.fio_plot.documents import export

    if practice:
        raise SpecError("fio-plot cannot draw lessons or drills", hint="leave out --fio-plot or --practice")
    export(names, to)


PLUGIN = Plugin((Exporter("--fio-plot", _export),))
