"""Parses mdadm command lines: the mode, the array, the devices, and the action on each device.

The options are data (mdadm_options.toml). As in getopt_long(3), a long option may be abbreviated to a unique prefix,
and short options may be combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import msgspec

from lab.gates.decoding import FormatVersion
from lab.gates.text import shortened
from lab.publications.shell import Word
from lab.tomlfile import read_toml

OPTIONS_FILE = Path(__file__).with_name("mdadm_options.toml")
_SAME = {
    "raid-disks": "raid-devices",
    "spare-disks": "spare-devices",
    "set-faulty": "fail",
    "parity": "layout",
    "rounding": "chunk",
}
_DOES = {"add", "re-add", "add-spare", "add-journal", "fail", "remove", "replace", "with"}
"""Options of manage mode that apply to the devices after them."""
NO_DEVICE = {"missing", "detached", "failed", "faulty"}


class _Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    with_value: frozenset[str]
    with_optional_value: frozenset[str]
    without_value: frozenset[str]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format_version: FormatVersion
    modes: dict[str, str]
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
    """Arrays and devices, in order; in the modes that create or change an array, the first is the array."""
    values: dict[str, str] = field(default_factory=dict)
    """Long name of an option -> its value; empty for an option without a value."""
    actions: list[tuple[str, Word]] = field(default_factory=list)
    """Actions of manage and grow mode on devices: add, re-add, fail, remove or replace, and the device."""
    problem: str = ""
    """The reason why the command is not analysed, as a clause; else empty."""

    @property
    def array(self) -> str:
        return self.names[0].text if self.names else ""

    @property
    def devices(self) -> list[Word]:
        """All names except for the array and for keywords such as ``missing``."""
        return [word for word in self.names[1:] if word.text not in NO_DEVICE]


def parse_mdadm(words: Sequence[Word]) -> MdadmCall:
    """Parse the words after ``mdadm``."""
    call = MdadmCall()
    if bare := next((word.unknown for word in words if word.is_bare), ""):
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
    found = {_SAME.get(each, each) for each in _spellings() if each == name} or {
        _SAME.get(each, each) for each in _spellings() if each.startswith(name)
    }
    if len(found) != 1:
        call.problem = f"mdadm has no option '{shortened(text, 40)}' that is known here"
        return action
    return _option(call, found.pop(), value if sign else None, rest, action)


def _letters(call: MdadmCall, letters: str, rest: list[Word], action: str) -> str:
    while letters and not call.problem:
        letter, letters = letters[0], letters[1:]
        own = _table().letters
        name = own.get(call.mode, {}).get(letter) or own["any"].get(letter)
        if name is None:
            call.problem = f"mdadm has no option '-{letter}' that is known here"
        elif name in _table().options.with_value:
            return _option(call, name, letters or None, rest, action)
        else:
            action = _option(call, name, None, rest, action)
    return action


def _option(call: MdadmCall, name: str, value: str | None, rest: list[Word], action: str) -> str:
    """Process one option; returns the action on the devices that follow."""
    table = _table()
    # In the modes that create an array, some of these names are not modes but device properties or switches.
    if not call.mode or (call.mode == "manage" and table.modes.get(name) == "misc" and not call.actions):
        call.mode = table.modes.get(name, call.mode)
    if name in table.options.with_value and value is None:
        value = rest.pop(0).text if rest else ""
    call.values[name] = value or ""
    if name in _DOES:
        if value:
            call.actions.append((name, Word(value)))
        return name
    return action
