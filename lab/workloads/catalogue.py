"""The catalogue: one TOML file per workload, those that come with raidlab and those of the user."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from lab.errors import SpecError
from lab.tomlfile import read_toml, unknown_word
from lab.workloads.workload import Workload

BUILT_IN_FOLDER = Path(__file__).with_name("catalogue")


def load_folder(folder: Path) -> dict[str, Workload]:
    """Every ``*.toml`` of a folder by id, sorted. Raises SpecError for a bad file or an id that is given twice."""
    found: dict[str, Workload] = {}
    for path in sorted(folder.glob("*.toml")):
        workload = read_toml(path, Workload)
        if workload.id in found:
            raise SpecError(f"'{path}' has id '{workload.id}', which another file has too", hint="give each its own id")
        found[workload.id] = workload
    return dict(sorted(found.items()))


@cache
def _built_in() -> dict[str, Workload]:
    return load_folder(BUILT_IN_FOLDER)


def all_workloads(user_folder: Path | None = None) -> dict[str, Workload]:
    """The built-in workloads by id, and those of ``user_folder``, which win."""
    return _built_in() | (load_folder(user_folder) if user_folder else {})


def find_workload(name: str, user_folder: Path | None = None) -> Workload:
    """A workload by id, or by the path of a ``.toml`` file.

    Raises SpecError for an unknown name, with the nearest known one.
    """
    if name.endswith(".toml"):
        return read_toml(Path(name), Workload)
    workloads = all_workloads(user_folder)
    if name not in workloads:
        raise unknown_word("workload", name, workloads)
    return workloads[name]
