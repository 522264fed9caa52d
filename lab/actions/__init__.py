"""One description for each verb, that is, for each operation on disks, arrays and loads."""

from __future__ import annotations

import sys

from lab.actions import arrays
from lab.actions.action import Action, Verb


def declared_in(module: str) -> tuple[type[Verb], ...]:
    """Return the verbs that a loaded module declares, without their base classes, in order of declaration."""
    kinds = (each for each in vars(sys.modules[module]).values() if isinstance(each, type) and issubclass(each, Verb))
    return tuple(kind for kind in kinds if kind.__module__ == module and kind.words)


ACTIONS = tuple(kind for kind in declared_in(arrays.__name__) if issubclass(kind, Action))
"""All actions, in the order of their classes, which is also the order of the app's menus."""
