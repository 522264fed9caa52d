"""Decode TOML strictly into msgspec Structs. An unknown key is an error, and all errors are reported together.

A key whose name ends in ``_bytes`` may have a text value (``"500M"``, see lab.gates.decoding) instead of a whole
number. Files with keys of earlier versions remain readable.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from lab.errors import LabError, SpecError
from lab.gates.decoding import MOST_TOML_BYTES, bounds, convert, parse_bytes, parse_toml, shown
from lab.gates.files import read_text
from lab.gates.text import shortened
from lab.plugins import catalogue

_KEYS = {"personality": "model"}
"""Version 1 of experiments, lessons and results calls the model of an emulated drive ``personality``, and so do even
older lists of disks. Old names are accepted on input, but never written.
"""
OLD_DRIVES_FOLDER = "personalities"
"""The old name of the folder of the user's own drive models."""
STEPS = {"11-scrub-and-silent-corruption": {"mend": "repair"}}
"""For each lesson, maps the old id of a step to its current id."""
ANSWERS = {"11-scrub-and-silent-corruption": {"mends": "repairs"}}
"""For each lesson, maps the old id of an option to its current id."""
DRAWN_AS = {("12-choosing-a-level", "purpose"): "wish"}
"""Maps a lesson and a variable to the name that seeds the variable's random value. With it, a seed still gives a
student the same value as before the variable was renamed.
"""


def with_new_keys(tree: Any) -> Any:
    """Return a tree of tables, lists and values with every old key replaced by the current one."""
    if isinstance(tree, dict):
        return {_KEYS.get(key, key): with_new_keys(value) for key, value in tree.items()}
    return [with_new_keys(each) for each in tree] if isinstance(tree, list) else tree


def with_new_arguments(action: Mapping[str, Any]) -> dict[str, Any]:
    """Return an action of a lesson file with its old arguments converted to the current ones."""
    match action:
        case {"act": "array.scrub", "repair": bool(repairs), **rest}:
            return {**rest, "act": "array.scrub", "action": "repair" if repairs else "check"}
        case {"act": "array.grow", "disk": disk, **rest}:
            # ``members`` was the resulting number of members. It is not needed, because the disks alone determine it.
            return {**rest, "act": "array.grow", "members": disk}
        case _:
            return dict(action)


T = TypeVar("T", bound=msgspec.Struct)
W = TypeVar("W", bound=StrEnum)

_MOST_PROBLEMS = 10
_LONGEST_PROBLEM = 300
_LONGEST_WORD = 64
"""Maximum length of a word in the search for the nearest one, because the time that difflib takes grows with the square
of the length."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most similar to ``word``, or None if none is similar."""
    if len(word) > _LONGEST_WORD:
        return None
    found = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return found[0] if found else None


def unknown_word(what: str, word: str, known: Iterable[str]) -> SpecError:
    """Return the error for an unknown name. Its hint gives the nearest name or the whole list."""
    names = sorted(known)
    near = nearest(word, names)
    hint = f"did you mean '{near}'?" if near else f"known: {', '.join(names) or 'none'}"
    return SpecError(f"there is no {what} '{shortened(word, _LONGEST_WORD)}'", hint=hint)


def known_word(words: type[W], text: str, what: str) -> W:
    """Return the member of ``words`` with the value ``text``. Raises SpecError, which suggests the nearest value."""
    try:
        return words(text.strip().lower())
    except ValueError:
        raise unknown_word(what, text, [word.value for word in words]) from None


def read_toml(path: Path, kind: type[T]) -> T:
    """Read one file. Raises SpecError if the file is missing or unreadable, or if ``decode_toml`` does."""
    return decode_toml(toml_text(path), kind, source=str(path))


def file_of(what: str, name: str, folder: Path) -> Path:
    """Return the file with this name in the catalogue ``folder``. A path that ends in ``.toml`` is used as it is.

    Raises SpecError if the name is unknown.
    """
    if name.endswith(".toml"):
        return Path(name)
    known = catalogue(folder)
    if name not in known:
        raise unknown_word(what, name, known)
    return known[name]


