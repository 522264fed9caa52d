"""Binding ids: every key of the app has one, and the user's keymap file gives it other keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from textual.binding import Binding, BindingType
from textual.dom import DOMNode

EXAMPLE = """\
# Other keys for the app. F1 lists the ids; several keys are separated by commas.
[keys]
"lab.fail" = "f,delete"
"""


def own_bindings(classes: Iterable[type[DOMNode]]) -> Iterator[tuple[type[DOMNode], Binding]]:
    """The bindings that this package's classes declare themselves."""
    for each in classes:
        if each.__module__.startswith("tui."):
            declared: list[BindingType] = each.__dict__.get("BINDINGS", [])
            for binding in declared:
                yield each, binding if isinstance(binding, Binding) else Binding(*binding)


def binding_ids(classes: Iterable[type[DOMNode]]) -> frozenset[str]:
    """All ids that a keymap may name."""
    return frozenset(binding.id for _, binding in own_bindings(classes) if binding.id)
