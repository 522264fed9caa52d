"""The lint of publications and shell recipes. It checks how a shell text uses mdadm, losetup, dd and fio.

Other commands are ignored. The effects of mdadm commands are followed in order, so a disk is free again after its array
has been stopped or the disk has been wiped. A command causes no findings if it is uncertain whether it is executed.

An mdadm command line is parsed into the mode, the array, the devices, and the action on each device. The options are
listed in mdadm_options.toml. As in getopt_long(3), a long option may be abbreviated to a unique prefix, and short
options may be combined.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from itertools import pairwise
from pathlib import Path, PurePosixPath

import msgspec

from lab.errors import SpecError
from lab.gates.decoding import FormatVersion, digits, parse_bytes
from lab.gates.text import shortened
from lab.lint.experiment_checks import TRUSTWORTHY_REPEATS
from lab.lint.fio_checks import NOT_JUDGED, FioJob, FioSection, lint_fio, lint_job, read_command, read_job, seconds_of
from lab.lint.rules import NOT_ANALYSED, Check, LintFinding, Seen, distinct, run_checks
from lab.publications.shell import ShellCommand, Word, bare_unknown, programs, read_script
from lab.tomlfile import read_toml, unknown_word
from lab.units import GIB, human_bytes

OPTIONS_FILE = Path(__file__).with_name("mdadm_options.toml")
MEMBER_TWICE, NOT_A_MEMBER = "member-twice", "not-a-member"
NO_DEVICE = {"missing", "detached", "failed", "faulty"}


class _Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    with_value: frozenset[str]
    with_optional_value: frozenset[str]
    without_value: frozenset[str]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format_version: FormatVersion
    modes: dict[str, str]
    aliases: dict[str, str]
    options: _Options
    letters: dict[str, dict[str, str]]


@cache
def _table() -> _Table:
    return read_toml(OPTIONS_FILE, _Table)


@cache
def _spellings() -> frozenset[str]:
    table = _table()
    own = table.options
    return frozenset(table.modes) | own.with_value | own.with_optional_value | own.without_value


@dataclass
class MdadmCall:
    """One mdadm command."""

    mode: str = ""
    """``create``, ``assemble``, ``build``, ``grow``, ``manage``, ``misc``, ``incremental`` or ``monitor``."""
    names: list[Word] = field(default_factory=list)
    """The arrays and devices in order. In the modes that create or change an array, the first one is the array."""
    values: dict[str, str] = field(default_factory=dict)
    """The values of the options, by long name. An option without a value has an empty string."""
    actions: list[tuple[str, Word]] = field(default_factory=list)
    """The actions of manage and grow mode (such as add, re-add, fail, remove or replace), each with its device."""
    problem: str = ""
    """The reason why the command is not analysed, as a clause, or an empty string if it is analysed."""

    @property
    def array(self) -> str:
        return self.names[0].text if self.names else ""

    @property
    def devices(self) -> list[Word]:
        """All names except the array's and keywords such as ``missing``."""
        return [word for word in self.names[1:] if word.text not in NO_DEVICE]


def parse_mdadm(words: Sequence[Word]) -> MdadmCall:
    """Parse the arguments of an mdadm command."""
    call = MdadmCall()
    if bare := bare_unknown(words):
        call.problem = f"it contains {bare}"
        return call
    action = ""
    rest = list(words)
    while rest and not call.problem:
        word = rest.pop(0)
        text = word.text
        if text.startswith("--") and text != "--":
            action = _long(call, text, rest, action)
        elif text.startswith("-") and len(text) > 1:
            action = _letters(call, text[1:], rest, action)
        elif text != "--":
            call.names.append(word)
            call.mode = call.mode or "manage"
            if action and len(call.names) > 1:
                call.actions.append((action, word))
    return call


def _long(call: MdadmCall, text: str, rest: list[Word], action: str) -> str:
    name, sign, value = text[2:].partition("=")
    spellings = [name] if name in _spellings() else [each for each in _spellings() if each.startswith(name)]
    found = {_table().aliases.get(each, each) for each in spellings}
    if len(found) != 1:
        call.problem = f"mdadm's option '{shortened(text, 40)}' is not known here"
        return action
    return _option(call, found.pop(), value if sign else None, rest, action)


