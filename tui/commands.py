"""The command palette: each active binding of the screen as ``Area: Verb``, and further commands of the screen."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.app import SystemCommand
from textual.screen import Screen

from tui.keys import own_bindings
from tui.screens.mode import ModeScreen

if TYPE_CHECKING:
    from tui.base_app import BaseApp


CLOCK_IDS = "clock."
"""Prefix of the keys that only show a notice if the machine's time is real time."""


def palette_commands(app: BaseApp, screen: Screen[Any]) -> Iterator[SystemCommand]:
    """All commands that apply on this screen now."""
    area = screen.AREA if isinstance(screen, ModeScreen) else "Dialog"
    own = {binding.id for _, binding in own_bindings([type(screen)])}
    told: set[tuple[str, str]] = set()
    for active in screen.active_bindings.values():
        binding = active.binding
        # A second key for the same action, such as ? for F1, is not a second command.
        if (binding.action, binding.description) in told:
            continue
        if not active.enabled or not binding.id or not binding.tooltip or binding.id == "app.palette":
            continue
        if binding.id.startswith(CLOCK_IDS) and app.lab.pace is None:
            continue
        told.add((binding.action, binding.description))
        title = f"{_area(binding.id, area, own)}: {binding.description}"
        run = partial(app.run_action, binding.action, active.node)
        yield SystemCommand(title, f"{binding.tooltip} ({app.get_key_display(binding)})", run)
    if isinstance(screen, ModeScreen):
        for entry in screen.palette():
            yield SystemCommand(f"{screen.AREA}: {entry.text}", entry.help, entry.run)
    from tui.themes import THEMES

    for theme in THEMES:
        if theme.name != app.theme:
            name = theme.name.removeprefix("raidlab-").replace("-", " ")
            yield SystemCommand(f"Theme: {name}", "Change the colours", partial(setattr, app, "theme", theme.name))


def _area(binding_id: str, area: str, own: set[str | None]) -> str:
    if binding_id in own:
        return area
    first = binding_id.partition(".")[0]
    return "App" if first == "app" else first.capitalize()
