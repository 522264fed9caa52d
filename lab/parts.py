"""Parts of raidlab that may be left out. Each is a folder of this package, and one line here.

The folder's ``__init__`` says in ``PART`` what it adds, and where; nothing else imports anything of it. Files that it
adds to a catalogue lie in it as the catalogue lies here: ``lessons/course/`` in a part holds lessons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDERS = (
    "lab.adapt",
    "lab.classroom",
    "lab.publications",
    "lab.fio_plot",
    "lab.md_tests",
    "lab.sweep",
    "lab.fleet",
)
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Part:
    """What one part adds. Functions are written ``module:name``, and loaded when they are used."""

    commands: tuple[tuple[str, str, str], ...] = ()
    """Sub-commands of ``raidlab``: name, function, help. ``array capacity`` is one of ``raidlab array``."""
    adds: Mapping[str, str] = field(default_factory=dict)
    """Place that is open to parts, such as ``lint .sh`` -> function, or whatever else belongs there."""


@cache
def parts() -> tuple[Part, ...]:
    """Those that are there."""
    return tuple(import_module(folder).PART for folder in FOLDERS)


def loaded(place: str) -> Any:
    """What is written ``module:name``."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def all_added(place: str) -> tuple[Any, ...]:
    """What the parts have for a place that takes several."""
    return tuple(loaded(part.adds[place]) for part in parts() if place in part.adds)


def added(place: str) -> Any:
    """The function that a part has for a place; None if there is none."""
    return next(iter(all_added(place)), None)


def commands(above: str = "") -> Iterator[tuple[str, str, str]]:
    """The sub-commands that parts add to ``raidlab``, or to one of its commands."""
    for part in parts():
        for words, place, text in part.commands:
            before, _, name = words.rpartition(" ")
            if before == above:
                yield name, place, text


def catalogue(folder: Path) -> dict[str, Path]:
    """The TOML files of a folder of this package and of the same folder in every part, by their names' stems."""
    inside = folder.relative_to(_HERE)
    folders = (folder, *(_HERE.parent.joinpath(*part.split("."), inside) for part in FOLDERS))
    found = {path.stem: path for each in folders for path in each.glob("*.toml")}
    return {stem: found[stem] for stem in sorted(found)}