def _letters(call: MdadmCall, letters: str, rest: list[Word], action: str) -> str:
    while letters and not call.problem:
        letter, letters = letters[0], letters[1:]
        own = _table().letters
        name = own.get(call.mode, {}).get(letter) or own["any"].get(letter)
        if name is None:
            call.problem = f"mdadm's option '-{letter}' is not known here"
        elif name in _table().options.with_value:
            return _option(call, name, letters or None, rest, action)
        else:
            action = _option(call, name, None, rest, action)
    return action


def _option(call: MdadmCall, name: str, value: str | None, rest: list[Word], action: str) -> str:
    """Process one option, and return the action that applies to the devices after it."""
    table = _table()
    # In the modes that create an array, some of these names do not choose a mode, but are properties or switches.
    if not call.mode or (call.mode == "manage" and table.modes.get(name) == "misc" and not call.actions):
        call.mode = table.modes.get(name, call.mode)
    if name in table.options.with_value and value is None:
        value = rest.pop(0).text if rest else ""
    call.values[name] = value or ""
    if name != "manage" and table.modes.get(name) == "manage":
        # The action applies to the devices after it.
        if value:
            call.actions.append((name, Word(value)))
        return name
    return action


_FOLLOWED = ("fio", "mdadm")
_STARTS = re.compile(r"(?:^|[\s;&|(/'\"])(fio|mdadm)\s+-{1,2}[A-Za-z]")
_RESYNCED = ("1", "4", "5", "6", "10")
_WITHOUT_RESYNC = {"assume-clean", "readonly", "write-journal", "write-zeroes"}
_WAITING_OPTIONS = {"wait", "stop", "readonly", "action"}
_RESYNC_SOURCES = ("mdstat", "sync_", "resync", "md/array_state", "--detail", "-D")
_WAITERS = re.compile(r"wait|sync.|idle|settled|ready")
_LONG_SLEEP_SECONDS = 60.0
"""A shorter sleep is assumed to wait for udev, not for a resync."""


@dataclass(frozen=True, slots=True)
class Created:
    """An array that a command creates."""

    array: str
    level: str
    members: tuple[str, ...]
    """The members whose device names are known."""
    assumes_clean: bool