def toml_text(path: Path) -> str:
    """Read the text of a file for ``decode_toml``. Raises SpecError if the file cannot be read."""
    return read_text(path, MOST_TOML_BYTES, hint="check that this is the right file")


def decode_toml(text: str, kind: type[T], *, source: str = "TOML text") -> T:
    """Decode ``text``, which error messages call ``source``.

    Raises SpecError, which gives the line of a syntax error, or else lists the first ten unknown keys (with the nearest
    known key), missing keys and values of the wrong type.
    """
    tree = parse_toml(text, source=source)
    if tree.get("format_version") == 1:
        tree = with_new_keys(tree)
    return convert_tree(tree, kind, source=source)


def convert_tree(tree: Any, kind: type[T], *, source: str) -> T:
    """Convert a tree of tables and values to ``kind``. Raises SpecError, which lists all problems (see decode_toml)."""
    problems: list[str] = []
    tree = _with_sizes(tree, problems, "")
    _check(tree, kind, "", problems)
    if not problems:
        try:
            return convert(tree, kind)
        except (msgspec.ValidationError, LabError, OverflowError) as error:
            problems.append(_readable(error))
    listed = [shortened(each, _LONGEST_PROBLEM) for each in problems[:_MOST_PROBLEMS]]
    if left := len(problems) - len(listed):
        listed.append(f"and {left:,} more")
    lines = "".join(f"\n  - {each}" for each in listed)
    raise SpecError(f"'{shortened(source, 200)}' has invalid keys or values:{lines}", hint="fix the keys listed above")


_PROSE = frozenset({"title", "question", "why", "defects"})
"""Keys of experiments, of their arrays and of sweeps that explain a measurement and do not change it."""


def as_meant(text: str) -> str:
    """Return the settings of an experiment's file in one form for all format versions, so that they can be compared."""
    try:
        tree = with_new_keys(parse_toml(text))
    except SpecError:
        return text
    return json.dumps({**_without_prose(tree), "format_version": 0}, sort_keys=True, default=str)


def _without_prose(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without_prose(value) for key, value in node.items() if key not in _PROSE}
    return [_without_prose(item) for item in node] if isinstance(node, list) else node


def _readable(error: Exception) -> str:
    return error.message if isinstance(error, LabError) else str(error).replace(" - at `$`", "")


def _with_sizes(node: Any, problems: list[str], path: str, *, is_size: bool = False) -> Any:
    """Return the tree with every text under a ``…_bytes`` key converted to a number."""
    if isinstance(node, list):
        return [_with_sizes(item, problems, f"{path}[{index}]", is_size=is_size) for index, item in enumerate(node)]
    if isinstance(node, dict):
        return {
            key: _with_sizes(value, problems, _join(path, key), is_size=key.endswith("_bytes"))
            for key, value in node.items()
        }
    if not is_size or not isinstance(node, str):
        return node
    try:
        return parse_bytes(node, what=path)
    except SpecError as error:
        problems.append(f"{error.message} ({error.hint})")
        return _NO_SIZE


_NO_SIZE = object()
"""Placeholder for a size that has already been reported as invalid."""


def _check(value: Any, kind: Any, path: str, problems: list[str]) -> None:
    """Append to ``problems`` everything that prevents the conversion of ``value`` to ``kind``, key by key."""
    struct, origin, arguments = _struct_in(kind, value), get_origin(kind), get_args(kind)
    if struct is not None and isinstance(value, dict):
        _check_struct(value, struct, path, problems)
    elif isinstance(value, list) and origin in (list, tuple) and _holds_struct(kind):
        for index, item in enumerate(value):
            _check(item, arguments[0], f"{path}[{index}]", problems)
    elif isinstance(value, dict) and origin in (dict, Mapping) and _holds_struct(kind):
        for key, item in value.items():
            _check(item, arguments[1], _join(path, key), problems)
    elif value is not _NO_SIZE:
        try:
            convert(value, kind)
        except (msgspec.ValidationError, OverflowError) as error:
            message, is_number = _readable(error), isinstance(value, int | float) and not isinstance(value, bool)
            within = bounds(kind) if is_number else ""
            problems.append(f"{path}: {f'{shown(value)} is not possible: write {within}' if within else message}")


