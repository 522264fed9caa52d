"""Plugins are packages that extend raidlab. Installed plugins are found by the entry point group ``raidlab.plugins``.

An entry point refers to a ``Plugin``, by convention ``PLUGIN`` in its package's ``plugin`` module. A plugin contains
extensions. A package that can be extended declares a NamedTuple for each extension point. Functions in extensions
import what they need when they are called, so a plugin costs little before it is used.
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
    """The extensions. The type of each is a NamedTuple that the extended package declares."""
    folder: Path | None = None
    """A folder with the same layout as this package. For example, its ``lessons/course/`` adds lessons
    (``catalogue``).
    """


@cache
def plugins() -> tuple[Plugin, ...]:
    """Return all installed plugins, sorted by name. Raises LabError if a plugin cannot be imported."""
    places = sorted(entry_points().items())
    if not places:
        raise LabError("this installation of raidlab has no plugins", hint="to install them, run 'make lab' in a clone")
    return tuple(plugin for name, place in places if (plugin := _loaded(name, place)))


def extensions(kind: type[E]) -> tuple[E, ...]:
    """Return the extensions of this kind from all plugins."""
    return tuple(each for plugin in plugins() for each in plugin.extensions if isinstance(each, kind))


def extension(kind: type[E]) -> E | None:
    """Return the first extension of this kind, or None if there is none."""
    return next(iter(extensions(kind)), None)


def catalogue(folder: Path) -> dict[str, Path]:
    """Return the TOML files in a folder of this package and in the folder of the same name in every plugin, by stem."""
    inside = folder.relative_to(_HERE)
    folders = (folder, *(plugin.folder / inside for plugin in plugins() if plugin.folder))
    found = {path.stem: path for each in folders for path in each.glob("*.toml")}
    return {stem: found[stem] for stem in sorted(found)}


def entry_points() -> dict[str, str]:
    """Map names to ``module:object``. If several have the same name, the first in ``sys.path`` is used.

    importlib.metadata is not used, because it imports an e-mail parser. The import takes 13 ms, which is a tenth of the
    time that ``raidlab --help`` takes.
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
    """Yield the text of ``entry_points.txt`` of every installed distribution."""
    for folder in sys.path:
        with suppress(OSError):
            for found in os.scandir(folder or "."):
                if found.name.endswith(".dist-info"):
                    with suppress(FileNotFoundError), open(f"{found.path}/entry_points.txt", encoding="utf-8") as file:
                        yield file.read()


def _loaded(name: str, place: str) -> Plugin | None:
    """Import the plugin. Return None if its package was left out of this installation."""
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
