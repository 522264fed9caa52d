"""Keys that do what a command of raidlab does, and the ids by which a keymap may name any key."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from textual.binding import Binding, BindingType
from textual.dom import DOMNode

import tui

if TYPE_CHECKING:
    from lab.actions.action import Verb


@dataclass(frozen=True)
class CommandKey(Binding):
    """A key that does what a command does. Every other binding only shows, selects or leaves."""

    command: str = ""
    """After ``raidlab``."""


def key_for(
    verb: type[Verb],
    action: str,
    *,
    id: str,  # noqa: A002 - as Textual calls it
    key: str = "",
    label: str = "",
    tooltip: str = "",
    show: bool = True,
) -> CommandKey:
    """The key of a verb; ``action`` is the screen's. What is left out is the verb's own."""
    return CommandKey(
        key or verb.key,
        action,
        label or verb.label,
        id=id,
        tooltip=tooltip or verb.tooltip,
        show=show,
        command=verb.words,
    )


def own_bindings(classes: Iterable[type[DOMNode]]) -> Iterator[tuple[type[DOMNode], Binding]]:
    """The bindings that these classes, as far as they are this package's, declare themselves."""
    for each in classes:
        if each.__module__.startswith("tui."):
            declared: list[BindingType] = each.__dict__.get("BINDINGS", [])
            for binding in declared:
                yield each, binding if isinstance(binding, Binding) else Binding(*binding)


def classes_with_keys() -> list[type[DOMNode]]:
    """Every screen, widget and app that this package defines; all of it is imported."""
    for module in pkgutil.walk_packages(tui.__path__, "tui."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    found: list[type[DOMNode]] = []
    waiting: list[type[DOMNode]] = [DOMNode]
    while waiting:
        subclasses = waiting.pop().__subclasses__()
        waiting += subclasses
        found += [each for each in subclasses if each.__module__.startswith("tui.")]
    return sorted(set(found), key=lambda each: f"{each.__module__}.{each.__qualname__}")


def known_ids() -> frozenset[str]:
    """The ids that a keymap may name."""
    return frozenset(binding.id for _, binding in own_bindings(classes_with_keys()) if binding.id)
