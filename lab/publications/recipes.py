"""Shell recipes: what mdadm, losetup, dd and fio in them are told, and what is wrong with it. Pure.

Only what recipes of storage studies use is understood: simple commands, pipes, lists, and the words of a ``for`` loop.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lab.errors import SpecError
from lab.gates.numbers import digits, parse_bytes
from lab.lint.rules import Check, LintFinding, Seen, run_checks
from lab.units import KIB

# With bounds, and no place where two parts could share out the same spaces: time goes with the length of the text.
_LOOP = re.compile(r"for\s+(\w{1,80})\s+in\s+(\S[^;]{0,4000});\s{0,80}do\s+(\S.{0,4000}?);?\s{0,80}done", re.DOTALL)
_MOST_UNROLLED = 256 * KIB
_BREAKS = {";", "&&", "||", "&"}
_CUTTERS = {"awk", "gawk", "grep", "egrep", "sed", "cut"}
_MDADM_CHANGES = ("--add", "-a", "--re-add", "--fail", "-f", "--set-faulty", "--remove", "-r")


@dataclass(frozen=True, slots=True)
class ShellCommand:
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

    commands: tuple[ShellCommand, ...]
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
    """The facts of a shell text. Raises SpecError for quotes that do not end, and loops without end."""
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


def dd_bytes(command: ShellCommand) -> int | None:
    """What a dd moves: bs x count; None without both."""
    block, count = command.option("bs"), command.option("count")
    if block is None or count is None or digits(count) is None:
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

    unrolled = _LOOP.sub(write_out, text)
    if len(unrolled) > _MOST_UNROLLED:
        raise SpecError("the loops of the recipe are too long to be followed", hint="lint its parts by themselves")
    return unrolled


def _commands(text: str) -> Iterator[ShellCommand]:
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>")
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError as error:
            raise SpecError(f"a line of the recipe cannot be read: {error}: {line}", hint="fix its quotes") from None
        part: list[str] = []
        for word in [*words, ";"]:
            if word in _BREAKS:
                if part:
                    yield _command(part)
                part = []
            else:
                part.append(word)


def _command(words: list[str]) -> ShellCommand:
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
    return ShellCommand(tuple(first), tuple(stage[0] for stage in stages[1:] if stage), writes_to)


def _files_made(command: ShellCommand) -> Iterator[str]:
    if command.program == "dd" and (target := command.option("of")):
        yield target
    elif command.program in ("truncate", "fallocate"):
        yield command.argv[-1]
    elif command.program == "qemu-img" and "create" in command.argv:
        yield from command.argv[2:]


def _take_losetup(recipe: Recipe, command: ShellCommand) -> None:
    words = [word for word in command.argv[1:] if not word.startswith("-")]
    if len(words) == 2 and words[0].startswith("/dev/"):
        recipe.loops[words[0]] = words[1]
        direct = command.option("--direct-io")
        if direct != "on" and "--direct-io" not in command.argv:
            recipe.buffered_loops = (*recipe.buffered_loops, words[0])


def _take_mdadm(recipe: Recipe, command: ShellCommand) -> None:
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


def lint_shell(text: str) -> Iterator[LintFinding]:
    """A shell text. Raises SpecError if it cannot be read."""
    yield from run_checks(SHELL_CHECKS, parse_recipe(text))


def _member_reused(recipe: Recipe) -> Iterator[Seen]:
    users: dict[str, list[str]] = {}
    for array, members in recipe.arrays.items():
        for member in members:
            users.setdefault(member, []).append(array)
    for member, arrays in users.items():
        if len(arrays) > 1:
            yield Seen(member, f"is a member of {', '.join(arrays)}", "one array per device")


def _loop_buffered(recipe: Recipe) -> Iterator[Seen]:
    if recipe.buffered_loops:
        names = ", ".join(recipe.buffered_loops)
        yield Seen("loop devices", f"losetup without direct I/O: {names}", "--direct-io=on")


def _shared_backing(recipe: Recipe) -> Iterator[Seen]:
    folders: dict[str, list[str]] = {}
    for device, file in recipe.loops.items():
        folders.setdefault(file.rpartition("/")[0], []).append(device)
    for folder, devices in folders.items():
        used = {member for members in recipe.arrays.values() for member in members}
        if len(used & set(devices)) > 1:
            yield Seen(folder or "the current folder", f"holds the images of {len(devices)} disks", "a disk for each")


def _human_output(recipe: Recipe) -> Iterator[Seen]:
    texts = set()
    for command in recipe.commands:
        if command.program != "fio":
            continue
        if "json" in (command.option("--output-format") or ""):
            continue
        texts |= {name for name in (command.writes_to, command.option("--output") or "") if name}
        cutters = [name for name in command.pipes_to if name in _CUTTERS]
        if cutters:
            yield Seen("fio", f"its text goes through {', '.join(cutters)}", "--output-format=json")
    for command in recipe.commands:
        files = texts & set(command.argv)
        if command.program in _CUTTERS and files:
            yield Seen("fio", f"its text in {', '.join(sorted(files))} goes through {command.program}", "JSON")


def _device_missing(recipe: Recipe) -> Iterator[Seen]:
    # Whether other disks are there cannot be told from the text.
    used = [member for members in recipe.arrays.values() for member in members]
    used += [device for _, action, device in recipe.changes if action in ("add", "re-add")]
    for device in dict.fromkeys(used):
        if device.startswith("/dev/loop") and recipe.loops and device not in recipe.loops:
            yield Seen(device, "is used, and no losetup sets it up", "an image and a losetup for it")
    for device, file in recipe.loops.items():
        if recipe.made_files and file not in recipe.made_files:
            yield Seen(device, f"its image {file} is never created", "create it first")


def _not_a_member(recipe: Recipe) -> Iterator[Seen]:
    members = {array: set(found) for array, found in recipe.arrays.items()}
    for array, action, device in recipe.changes:
        if array not in members:
            continue
        if action in ("fail", "remove") and device not in members[array]:
            yield Seen(device, f"{action} on {array}, which has {', '.join(sorted(members[array]))}", "a member")
        elif action in ("add", "re-add"):
            members[array].add(device)


def _measured_dd(recipe: Recipe) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Source, target and words of each dd that writes on what is measured, and not an image for a loop device."""
    for command in recipe.commands:
        target = command.option("of")
        is_image = target in recipe.loops.values() or (target or "").endswith((".img", ".raw", ".qcow2"))
        if command.program == "dd" and target and target != "/dev/null" and not is_image:
            yield command.option("if") or "", target, command.argv


