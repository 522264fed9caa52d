"""Optional parts of raidlab. Each is a folder of this package, and one line here.

``PART`` in the folder's ``__init__`` declares its additions and their places; no other code imports the folder. Its
additions to a catalogue have the same folder layout as the catalogue here: ``lessons/course/`` in a part holds lessons.
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
    """The additions of one part. Functions are written ``module:name``, and loaded on first use."""

    commands: tuple[tuple[str, str, str], ...] = ()
    """Sub-commands of ``raidlab``: name, function, help. ``array capacity`` is one of ``raidlab array``."""
    adds: Mapping[str, str] = field(default_factory=dict)
    """Extension point, such as ``lint .sh`` -> function, or another object as the extension point requires."""


@cache
def parts() -> tuple[Part, ...]:
    """The installed parts."""
    return tuple(import_module(folder).PART for folder in FOLDERS)


def loaded(place: str) -> Any:
    """The object with the name ``module:name``."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def all_added(place: str) -> tuple[Any, ...]:
    """All objects of the parts for an extension point that allows several."""
    return tuple(loaded(part.adds[place]) for part in parts() if place in part.adds)


def added(place: str) -> Any:
    """The function of a part for an extension point; None if there is none."""
    return next(iter(all_added(place)), None)


def commands(above: str = "") -> Iterator[tuple[str, str, str]]:
    """The sub-commands that parts add to ``raidlab``, or to one of its commands."""
    for part in parts():
        for words, place, text in part.commands:
            before, _, name = words.rpartition(" ")
            if before == above:
                yield name, place, text


def catalogue(folder: Path) -> dict[str, Path]:
    """The TOML files of a folder of this package and of the same folder in every part, by file name without suffix."""
    inside = folder.relative_to(_HERE)
    folders = (folder, *(_HERE.parent.joinpath(*part.split("."), inside) for part in FOLDERS))
    found = {path.stem: path for each in folders for path in each.glob("*.toml")}
    return {stem: found[stem] for stem in sorted(found)}
