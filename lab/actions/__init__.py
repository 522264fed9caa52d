"""All operations on disks, arrays and loads: one description for each verb."""

from __future__ import annotations

from lab.actions import arrays
from lab.actions.action import Action

ACTIONS: tuple[type[Action], ...] = tuple(
    each
    for each in vars(arrays).values()
    if isinstance(each, type) and issubclass(each, Action) and each.__module__ == arrays.__name__
)
"""In the order of the app's menus, which is the order of the classes."""
