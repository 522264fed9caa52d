"""fio's options and engines: the effect of each on a job, and the syntax of its value.

The table is data (fio_options.toml). Values are parsed as fio does (parse.c), checked with fio 3.33: ``4k`` and ``4ki``
are 4,096 bytes, ``4kib`` is 4,000 unless ``kb_base=1000``, and of an expression only the first number counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path

import msgspec

from lab.gates.decoding import FormatVersion
from lab.tomlfile import read_toml
from lab.workloads.workload import ENGINES, plays

OPTIONS_FILE = Path(__file__).with_name("fio_options.toml")
KIB_BASE = 1024
_NUMBER = r"(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19})"
_SIZE = re.compile(rf"({_NUMBER})([kmgtp]?)(i?)(b?)", re.IGNORECASE)
_PERCENT = re.compile(r"[0-9]{1,3}%")
_TIME = re.compile(rf"({_NUMBER})([a-z]*)", re.IGNORECASE)
_SECONDS = {"us": 1e-6, "usec": 1e-6, "ms": 1e-3, "msec": 1e-3, "": 1, "s": 1, "sec": 1, "m": 60, "h": 3600, "d": 86400}


class FioGroup(StrEnum):
    """The effect of a fio option."""

    REACHES = "reaches"
    """Runs a command, loads code, or opens something other than the job's own target."""
    CHANGES = "changes"
    """Changes the load, and raidlab's own loads have no such option."""
    PLAYED = "played"
    """raidlab's own loads support it too."""
    SILENT = "silent"
    """Has no effect on the load."""
    UNKNOWN = "unknown"


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: FioGroup
    why: str
    names: tuple[str, ...]
    off: tuple[str, ...] = ()
    moves_data: bool = True


