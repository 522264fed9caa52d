"""Plugins: packages that add to raidlab, found by the ``raidlab.plugins`` entry points of the installed packages.

An entry point names a ``Plugin``, by convention ``PLUGIN`` in its package's ``plugin`` module. It adds extensions:
a package that can be extended declares a NamedTuple for each extension point. Functions in
extensions import what they need when they are called, so a plugin costs little before it is used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from lab.errors import LabError

GROUP = "raidlab.plugins"
_HERE = Path(__file__).parent


E = TypeVar("E", bound=tuple[Any, ...])


@dataclass(frozen=True, slots=True)
class Plugin:
    """The extensions that one package adds."""

    extensions: tuple[tuple[Any, ...], ...] = ()
    """Each a NamedTuple that the extended package declares."""
    folder: Path | None = None
    """A folder with the layout of this package: its ``lessons/course/`` adds lessons, and so on (``catalogue``)."""


@cache
def plugins() -> tuple[Plugin, ...]:
    """All installed plugins, by name. Raises LabError for one that cannot be imported."""
    places = sorted(entry_points().items())
    if not places:
        raise LabError("this raidlab is installed without its plugins", hint="install it again: 'make lab' in a clone")
    return tuple(plugin for name, place in places if (plugin := _loaded(name, place)))


def extensions(kind: type[E]) -> tuple[E, ...]:
    """The extensions of this kind, from all plugins."""
    return tuple(each for plugin in plugins() for each in plugin.extensions if isinstance(each, kind))


def extension(kind: type[E]) -> E | None:
    """The first extension of this kind; None if there is none."""
    return next(iter(extensions(kind)), None)


def catalogue(folder: Path) -> dict[str, Path]:
    """The TOML files of a folder of this package and of the same folder in every plugin, by name without suffix."""
    inside = folder.relative_to(_HERE)
    folders = (folder, *(plugin.folder / inside for plugin in plugins() if plugin.folder))
    found = {path.stem: path for each in folders for path in each.glob("*.toml")}
    return {stem: found[stem] for stem in sorted(found)}


def entry_points() -> dict[str, str]:
    """Name -> ``module:object``; of several with the same name, the first in the order of ``sys.path``.

    importlib.metadata is not used: it imports an e-mail parser, which takes 13 ms, a tenth of ``raidlab --help``.
    """
    found: dict[str, str] = {}
    for text in _metadata():
        _, _, after = text.partition(f"[{GROUP}]\n")
        for line in after.partition("\n[")[0].splitlines():
            name, equals, place = line.partition("=")
            if equals:
                found.setdefault(name.strip(), place.strip())
    return found


def _metadata() -> Iterator[str]:
    """The texts of ``entry_points.txt`` of all installed distributions."""
    for folder in sys.path:
        with suppress(OSError):
            for found in os.scandir(folder or "."):
                if found.name.endswith(".dist-info"):
                    with suppress(FileNotFoundError), open(f"{found.path}/entry_points.txt", encoding="utf-8") as file:
                        yield file.read()


def _loaded(name: str, place: str) -> Plugin | None:
    """The plugin; None if its package was left out of this installation."""
    module, _, attribute = place.partition(":")
    try:
        found = getattr(import_module(module), attribute, None)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
            return None
        raise _unusable(name, str(error)) from error
    if isinstance(found, Plugin):
        return found
    raise _unusable(name, f"'{place}' is not a plugin")


def _unusable(name: str, reason: str) -> LabError:
    return LabError(f"the plugin '{name}' cannot be used: {reason}", hint="update it, or uninstall it")