def _check_struct(tree: dict[str, Any], struct: type[msgspec.Struct], path: str, problems: list[str]) -> None:
    fields = _fields(struct)
    tag_field = struct.__struct_config__.tag_field
    for key, value in tree.items():
        if key in fields:
            _check(value, fields[key].type, _join(path, key), problems)
        elif key != tag_field:
            # The search is slow, so it is left out for problems that are only counted.
            near = nearest(key, fields) if len(problems) < _MOST_PROBLEMS else None
            advice = f"did you mean '{near}'?" if near else f"known here: {', '.join(fields)}"
            problems.append(f"unknown key '{_join(path, key)}': {advice}")
    missing = [name for name, field in fields.items() if field.required and name not in tree]
    problems += [f"key '{_join(path, name)}' is missing" for name in missing]


@cache
def _fields(struct: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(struct)}


def _struct_in(kind: Any, value: Any) -> type[msgspec.Struct] | None:
    """Return the struct for a table. In a union, it is the only struct, or the one with the table's tag."""
    if isinstance(kind, type):
        return kind if issubclass(kind, msgspec.Struct) else None
    if get_origin(kind) in (list, tuple, dict, Mapping):
        return None
    structs = [each for each in get_args(kind) if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    if len(structs) == 1:
        return structs[0]
    for struct in structs:
        config = struct.__struct_config__
        if isinstance(value, dict) and config.tag_field and value.get(config.tag_field) == config.tag:
            return struct
    return None


def _holds_struct(kind: Any) -> bool:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return True
    return any(_holds_struct(each) for each in get_args(kind))


def _join(path: str, key: str) -> str:
    key = shortened(key, _LONGEST_WORD)
    return f"{path}.{key}" if path else key


def kinds_by_tag(key: str, *modules: Mapping[str, Any]) -> dict[str, Any]:
    """Map each tag to the Struct that the modules define with this tag. ``key`` is the name of the tag's field."""
    names = (each for names in modules for each in names.values())
    kinds = [each for each in names if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    # The tag of a class without a tag of its own is the name of the class. Such a class is a base of others.
    return {
        str(kind.__struct_config__.tag): kind
        for kind in kinds
        if kind.__struct_config__.tag_field == key and kind.__struct_config__.tag != kind.__name__
    }


def make_tagged(written: Mapping[str, Any], kinds: Mapping[str, type[T]], *, what: str, key: str, where: str) -> T:
    """Convert a table with a tag. Raises SpecError if the tag is invalid, or if ``convert_tree`` does."""
    name = written.get(key)
    if not isinstance(name, str):
        raise SpecError(f"{where}: a {what} has no '{key}'", hint=f"set {key} to one of: {', '.join(sorted(kinds))}")
    if name not in kinds:
        error = unknown_word(what, name, kinds)
        raise SpecError(f"{where}: {error.message}", hint=error.hint)
    return convert_tree(dict(written), kinds[name], source=f"{where}: {name}")


def fill_tree(tree: Any, values: Mapping[str, Any], prefix: str = "", what: str = "value") -> Any:
    """Return the tree with every ``{name}`` in its texts replaced by the value of ``name``. ``prefix`` precedes names.

    With the prefix ``seed.``, for example, only ``{seed.name}`` is replaced. A text that consists only of a placeholder
    becomes the value itself, which may be a number or a text. Raises SpecError if a name is unknown.
    """
    if isinstance(tree, Mapping):
        return {
            fill_tree(key, values, prefix, what): fill_tree(value, values, prefix, what) for key, value in tree.items()
        }
    if isinstance(tree, list | tuple):
        return [fill_tree(value, values, prefix, what) for value in tree]
    if not isinstance(tree, str):
        return tree
    placeholder = _placeholder(prefix)
    if whole := placeholder.fullmatch(tree):
        return _value_of(whole[1], values, what)
    return placeholder.sub(lambda match: str(_value_of(match[1], values, what)), tree)


def _value_of(name: str, values: Mapping[str, Any], what: str) -> Any:
    if name not in values:
        raise unknown_word(what, name, values)
    return values[name]


@cache
def _placeholder(prefix: str) -> re.Pattern[str]:
    return re.compile(rf"\{{{re.escape(prefix)}([a-z_]+)\}}")


_ARRAY_STEPS = {
    **{word: f"array.{word}" for word in ("create", "fail", "remove", "add", "re-add", "replace", "stop", "assemble")},
    **{"scrub": "array.scrub", "wait": "array.wait", "pull": "array.pull", "plug": "array.plug-in", "run": "shell"},
}
_STEP_KEYS = {"do": "act", "member": "disk", "by": "new", "command": "line"}


def with_new_scenario_step(step: Mapping[str, Any], version: int, drives: str) -> Iterator[dict[str, Any]]:
    """Convert a step of a scenario file of format ``version`` to the current names. Some steps become several steps.

    ``drives`` lists the drives of the array, for example ``@0 @1``.
    """
    steps = _steps_of_version_2(step) if version == 1 else iter((dict(step),))
    yield from steps if version > 2 else (new for each in steps for new in _steps_of_version_3(each, drives))


def with_new_scenario_array(array: Mapping[str, Any], version: int) -> dict[str, Any]:
    """Convert the array of a scenario file of format ``version`` to arguments of ``array.create``."""
    new = dict(array)
    if version > 2:
        return new
    match new.pop("policy", "resync"):
        case "bitmap":
            new["bitmap_chunk"] = "64K"
        case "journal":
            new["journal"] = new.get("members", 4)
        case "journal-back" | "write-back":
            # Scenarios created arrays of these policies without a journal.
            pass
        case policy:
            new["policy"] = policy
    names = {"members": "disks", "is_clean": "assume_clean", "chunk_bytes": "chunk"}
    return {names.get(key, key): str(value) if key == "chunk_bytes" else value for key, value in new.items()}


def _steps_of_version_3(step: Mapping[str, Any], all_drives: str) -> Iterator[dict[str, Any]]:
    match step:
        case {"act": "array.assemble" | "restart" as act, **rest} if rest.keys() & {"force", "options", "activates"}:
            # The action has no arguments for these options, so mdadm's command line is given instead.
            disks, is_forced = rest.pop("disks", None), rest.pop("force", False)
            options = rest.pop("options", ["--run", "--force"] if is_forced else ["--run"])
            drives = all_drives if disks is None else " ".join(f"@{disk}" for disk in disks)
            activates, only = rest.pop("activates", True), {key: rest[key] for key in ("only",) if key in rest}
            if act == "restart":
                yield {"act": "array.stop", **only}
            yield {"act": "shell", "line": " ".join(["mdadm --assemble", *options, "/dev/md0", drives]), **rest}
            if activates:
                yield {"act": "activate", **only}
        case {"act": "array.assemble", "disks": _}:
            yield {"array": "md0", **step}
        case {"act": "load", **rest}:
            yield {"act": "write-on", **rest}
        case _:
            yield dict(step)


def _steps_of_version_2(step: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    word = step.get("do", "")
    renames = {**_STEP_KEYS, "command": "command"} if word in ("start", "under-load") else _STEP_KEYS
    new = {renames.get(key, key): value for key, value in step.items()}
    new["act"] = _ARRAY_STEPS.get(word, word)
    match new:
        case {"act": "array.scrub", "waits": False, "action": action, **rest}:
            yield {**rest, "act": "set", "file": "sync_action", "value": action}
        case {
            "act": "array.fail" | "array.remove" | "array.add" | "array.re-add" as act,
            "members": [*members],
            **rest,
        }:
            yield from ({**rest, "act": act, "disk": member} for member in members)
        case {"act": "array.replace", "disk": old, "new": other, **rest}:
            # In version 1, a separate step added the disk.
            yield {**rest, "act": "shell", "line": f"mdadm /dev/md0 --replace @{old} --with @{other}"}
        case {"act": "array.assemble" | "restart" | "sum" as act}:
            options = {} if act == "sum" else {"options": new.pop("options", [])}
            yield {"disks" if key == "members" else key: value for key, value in new.items()} | options
        case _:
            yield {key: value for key, value in new.items() if key != "waits" or word != "scrub"}
