"""Shell recipes as facts: which commands there are, and what mdadm, losetup, dd and fio in them are told. Pure.

Only what recipes of storage studies use is understood: simple commands, pipes, lists, and the words of a ``for`` loop.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from lab.errors import SpecError
from lab.units import parse_bytes

_LOOP = re.compile(r"for\s+(\w+)\s+in\s+([^;]+);\s*do\s+(.+?);?\s*done", re.DOTALL)
_BREAKS = {";", "&&", "||", "&"}
_MDADM_CHANGES = ("--add", "-a", "--re-add", "--fail", "-f", "--set-faulty", "--remove", "-r")


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command, and the commands that its output is piped through."""

    argv: tuple[str, ...]
    pipes_to: tuple[str, ...] = ()
    writes_to: str = ""
    """File of a redirection."""

    @property
    def program(self) -> str:
        return self.argv[0].rpartition("/")[2]

    def option(self, *names: str) -> str | None:
        """The value of the first of these options: ``--name=value``, ``--name value``, ``name=value``."""
        for index, word in enumerate(self.argv):
            for name in names:
                if word.startswith(f"{name}="):
                    return word.partition("=")[2]
                if word == name and index + 1 < len(self.argv):
                    return self.argv[index + 1]
        return None

    def has(self, *names: str) -> bool:
        return any(word == name or word.startswith(f"{name}=") for word in self.argv for name in names)


@dataclass(slots=True)
class Recipe:
    """What a shell text does with devices."""

    commands: tuple[Command, ...]
    arrays: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Array -> members, as created."""
    levels: dict[str, str] = field(default_factory=dict)
    assumed_clean: tuple[str, ...] = ()
    loops: dict[str, str] = field(default_factory=dict)
    """Loop device -> file."""
    buffered_loops: tuple[str, ...] = ()
    made_files: frozenset[str] = frozenset()
    changes: tuple[tuple[str, str, str], ...] = ()
    """Array, what is done (add, fail, remove), device."""


def parse_recipe(text: str) -> Recipe:
    """The facts of a shell text. Raises SpecError for quotes that do not end."""
    commands = tuple(_commands(_unrolled(text.replace("\\\n", " "))))
    recipe = Recipe(commands)
    made = set()
    for command in commands:
        made |= set(_files_made(command))
        if command.program == "losetup":
            _take_losetup(recipe, command)
        elif command.program == "mdadm":
            _take_mdadm(recipe, command)
    recipe.made_files = frozenset(made)
    return recipe


def dd_bytes(command: Command) -> int | None:
    """What a dd moves: bs x count; None without both."""
    block, count = command.option("bs"), command.option("count")
    if block is None or count is None or not count.isdigit():
        return None
    try:
        return parse_bytes(block, what="bs") * int(count)
    except SpecError:
        return None


def _unrolled(text: str) -> str:
    """``for`` loops over plain words, written out."""

    def write_out(found: re.Match[str]) -> str:
        name, words, body = found[1], found[2].split(), found[3]
        return "\n".join(re.sub(rf"\$\{{?{name}\}}?", word, body) for word in words)

    return _LOOP.sub(write_out, text)


def _commands(text: str) -> Iterator[Command]:
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>")
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError as error:
            raise SpecError(f"a line of the recipe cannot be read: {error}: {line}", hint="mend its quotes") from None
        part: list[str] = []
        for word in [*words, ";"]:
            if word in _BREAKS:
                if part:
                    yield _command(part)
                part = []
            else:
                part.append(word)


def _command(words: list[str]) -> Command:
    stages: list[list[str]] = [[]]
    writes_to = ""
    take_file = False
    for word in words:
        if take_file:
            writes_to, take_file = word, False
        elif word == "|":
            stages.append([])
        elif word in (">", ">>"):
            take_file = True
        else:
            stages[-1].append(word)
    first = [word for word in stages[0] if word not in ("sudo", "time")] or ["true"]
    return Command(tuple(first), tuple(stage[0] for stage in stages[1:] if stage), writes_to)


def _files_made(command: Command) -> Iterator[str]:
    if command.program == "dd" and (target := command.option("of")):
        yield target
    elif command.program in ("truncate", "fallocate"):
        yield command.argv[-1]
    elif command.program == "qemu-img" and "create" in command.argv:
        yield from command.argv[2:]


def _take_losetup(recipe: Recipe, command: Command) -> None:
    words = [word for word in command.argv[1:] if not word.startswith("-")]
    if len(words) == 2 and words[0].startswith("/dev/"):
        recipe.loops[words[0]] = words[1]
        direct = command.option("--direct-io")
        if direct != "on" and "--direct-io" not in command.argv:
            recipe.buffered_loops = (*recipe.buffered_loops, words[0])


def _take_mdadm(recipe: Recipe, command: Command) -> None:
    words = command.argv[1:]
    if "--create" in words or "-C" in words:
        # Values of options that stand apart are no devices; devices are paths.
        paths = [word for word in words if word.startswith("/dev/")]
        array = paths[0] if paths else next((word for word in words if not word.startswith("-")), "")
        recipe.arrays[array] = tuple(paths[1:])
        recipe.levels[array] = (command.option("--level", "-l") or "").removeprefix("raid")
        if "--assume-clean" in words:
            recipe.assumed_clean = (*recipe.assumed_clean, array)
        return
    paths = [word for word in words if word.startswith("/dev/")]
    action = ""
    for word in words:
        name = word.partition("=")[0]
        if name in _MDADM_CHANGES:
            action = {"-a": "add", "-f": "fail", "-r": "remove"}.get(name, name.removeprefix("--"))
            word = word.partition("=")[2] or word
        if word.startswith("/dev/") and action and word != paths[0]:
            recipe.changes = (*recipe.changes, (paths[0], action.replace("set-faulty", "fail"), word))
