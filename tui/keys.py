"""The app's modes, keys that correspond to raidlab commands, and the ids by which a keymap names keys."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module

from textual.binding import Binding
from textual.dom import DOMNode

import tui
from lab.actions.action import Verb


@dataclass(frozen=True)
class CommandKey(Binding):
    """A key that corresponds to a command. Other bindings only show, select or leave something."""

    command: str = ""
    """The arguments of ``raidlab`` that make up the command."""


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
    """Return the key of a verb. ``action`` is the action of the screen. Omitted values are taken from the verb."""
    return CommandKey(
        key or verb.key,
        action,
        label or verb.label,
        id=id,
        tooltip=tooltip or verb.tooltip,
        show=show,
        command=verb.words,
    )


def command_key(
    id: str,  # noqa: A002 - as Textual calls it
    key: str,
    label: str,
    command: str,
    tooltip: str,
    *,
    action: str = "",
    show: bool = True,
) -> CommandKey:
    """Return the key of a command that is not a verb. By default, the action is the last part of the id."""
    action = action or id.rpartition(".")[2]
    return CommandKey(key, action, label, id=id, tooltip=tooltip, show=show, command=command)


def hidden_key(
    id: str,  # noqa: A002 - as Textual calls it
    key: str,
    action: str,
    label: str,
    tooltip: str,
    *,
    priority: bool = False,
) -> Binding:
    """Return a key that is listed by F1 and in the palette, but not in the line of keys."""
    return Binding(key, action, label, id=id, tooltip=tooltip, show=False, priority=priority)


def own_bindings(classes: Iterable[type[DOMNode]]) -> Iterator[tuple[type[DOMNode], Binding]]:
    """Yield the bindings that classes of this package declare, without inherited ones."""
    for each in classes:
        if each.__module__.startswith("tui."):
            declared: list[Binding] = each.__dict__.get("BINDINGS", [])
            yield from ((each, binding) for binding in declared)


def classes_with_keys() -> list[type[DOMNode]]:
    """Return every screen, widget and app class that this package defines, after importing all its modules."""
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
    """Return the ids that a keymap may contain."""
    return frozenset(binding.id for _, binding in own_bindings(classes_with_keys()) if binding.id)


@dataclass(frozen=True, slots=True)
class ScreenEntry:
    """A mode of the app: its key, id and title."""

    key: str
    mode: str
    title: str
    narrow_title: str
    """The title for a narrow terminal, so that all titles and the machine fit into 80 columns."""


SCREENS = (
    ScreenEntry("1", "lab", "Lab", "Lab"),
    ScreenEntry("2", "build", "Build", "Build"),
    ScreenEntry("3", "run", "Run", "Run"),
    ScreenEntry("4", "results", "Results", "Data"),
    ScreenEntry("5", "commands", "Commands", "Shell"),
    ScreenEntry("6", "lessons", "Lessons", "Learn"),
    ScreenEntry("7", "faults", "Faults", "Fault"),
    ScreenEntry("8", "stripe", "Stripe", "Stripe"),
    ScreenEntry("9", "drills", "Drills", "Drill"),
    ScreenEntry("0", "fleet", "Fleet", "Fleet"),
)


def mode_keys(prefix: str, action: str, tooltip: str) -> Iterator[Binding]:
    """Yield the keys of all modes. Their ids begin with ``prefix``, and ``action`` gets the id of the mode."""
    for entry in SCREENS:
        call = f"{action}('{entry.mode}')"
        yield hidden_key(prefix + entry.mode, entry.key, call, entry.title, f"{tooltip} {entry.title} screen")
