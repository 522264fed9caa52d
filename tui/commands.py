"""The command palette: each live binding of the screen as ``Area: Verb``, and what it adds. Only what applies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.screen import Screen

from tui.screens.mode import ModeScreen

if TYPE_CHECKING:
    from tui.app import RaidlabApp


CLOCK_IDS = "clock."
"""Of keys that do nothing where time is everybody's: then they only say so."""


def palette_commands(app: RaidlabApp, screen: Screen[Any]) -> Iterator[SystemCommand]:
    """All commands that can be given on this screen now."""
    area = screen.AREA if isinstance(screen, ModeScreen) else "Dialog"
    own = {binding.id for _, binding in own_bindings([type(screen)])}
    for active in screen.active_bindings.values():
        binding = active.binding
        if not active.enabled or not binding.id or not binding.tooltip or binding.id == "app.palette":
            continue
        if binding.id.startswith(CLOCK_IDS) and app.lab.pace is None:
            continue
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


def own_bindings(classes: Iterable[type[DOMNode]]) -> Iterator[tuple[type[DOMNode], Binding]]:
    """The bindings that this package's classes declare themselves."""
    for each in classes:
        if each.__module__.startswith("tui."):
            declared: list[BindingType] = each.__dict__.get("BINDINGS", [])
            for binding in declared:
                yield each, binding if isinstance(binding, Binding) else Binding(*binding)


def _area(binding_id: str, area: str, own: set[str | None]) -> str:
    if binding_id in own:
        return area
    first = binding_id.partition(".")[0]
    return "App" if first == "app" else first.capitalize()
