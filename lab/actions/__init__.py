"""All operations on disks, arrays and loads: one description for each verb."""

from __future__ import annotations

import sys

from lab.actions import arrays
from lab.actions.action import Action, Verb


def declared_in(module: str) -> tuple[type[Verb], ...]:
    """The verbs that a loaded module declares, in order of declaration."""
    kinds = (each for each in vars(sys.modules[module]).values() if isinstance(each, type) and issubclass(each, Verb))
    return tuple(kind for kind in kinds if kind.__module__ == module)


ACTIONS = tuple(kind for kind in declared_in(arrays.__name__) if issubclass(kind, Action))
"""In the order of the app's menus, which is the order of the classes."""
