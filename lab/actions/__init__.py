"""All operations on disks, arrays and loads: one description for each verb."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from lab.actions import arrays
from lab.actions.action import Action


def _declared_in(module: ModuleType) -> Iterator[type[Action]]:
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Action) and value.__module__ == module.__name__:
            yield value


ACTIONS: tuple[type[Action], ...] = tuple(_declared_in(arrays))
"""In the order of the app's menus, which is the order of the classes."""