def _buffered_writer(recipe: Recipe) -> Iterator[Seen]:
    for _, target, words in _measured_dd(recipe):
        flags = " ".join(word for word in words if word.startswith(("oflag=", "conv=")))
        if not any(flag in flags for flag in ("direct", "sync")):
            yield Seen(f"dd to {target}", "ends while data are in the page cache", "oflag=direct or conv=fdatasync")


def _zero_data(recipe: Recipe) -> Iterator[Seen]:
    for source, target, _ in _measured_dd(recipe):
        if source == "/dev/zero":
            yield Seen(f"dd to {target}", "writes zeros", "random data")


def _parity_unverified(recipe: Recipe) -> Iterator[Seen]:
    for array in recipe.assumed_clean:
        if recipe.levels.get(array, "") in ("4", "5", "6"):
            yield Seen(array, "--assume-clean", "a first resync, or blank disks")


SHELL_CHECKS: Mapping[str, Check[Recipe]] = {
    "member-reused": _member_reused,
    "loop-buffered": _loop_buffered,
    "shared-backing-disk": _shared_backing,
    "human-output-parsed": _human_output,
    "device-missing": _device_missing,
    "not-a-member": _not_a_member,
    "buffered-writer": _buffered_writer,
    "zero-data": _zero_data,
    "parity-unverified": _parity_unverified,
}