@dataclass(slots=True)
class Recipe:
    """The facts about devices and commands in a shell text."""

    commands: tuple[ShellCommand, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    """The contents of the job files that the script writes, by their names."""
    created: list[Created] = field(default_factory=list)
    reused: dict[str, list[str]] = field(default_factory=dict)
    """The arrays of each device that is a member of several arrays at the same time."""
    added: list[str] = field(default_factory=list)
    loops: dict[str, str] = field(default_factory=dict)
    """The backing file of each loop device."""
    has_other_loops: bool = False
    """Whether the script sets up loop devices whose names are unknown."""
    mounted: dict[str, list[str]] = field(default_factory=dict)
    """The folders where each array or other device is mounted."""
    buffered_loops: list[str] = field(default_factory=list)
    made_files: set[str] = field(default_factory=set)
    while_syncing: list[tuple[ShellCommand, dict[str, tuple[str, int]]]] = field(default_factory=list)
    """fio commands, each with the arrays whose first resync may still be running (``_Syncs.running``)."""
    noticed: list[tuple[str, Seen]] = field(default_factory=list)
    """The violations that were seen while the commands were followed, each with the id of its rule."""

    def skip(self, line: int, why: str) -> None:
        self.noticed.append((NOT_ANALYSED, Seen(f"line {line}", f"not analysed: {why}", NOT_JUDGED)))

    @property
    def arrays(self) -> dict[str, tuple[str, ...]]:
        """The members of each array, according to the last command that creates it."""
        return {each.array: each.members for each in self.created}


def parse_recipe(text: str) -> Recipe:
    """Parse a shell text. Raises SpecError if a quote is not closed, or if the text or its loops are too long."""
    script = read_script(text)
    recipe = Recipe(tuple(script.commands), script.files)
    disks, syncs = _Disks(recipe), _Syncs(recipe.commands)
    for command in recipe.commands:
        call = parse_mdadm(command.words[1:]) if command.program == "mdadm" else None
        syncs.take(command, call)
        if command.program == "fio" and not command.is_conditional:
            recipe.while_syncing.append((command, dict(syncs.running)))
        recipe.made_files.update(_files_made(command))
        if command.program == "losetup":
            _take_losetup(recipe, command)
        elif call:
            disks.take(command, call)
        elif command.program == "mount":
            for device, folder in pairwise(command.argv[1:]):
                recipe.mounted.setdefault(_key(device), []).append(folder)
        elif command.program in programs().wipers:
            disks.wiped(command)
        _take_hidden(recipe, command)
    return recipe


def _take_hidden(recipe: Recipe, command: ShellCommand) -> None:
    """Record commands that may start fio or mdadm in a way that is not analysed."""
    first = command.words[0]
    if first.unknown:
        has_job = any(re.match("--(?:name|rw|readwrite|ioengine|filename)=", word.text) for word in command.words)
        if has_job or _STARTS.search(first.text):
            recipe.skip(command.line, f"the name of its program is {first.unknown}")
    elif command.program in programs().carriers or command.program in programs().shells:
        has_shell = command.program == "eval" or command.program in programs().shells
        is_followed = has_shell and not any(word.unknown for word in command.words)
        for word in () if is_followed else command.words[1:]:
            if word.text.rpartition("/")[2] in _FOLLOWED or _STARTS.search(word.text):
                recipe.skip(command.line, f"{command.program} runs the command in its arguments")
                return


def _key(array: str) -> str:
    """Return one common name for /dev/md0, /dev/md/0, /dev/md/md0 and md0."""
    name = array.removeprefix("/dev/").removeprefix("md/")
    return f"md{name}" if name.isdigit() else name


class _Disks:
    """Tracks which disk is a member of which array, command by command."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._in_use: dict[str, tuple[str, str]] = {}
        """For each disk in use, the key of its array (``_key``) and the array's name as written."""
        self._members: dict[str, list[Word] | None] = {}
        """The members of each array, by the array's key, or None if they are unknown."""

    def take(self, command: ShellCommand, call: MdadmCall) -> None:
        if call.problem:
            self._recipe.skip(command.line, call.problem)
            self._forget()
        elif call.mode in ("create", "build"):
            self._create(call, command)
        elif call.mode == "assemble":
            self._assemble(call)
        elif call.mode in ("manage", "grow"):
            self._manage(call, command)
        elif call.mode == "misc":
            self._misc(call)
        elif call.mode == "incremental":
            self._forget()

    def wiped(self, command: ShellCommand) -> None:
        """Free the disks that a command overwrites."""
        words = [command.option("of") or ""] if command.program == "dd" else command.argv[1:]
        for word in words:
            self._in_use.pop(word, None)

    def _forget(self) -> None:
        """Discard all knowledge about disks and members after a command whose effects are unknown."""
        self._in_use.clear()
        self._members = dict.fromkeys(self._members, None)

    def _create(self, call: MdadmCall, command: ShellCommand) -> None:
        array, key = call.array, _key(call.array)
        devices = [word for word in call.devices if not word.unknown]
        certain = tuple(word.text for word in devices if not word.has_glob)
        for device in [device for device, count in Counter(certain).items() if count > 1]:
            seen = Seen(f"line {command.line}: {device}", f"is given twice as a member of {array}", "another disk")
            self._recipe.noticed.append((MEMBER_TWICE, seen))
        is_certain = not command.is_conditional and bool(call.names) and not call.names[0].unknown
        for device in certain:
            user = self._in_use.pop(device, None)
            if user and user[0] != key and is_certain:
                arrays = self._recipe.reused.setdefault(device, [user[1]])
                arrays += [array] if array not in arrays else []
            if is_certain:
                self._in_use[device] = (key, array)
        is_whole = is_certain and len(devices) == len(call.devices)
        self._members[key] = list(call.devices) if is_whole else None
        level = call.values.get("level", "").removeprefix("raid")
        self._recipe.created.append(Created(array, level, certain, assumes_clean="assume-clean" in call.values))

    def _assemble(self, call: MdadmCall) -> None:
        key = _key(call.array)
        for word in call.devices:
            self._in_use[word.text] = (key, call.array)
        self._members.setdefault(key, None)

    def _manage(self, call: MdadmCall, command: ShellCommand) -> None:
        array, key = call.array, _key(call.array)
        for action, word in call.actions:
            device, members = word.text, self._members.get(key)
            if device in NO_DEVICE or word.unknown or word.has_glob or command.is_conditional:
                if action == "remove" or command.is_conditional:
                    self._in_use = {disk: user for disk, user in self._in_use.items() if user[0] != key}
                if action in ("add", "re-add", "add-spare", "add-journal"):
                    self._members[key] = None
                continue
            if action in ("fail", "remove", "replace"):
                if members is not None and not any(_may_be(device, each) for each in members):
                    known = ", ".join(sorted(each.text for each in members))
                    seen = Seen(device, f"{action} on {array}, whose members are {known}", "a member")
                    self._recipe.noticed.append((NOT_A_MEMBER, seen))
                if action == "remove":
                    self._in_use.pop(device, None)
            elif action != "with":
                self._recipe.added.append(device)
                self._in_use[device] = (key, array)
                if members is not None:
                    members.append(word)

    def _misc(self, call: MdadmCall) -> None:
        words = [word for word in call.names if not word.unknown and not word.has_glob]
        is_whole = len(words) == len(call.names) and "scan" not in call.values
        if "stop" in call.values:
            keys = {_key(word.text) for word in words} if is_whole else self._members.keys()
            self._in_use = {disk: user for disk, user in self._in_use.items() if is_whole and user[0] not in keys}
            self._members |= dict.fromkeys(keys)
        elif "zero-superblock" in call.values:
            erased = {word.text for word in words}
            self._in_use = {disk: user for disk, user in self._in_use.items() if is_whole and disk not in erased}


class _Syncs:
    """Tracks which arrays are in their first resync, as far as that is certain.

    If a script waits in a loop, a branch or a function, it is unknown when it waits. No array is reported then.
    """

    def __init__(self, commands: Sequence[ShellCommand]) -> None:
        self.running: dict[str, tuple[str, int]] = {}
        """For each array's key (``_key``), the array's name as written and the line that creates it."""
        self._waits_somewhere = any(command.is_conditional and _may_wait(command) for command in commands)

    def take(self, command: ShellCommand, call: MdadmCall | None) -> None:
        if self._waits_somewhere or command.is_conditional:
            return
        if call is None:
            if _may_wait(command):
                self.running.clear()
        elif call.problem or any(word.unknown or word.has_glob for word in call.names[:1]):
            self.running.clear()
        elif call.mode == "create":
            self.running.pop(_key(call.array), None)
            if _resyncs(call):
                self.running[_key(call.array)] = (call.array, command.line)
        elif _WAITING_OPTIONS & set(call.values):
            for key in [_key(word.text) for word in call.names] or list(self.running):
                self.running.pop(key, None)


def _resyncs(call: MdadmCall) -> bool:
    """Whether md starts a resync after the array is created (mdadm(8), md(4))."""
    values, level = call.values, call.values.get("level", "").removeprefix("raid")
    is_whole = not any(word.text in NO_DEVICE for word in call.names)
    return level in _RESYNCED and is_whole and not _WITHOUT_RESYNC & set(values) and values.get("raid-devices") != "1"


def _may_wait(command: ShellCommand) -> bool:
    """Whether a command may wait for a resync or end one."""
    if command.program == "mdadm":
        return bool(_WAITING_OPTIONS & set(parse_mdadm(command.words[1:]).values))
    if command.program == "sleep":
        seconds = sum(seconds_of(word) or _LONG_SLEEP_SECONDS for word in command.argv[1:])
        return command.is_conditional or seconds >= _LONG_SLEEP_SECONDS
    # Reading /proc/mdstat once, outside a loop, does not wait.
    reads_progress = any(part in word for word in command.argv for part in _RESYNC_SOURCES)
    is_set = command.writes_to.startswith("/sys/") or command.program in ("tee", "read")
    return is_set or (reads_progress and command.is_conditional) or bool(_WAITERS.search(command.program))


def _may_be(device: str, member: Word) -> bool:
    """Whether the name of a device may refer to this member."""
    if member.unknown:
        return True
    kinds = {PurePosixPath(path).parent.as_posix() for path in (device, member.text) if path.startswith("/")}
    # Links in /dev/disk/by-id and names in /dev/mapper are aliases of other nodes.
    if len(kinds) > 1 or not device.startswith("/") or not member.text.startswith("/"):
        return PurePosixPath(device).name == PurePosixPath(member.text).name or len(kinds) > 1 or device[:1].isdigit()
    return fnmatchcase(device, member.text) if member.has_glob else device == member.text


def dd_bytes(command: ShellCommand) -> int | None:
    """Return the number of bytes that a dd command copies (bs x count), or None if it lacks one of these options."""
    block, count = command.option("bs"), digits(command.option("count") or "")
    try:
        return None if block is None or count is None else parse_bytes(block, what="bs") * count
    except SpecError:
        return None


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
        if command.option("--direct-io") != "on" and "--direct-io" not in command.argv:
            recipe.buffered_loops.append(words[0])
    elif any(word in ("-f", "--find") or re.match("-[a-zA-Z]*f", word) for word in command.argv[1:]):
        recipe.has_other_loops = True


def lint_script_file(text: str) -> Iterator[LintFinding]:
    """Lint a shell script. Raises SpecError if it cannot be parsed or contains no commands."""
    if not read_script(text).commands:
        raise SpecError("the script has no commands", hint="check that this is the right file, and that it was saved")
    yield from lint_shell(text)


def lint_shell(text: str, job_file: str = "") -> Iterator[LintFinding]:
    """Lint a shell text, including its fio commands. Raises SpecError if the text cannot be parsed.

    ``job_file`` is the content of a job file that the text uses but does not write. It is empty if that file is
    unknown.
    """
    recipe = parse_recipe(text)
    yield from run_checks(SHELL_CHECKS, recipe)
    for command in recipe.commands:
        if command.program == "fio":
            for job in _fio_jobs(command, recipe.files, job_file):
                yield from lint_job(job)


def _fio_jobs(command: ShellCommand, files: Mapping[str, str], job_file: str) -> Iterator[FioJob]:
    """Yield the jobs of a fio command, one from its own options, and one for each job file in its arguments."""
    where = f"line {command.line}: "
    if bare := bare_unknown(command.words):
        why = f"the fio command in line {command.line} is not analysed: it contains {bare}"
        yield FioJob(skipped=[(f"line {command.line}", why)])
        return
    job = read_command(command.argv[1:], where)
    yield job
    for name in job.files:
        text = command.stdin if name in ("-", "/dev/stdin") else files.get(name)
        if text is not None:
            yield read_job(text, f"{where}{name}: ")
        elif not job_file:
            shown = "its standard input" if name in ("-", "/dev/stdin") else f"the job file '{shortened(name, 60)}'"
            why = f"not analysed: {shown} is not in the script"
            yield FioJob(skipped=[(f"{where}fio", why)])


def _noticed(rule_id: str) -> Check[Recipe]:
    return lambda recipe: [seen for rule, seen in recipe.noticed if rule == rule_id]


def _member_reused(recipe: Recipe) -> Iterator[Seen]:
    for member, arrays in recipe.reused.items():
        yield Seen(member, f"is a member of {', '.join(arrays)}", "one array per device")


def _resync_running(recipe: Recipe) -> Iterator[Seen]:
    for command, syncing in recipe.while_syncing:
        jobs = _fio_jobs(command, recipe.files, "") if syncing else ()
        measured = [section for job in jobs for section in job.sections if _measures(section)]
        for key, (array, created_line) in syncing.items():
            if any(_is_on((array, *recipe.mounted.get(key, ())), section) for section in measured):
                observed = f"{array} is in its first resync, because nothing after line {created_line} waits for it"
                yield Seen(f"line {command.line}: fio", observed, f"mdadm --wait {array} before it")


def _measures(section: FioSection) -> bool:
    """Whether a job is a measurement. It is not if it only writes a file or device once to prepare it for reads."""
    return section.moves_data and ("runtime" in section.options or section.direction != "write")


def _is_on(places: Sequence[str], section: FioSection) -> bool:
    """Whether the job certainly uses one of these files or devices, or a file in one of these folders."""
    names = [name for key in ("filename", "directory") for name in section.value(key).split(":") if name]
    return any(name == place or name.startswith(f"{place.rstrip('/')}/") for name in names for place in places)


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
        formats = command.option("--output-format") or ""
        if "json" in formats or "terse" in formats or "--minimal" in command.argv:
            continue
        texts |= {name for name in (command.writes_to, command.option("--output") or "") if name}
        cutters = [name for name in command.pipes_to if name in programs().cutters]
        if cutters:
            yield Seen("fio", f"its text goes through {', '.join(cutters)}", "--output-format=json")
    for command in recipe.commands:
        files = texts & set(command.argv)
        if command.program in programs().cutters and files:
            yield Seen("fio", f"its text in {', '.join(sorted(files))} goes through {command.program}", "JSON")


def _device_missing(recipe: Recipe) -> Iterator[Seen]:
    # Only loop devices are checked, because the text does not show whether other disks exist.
    used = [member for each in recipe.created for member in each.members] + recipe.added
    for device in dict.fromkeys(used) if recipe.loops and not recipe.has_other_loops else ():
        if device.startswith("/dev/loop") and device not in recipe.loops:
            yield Seen(device, "is used, but no losetup command sets it up", "an image and a losetup for it")
    for device, file in recipe.loops.items():
        if recipe.made_files and file not in recipe.made_files:
            yield Seen(device, f"its image {file} is never created", "create it first")


def _measured_dd(recipe: Recipe) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the source, target and arguments of each dd command whose speed may be measured.

    A dd that creates an image for a loop device, or wipes a disk for an array, is not a measurement.
    """
    members = {member for each in recipe.created for member in each.members} | set(recipe.added)
    for command in recipe.commands:
        target = command.option("of")
        is_image = target in recipe.loops.values() or (target or "").endswith((".img", ".raw", ".qcow2"))
        if command.program == "dd" and target and target != "/dev/null" and not is_image and target not in members:
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
    for each in recipe.created:
        if each.assumes_clean and each.level in ("4", "5", "6"):
            yield Seen(each.array, "--assume-clean", "a first resync, or blank disks")


SHELL_CHECKS: Mapping[str, Check[Recipe]] = {
    "member-reused": _member_reused,
    MEMBER_TWICE: _noticed(MEMBER_TWICE),
    "loop-buffered": _loop_buffered,
    "shared-backing-disk": _shared_backing,
    "human-output-parsed": _human_output,
    "device-missing": _device_missing,
    NOT_A_MEMBER: _noticed(NOT_A_MEMBER),
    "resync-running": _resync_running,
    "buffered-writer": _buffered_writer,
    "zero-data": _zero_data,
    "parity-unverified": _parity_unverified,
    NOT_ANALYSED: _noticed(NOT_ANALYSED),
}


FOLDER = Path(__file__).with_name("texts")
LEAST_MEMORY_BYTES = 2 * GIB
"""The smallest memory that a computer in such a study could have."""
_INTEGRITY = "integrity"


class PublishedConclusion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conclusion about one parameter, and the values of a second parameter (``partner``) at which it was measured."""

    about: str
    partner: str
    partner_values: tuple[str, ...]


class Publication(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One published study. A field is empty or None if the text does not state its value."""

    study: str
    source: str
    commands: str = ""
    fio_job: str = ""
    image_bytes: int | None = None
    """Size of each file behind a loop device."""
    file_bytes: int | None = None
    """Size of the file that a job reads or writes."""
    members: dict[str, int] = {}
    """The number of disks in each array."""
    printed_members: dict[str, tuple[str, ...]] = {}
    """The devices of each array, according to a table in the text."""
    runs: int | None = None
    """The number of runs of each configuration, or None if it is not stated."""
    shows_spread: bool = False
    shows_percentiles: bool = False
    promises: tuple[str, ...] = ()
    """The metrics and checks that the text announces."""
    reports: tuple[str, ...] = ()
    """The metrics and checks that the text reports."""
    conclusions: tuple[PublishedConclusion, ...] = ()
    averages_over: tuple[str, ...] = ()
    """The dimensions over which the text averages."""
    percentiles_of: str = ""
    """``averages`` if percentiles were computed from averaged logs."""
    backing: str = ""
    """``network``, ``local`` or empty."""
    platforms: tuple[str, ...] = ()
    """The platforms that the study intends to compare."""
    measured_on: tuple[str, ...] = ()
    engine: str = ""
    """``simulator``, ``emulator`` or empty."""
    declared_bytes: int | None = None
    """The data volume that the text states."""
    cpu_unit: str = ""
    """``percent`` if CPU use is given only in percent."""
    compares_raw: bool = False
    """Whether the text compares MB/s or IOPS of two platforms directly."""
    shows_mttdl: bool = False


@cache
def built_in_names() -> tuple[str, ...]:
    """Return the names of the built-in publications."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def find_publication(name: str) -> Publication:
    """Read a built-in publication. Raises SpecError, which suggests the nearest name, if the name is unknown."""
    if name not in built_in_names():
        raise unknown_word("publication", name, built_in_names())
    return read_toml(FOLDER / f"{name}.toml", Publication)


def lint_publication(published: Publication) -> tuple[LintFinding, ...]:
    """Lint a publication's text and commands. Raises SpecError if the commands cannot be parsed."""
    found = list(run_checks(CHECKS, published))
    if published.commands:
        found += lint_shell(published.commands, published.fio_job)
    if published.fio_job:
        found += lint_fio(published.fio_job)
    return distinct(found)


def _too_few_repeats(published: Publication) -> Iterator[Seen]:
    if published.runs is None:
        yield Seen(published.study, "the number of runs is not given", str(TRUSTWORTHY_REPEATS))
    elif published.runs < TRUSTWORTHY_REPEATS:
        yield Seen(published.study, f"runs of each configuration: {published.runs}", str(TRUSTWORTHY_REPEATS))


def _promised_metric_missing(published: Publication) -> Iterator[Seen]:
    for metric in published.promises:
        if metric not in published.reports:
            yield Seen(metric, "promised, not reported", "a value, or why there is none")


def _topology_mismatch(published: Publication) -> Iterator[Seen]:
    built = parse_recipe(published.commands).arrays
    for array, printed in published.printed_members.items():
        made = tuple(device.removeprefix("/dev/") for device in built.get(f"/dev/{array}", ()))
        if made and sorted(made) != sorted(printed):
            yield Seen(array, f"the table says {', '.join(printed)}, the commands {', '.join(made)}", "the same")


def _unequal_members(published: Publication) -> Iterator[Seen]:
    if len(set(published.members.values())) > 1:
        counts = ", ".join(f"{array} {count}" for array, count in published.members.items())
        yield Seen(published.study, f"members: {counts}", "the same number for every level")


def _file_exceeds_fs(published: Publication) -> Iterator[Seen]:
    if published.file_bytes is None or published.image_bytes is None:
        return
    levels = {each.array: each.level for each in parse_recipe(published.commands).created}
    for array, level in levels.items():
        # A mirror has the capacity of one image, less md's superblock and the metadata of the file system.
        if level == "1" and published.file_bytes >= published.image_bytes:
            size, has = human_bytes(published.file_bytes), human_bytes(published.image_bytes)
            yield Seen(array, f"a file of {size} on mirrored images of {has}", "files that fit on the smallest array")


def _file_fits_cache(published: Publication) -> Iterator[Seen]:
    buffered = parse_recipe(published.commands).buffered_loops
    if buffered and published.file_bytes is not None and published.file_bytes <= LEAST_MEMORY_BYTES:
        observed = f"files of {human_bytes(published.file_bytes)} behind the cache"
        yield Seen(published.study, observed, "files larger than memory")


def _io_not_on_members(published: Publication) -> Iterator[Seen]:
    # If a caching layer holds the whole file, the members are not read.
    for seen in _file_fits_cache(published):
        yield Seen(seen.subject, "reads are answered by the cache, not by the members", "fio's bytes = members' bytes")


def _claim_outside_grid(published: Publication) -> Iterator[Seen]:
    for conclusion in published.conclusions:
        if len(conclusion.partner_values) < 2:
            values = ", ".join(conclusion.partner_values)
            observed = f"concluded at one {conclusion.partner} ({values})"
            yield Seen(conclusion.about, observed, f"two or more values of {conclusion.partner}")


def _arm_missing(published: Publication) -> Iterator[Seen]:
    for platform in published.platforms:
        if platform not in published.measured_on:
            yield Seen(platform, "is to be compared, but was not measured", "the same experiment on it")


def _volume_mismatch(published: Publication) -> Iterator[Seen]:
    if published.declared_bytes is None:
        return
    for command in parse_recipe(published.commands).commands:
        moved = dd_bytes(command) if command.program == "dd" else None
        if moved is not None and abs(moved - published.declared_bytes) > 0.01 * published.declared_bytes:
            text = f"the text says {human_bytes(published.declared_bytes)}, the command moves {human_bytes(moved)}"
            yield Seen(published.study, text, "the same within 1 %")
            return


def _if(holds: Callable[[Publication], bool], observed: str, needed: str) -> Check[Publication]:
    """Make a check that reports a study if ``holds`` is true. ``observed`` may contain the study's fields in braces."""

    def check(published: Publication) -> Iterator[Seen]:
        if holds(published):
            yield Seen(published.study, observed.format(published), needed)

    return check


def _unlike_averaged(published: Publication) -> Iterator[Seen]:
    if published.averages_over:
        yield Seen(published.study, f"means over {' and '.join(published.averages_over)}", "one figure for each")


CHECKS: Mapping[str, Check[Publication]] = {
    "topology-mismatch": _topology_mismatch,
    "unequal-members": _unequal_members,
    "file-exceeds-fs": _file_exceeds_fs,
    "file-fits-cache": _file_fits_cache,
    "io-not-on-members": _io_not_on_members,
    "promised-metric-missing": _promised_metric_missing,
    "integrity-unchecked": _if(
        lambda it: _INTEGRITY in it.promises and _INTEGRITY not in it.reports,
        "the data are claimed to be safe",
        "checksums before and after",
    ),
    "too-few-repeats": _too_few_repeats,
    "no-dispersion": _if(lambda it: not it.shows_spread, "numbers without an interval", "n and an interval"),
    "no-percentiles": _if(
        lambda it: "latency" in it.reports and not it.shows_percentiles, "latency by its mean only", "p50, p95 and p99"
    ),
    "claim-outside-grid": _claim_outside_grid,
    "unlike-averaged": _unlike_averaged,
    "network-backed": _if(lambda it: it.backing == "network", "disks on a network", "local disks"),
    "arm-missing": _arm_missing,
    "simulated-origin": _if(lambda it: bool(it.engine), "figures of a {0.engine}", "a label beside every number"),
    "volume-mismatch": _volume_mismatch,
    "cpu-percent-only": _if(lambda it: it.cpu_unit == "percent", "CPU in percent", "CPU µs per I/O or s per GiB"),
    "percentile-of-averages": _if(
        lambda it: it.percentiles_of == "averages", "percentiles of averaged values", "percentiles of single I/Os"
    ),
    "raw-across-platforms": _if(lambda it: it.compares_raw, "MB/s or IOPS of two platforms side by side", "ratios"),
    "mttdl-as-result": _if(lambda it: it.shows_mttdl, "MTTDL as a result", "scenarios and exposure"),
}
