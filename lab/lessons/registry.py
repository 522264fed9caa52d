"""The names that a lesson may use: every check, action and source of a reading, and how text becomes one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from lab.errors import SpecError
from lab.lessons import actions, checks, measure_checks, readings
from lab.lessons.actions import Action
from lab.lessons.checks import Check
from lab.lessons.readings import Source
from lab.tomlfile import convert_tree, nearest

T = TypeVar("T", bound=msgspec.Struct)


def _by_tag(kinds: Iterable[type[T]]) -> dict[str, type[T]]:
    return {str(kind.__struct_config__.tag): kind for kind in kinds}


def _kinds(module: object, key: str) -> list[type]:
    """The classes of a module whose name stands under ``key`` in a lesson file."""
    found = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, msgspec.Struct)]
    # A class without a tag of its own is called as it is in Python: a base class.
    return [
        kind
        for kind in found
        if kind.__struct_config__.tag_field == key and kind.__struct_config__.tag != kind.__name__
    ]


CHECKS: Mapping[str, type[Check]] = _by_tag([*_kinds(checks, "that"), *_kinds(measure_checks, "that")])
ACTIONS: Mapping[str, type[Action]] = _by_tag(_kinds(actions, "act"))
SOURCES: Mapping[str, type[Source]] = _by_tag(_kinds(readings, "get"))


def make_check(written: Mapping[str, Any], *, where: str) -> Check:
    """A check as written. Raises SpecError that names the nearest check or key."""
    return _make(written, CHECKS, "check", "that", where)


def make_action(written: Mapping[str, Any], *, where: str) -> Action:
    """An action as written. Raises SpecError that names the nearest action or key."""
    return _make(written, ACTIONS, "action", "act", where)


def make_source(written: Mapping[str, Any], *, where: str) -> Source:
    """Where a reading comes from, as written. Raises SpecError that names the nearest source or key."""
    return _make(written, SOURCES, "source of a reading", "get", where)


def _make(written: Mapping[str, Any], kinds: Mapping[str, type[T]], what: str, key: str, where: str) -> T:
    name = written.get(key)
    if not isinstance(name, str):
        raise SpecError(f"{where}: a {what} without '{key}'", hint=f"{key} = one of: {', '.join(sorted(kinds))}")
    if name not in kinds:
        near = nearest(name, kinds)
        hint = f"did you mean '{near}'?" if near else f"known: {', '.join(sorted(kinds))}"
        raise SpecError(f"{where}: there is no {what} '{name}'", hint=hint)
    return convert_tree(dict(written), kinds[name], source=f"{where}: {name}")