class _Values(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    names: tuple[str, ...]
    pattern: str
    why: str


class _CommandLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    without_value: tuple[str, ...]
    silent: tuple[str, ...]
    without_job: tuple[str, ...]
    reaches: dict[str, str]


class FioTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The content of fio_options.toml."""

    format_version: FormatVersion
    options: tuple[_Entry, ...]
    values: tuple[_Values, ...]
    engines: tuple[_Entry, ...]
    aliases: dict[str, str]
    kinds: dict[str, tuple[str, ...]]
    command_line: _CommandLine

    @cached_property
    def by_name(self) -> Mapping[str, _Entry]:
        return {name: entry for entry in self.options for name in entry.names}

    @cached_property
    def engine_by_name(self) -> Mapping[str, _Entry]:
        return {name: entry for entry in self.engines for name in entry.names}

    @cached_property
    def kind_by_name(self) -> Mapping[str, str]:
        return {name: kind for kind, names in self.kinds.items() for name in names}

    @cached_property
    def patterns(self) -> tuple[tuple[frozenset[str], re.Pattern[str], str], ...]:
        return tuple((frozenset(each.names), re.compile(each.pattern), each.why) for each in self.values)

    @cached_property
    def spellings(self) -> frozenset[str]:
        """Every word that may follow ``--`` on a command line."""
        own = self.command_line
        return frozenset({*self.by_name, *self.aliases, *own.silent, *own.reaches} - {"include"})


@cache
def fio_table() -> FioTable:
    """The whole table."""
    return read_toml(OPTIONS_FILE, FioTable)


def canonical(name: str) -> str:
    """The canonical name of an option."""
    return fio_table().aliases.get(name, name)


def spelled_out(word: str) -> str | None:
    """The option that getopt_long(3) selects for ``word``: itself, or the only one with that prefix; else None."""
    spellings = fio_table().spellings
    if word in spellings:
        return word
    found = {canonical(each) for each in spellings if each.startswith(word)}
    return found.pop() if len(found) == 1 else None


def group_of(name: str, value: str) -> tuple[FioGroup, str]:
    """The effect of an option with that value, and the reason, as a clause. ``name`` is canonical."""
    table = fio_table()
    entry = table.by_name.get(name)
    if entry is None:
        return FioGroup.UNKNOWN, "is no option of fio 3.33 to 3.42"
    for names, pattern, why in table.patterns:
        if name in names and pattern.search(value):
            return FioGroup.REACHES, why
    if value in entry.off:
        return FioGroup.SILENT, "is switched off"
    if name == "ioengine":
        return _group_of_engine(value)
    if entry.group is FioGroup.PLAYED and not is_variable(value):
        return _group_of_value(name, value)
    return entry.group, entry.why


def _group_of_engine(value: str) -> tuple[FioGroup, str]:
    word = value.partition(":")[0]
    if is_variable(value) or value in ENGINES:
        return FioGroup.PLAYED, ""
    entry = fio_table().engine_by_name.get(word)
    if entry is None or (word != value and word != "external"):
        return (
            FioGroup.REACHES,
            "loads code: fio has no engine of this name, and loads a library that it is the name of",
        )
    return entry.group, entry.why


def _group_of_value(name: str, value: str) -> tuple[FioGroup, str]:
    if name in fio_table().kind_by_name or plays(name, value):
        return FioGroup.PLAYED, ""
    if name == "rw" and "trim" in value:
        return FioGroup.CHANGES, "discards blocks"
    if name == "rw" and ":" in value:
        return FioGroup.CHANGES, "leaves out or repeats addresses between requests"
    if name == "verify" and value in ("0", "null"):
        return FioGroup.SILENT, "verifies nothing"
    return FioGroup.CHANGES, "is a value that raidlab's loads do not have"


def moves_data(engine: str) -> bool:
    """Whether an engine reads or writes at all."""
    entry = fio_table().engine_by_name.get(engine.partition(":")[0])
    return entry is None or entry.moves_data


def is_variable(value: str) -> bool:
    """Whether the value is known only at fio's run time."""
    return "$" in value or "`" in value


def why_not_understood(name: str, value: str) -> str:
    """Why the value of an option cannot be checked, as a clause; empty if it can. ``name`` is canonical."""
    if is_variable(value):
        return "depends on a variable"
    kind = fio_table().kind_by_name.get(name)
    if kind is None or _READERS[kind](value):
        return ""
    return "is a calculation" if re.search(r"[(*+]", value) else f"is no {kind} that is known here"


def bytes_of(text: str, kib_base: int = KIB_BASE) -> int | None:
    """Parse a size as fio does; None if it is not a size, such as a percentage."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    number, prefix, binary, unit = found.groups()
    # "kib" has the opposite meaning of "k" and "kb"; "ki" does not.
    base = {1024: 1000, 1000: 1024}.get(kib_base, kib_base) if binary and unit else kib_base
    return (number_of(number) or 0) * int(base ** " kmgtp".index(prefix.lower() or " "))


def sizes_of(text: str, kib_base: int = KIB_BASE) -> tuple[int, ...] | None:
    """The sizes of ``4k``, ``128k,`` or ``4k-8k,16k``, for reads, writes and trims; None if one is not a size."""
    words = [word for word in re.split(r"[,/:-]", text) if word.strip()]
    found = [bytes_of(word, kib_base) for word in words]
    return tuple(each for each in found if each is not None) if words and None not in found else None


def seconds_of(text: str) -> float | None:
    """Parse a time as fio does, in seconds if it has no unit; None if it is not a time."""
    found = _TIME.fullmatch(text.strip())
    if found is None or found[2].lower() not in _SECONDS:
        return None
    return (number_of(found[1]) or 0) * _SECONDS[found[2].lower()]


def number_of(text: str) -> int | None:
    """Parse a whole number, decimal or with ``0x``; None if it is not one."""
    if not re.fullmatch(_NUMBER, text.strip()):
        return None
    return int(text, 16 if text.strip()[:2].lower() == "0x" else 10)


def _are_numbers(text: str) -> bool:
    return all(number_of(word) is not None for word in _parts(text))


def _parts(text: str) -> Iterable[str]:
    return [word for word in re.split(r"[,:]", text) if word] or [text]


_READERS = {
    "size": lambda text: bool(_PERCENT.fullmatch(text)) or sizes_of(text) is not None,
    "time": lambda text: seconds_of(text) is not None,
    "number": lambda text: _are_numbers(text) or all(map(bytes_of, _parts(text))),
    "switch": lambda text: number_of(text) is not None or text.lower() in ("true", "false"),
}
