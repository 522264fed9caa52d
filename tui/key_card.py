"""The keys of the app as tables for a printed card, generated from the bindings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from textual.binding import Binding
from textual.keys import format_key

from tui.app import RaidlabApp, make_screen
from tui.keys import SCREENS, own_bindings

EVERYWHERE = "Everywhere"
_ANSWER = re.compile(r"-[a-z]$")
_NAMES = {
    "escape": "Esc",
    "space": "Space",
    "enter": "Enter",
    "delete": "Del",
    "tab": "Tab",
    "shift+tab": "Shift+Tab",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "ctrl+right_square_bracket": "Ctrl+]",
}


@dataclass(frozen=True, slots=True)
class KeyCardSection:
    """The keys that work on every screen, or those that work only on one screen."""

    title: str
    rows: tuple[tuple[str, str, str], ...]
    """(key, short name, description) of each binding."""


def key_card() -> tuple[KeyCardSection, ...]:
    """Return a section for the keys that work everywhere, then one per screen for the keys that work only there."""
    screens = [(f"{entry.key} {entry.title}", type(make_screen(entry.mode))) for entry in SCREENS]
    common = set.intersection(*({binding.id or "" for binding in _bindings(screen)} for _, screen in screens)) - {""}
    first = [binding for binding in _bindings(screens[0][1]) if binding.id in common]
    digits = ("0–9", "Screens", "; ".join(f"{entry.key} {entry.title}" for entry in SCREENS))
    everywhere = (digits, *_rows([*_bindings(RaidlabApp), *first]))
    return (
        KeyCardSection(EVERYWHERE, everywhere),
        *(
            KeyCardSection(title, rows)
            for title, screen in screens
            if (rows := tuple(_rows([each for each in _bindings(screen) if each.id not in common])))
        ),
    )


def _bindings(owner: type) -> list[Binding]:
    """Return the bindings of a class and its base classes."""
    return [binding for _, binding in own_bindings(owner.__mro__)]


def _rows(bindings: list[Binding]) -> Iterator[tuple[str, str, str]]:
    by_id: dict[str, list[Binding]] = {}
    for binding in bindings:
        # lessons.answer-a to lessons.answer-f share one row.
        by_id.setdefault(_ANSWER.sub("", binding.id or ""), []).append(binding)
    screens = {f"app.{entry.mode}" for entry in SCREENS}
    for name, group in by_id.items():
        # The row "0–9" stands for all screens.
        if name.startswith("screen.") or name in screens:
            continue
        keys = list(dict.fromkeys(_shown(key) for each in group for key in each.key.split(",")))
        if _ANSWER.search(group[0].id or ""):
            yield f"{keys[0]}–{keys[-1]}", "Answer", "Predict the answer with this letter"
        else:
            yield " ".join(keys), group[0].description, group[0].tooltip


def _shown(key: str) -> str:
    """Return the name of a key as it is labelled on keyboards."""
    if key in _NAMES:
        return _NAMES[key]
    if key.startswith("ctrl+"):
        return f"Ctrl+{key.removeprefix('ctrl+').upper()}"
    return key.upper() if len(key) > 1 and key[0] == "f" and key[1:].isdecimal() else format_key(key)
