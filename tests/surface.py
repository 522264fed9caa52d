"""Everything that a user can reach, as text: commands and options, keys and screens of the app, catalogue files.

``python tests/surface.py TREE`` lists the surface of a tree; ``diff`` of two lists shows what a change adds or removes.
The lists contain no classes or modules, nor the package of a file, so that moving one changes nothing.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CATALOGUES = (
    "lessons/course",
    "experiments/catalogue",
    "experiments/published",
    "workloads/catalogue",
    "lint/publications",
)


def main() -> None:
    tree = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(tree))
    for title, lines in (
        ("commands", command_lines()),
        ("keys", key_lines()),
        ("screens", screen_lines()),
        ("text mode", text_lines()),
        ("checks, actions and readings of lessons", lesson_lines()),
        ("files of catalogues", file_lines(tree)),
    ):
        sys.stdout.write(f"# {title}\n" + "".join(f"{line}\n" for line in sorted(set(lines))) + "\n")


def command_lines() -> Iterator[str]:
    app = importlib.import_module("lab.cli.app").make_app()
    yield from argument_lines("raidlab", app.meta)
    yield from tree_lines("raidlab", app)


def tree_lines(path: str, app: Any) -> Iterator[str]:
    for name in app.resolved_commands():
        if name.startswith("-"):
            continue
        command = app[name]
        words = f"{path} {name}"
        yield f"{words}: {command.help.strip().splitlines()[0] if command.help else ''}"
        if command.default_command:
            yield from argument_lines(words, command)
        yield from tree_lines(words, command)


def argument_lines(words: str, app: Any) -> Iterator[str]:
    for argument in app.assemble_argument_collection():
        if not argument.show and not argument.name.startswith("-"):
            continue
        field = argument.field_info
        names = ", ".join(sorted({*argument.names, *argument.negatives}))
        told = [f"by {'name' if field.kind is field.KEYWORD_ONLY else 'place'}"]
        told += [] if field.default is inspect.Parameter.empty else [f"else {field.default!s}"]
        told += ["required"] if argument.required else []
        if choices := argument.get_choices(force=True):
            told += [f"one of {', '.join(choices)}"]
        yield f"{words} [{names}] {'; '.join(told)}"


def key_lines() -> Iterator[str]:
    """Every binding of every screen, dialog and widget: its id, key, label and tooltip, and whether it is shown."""
    from textual.binding import Binding
    from textual.dom import DOMNode

    import_all("tui")
    for each in subclasses(DOMNode):
        for declared in each.__dict__.get("BINDINGS", ()) if each.__module__.startswith("tui.") else ():
            binding = declared if isinstance(declared, Binding) else Binding(*declared)
            shown = "shown" if binding.show else "hidden"
            yield f"{binding.id or '-'}\t{binding.key}\t{binding.description}\t{binding.tooltip}\t{shown}"


def screen_lines() -> Iterator[str]:
    from textual.app import App

    for each in subclasses(App):
        if each.__module__.startswith("tui."):
            yield from each.__dict__.get("MODES", ())


def text_lines() -> Iterator[str]:
    text = importlib.import_module("tui.text")
    for name in ("HELP", "DRILL_HELP"):
        yield from getattr(text, name, "").splitlines()


def lesson_lines() -> Iterator[str]:
    import msgspec

    ready, checks = (importlib.import_module(name) for name in ("lab.lessons.course", "lab.checks.catalogue"))
    for catalogue in (checks.ALL_CHECKS, ready.ACTIONS, checks.SOURCES):
        for name, kind in catalogue.items():
            yield f"{name}: {', '.join(field.name for field in msgspec.structs.fields(kind))}"


def file_lines(tree: Path) -> Iterator[str]:
    for folder in CATALOGUES:
        # Includes the catalogues of packages that have these folders themselves.
        yield from (f"lab/{folder}/{path.name}" for path in (tree / "lab").glob(f"**/{folder}/*.toml"))


def import_all(package: str) -> None:
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)


def subclasses(base: type[Any]) -> Iterator[type[Any]]:
    for each in base.__subclasses__():
        yield each
        yield from subclasses(each)


if __name__ == "__main__":
    main()
