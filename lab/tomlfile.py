"""TOML read strictly into msgspec Structs: a key that nobody reads is a mistake, and all mistakes are named at once.

Keys whose name ends in ``_bytes`` may be written as text (``"500M"``, see lab.units) instead of a whole number.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from lab.errors import LabError, SpecError
from lab.gates.numbers import parse_bytes
from lab.old_names import with_new_keys

T = TypeVar("T", bound=msgspec.Struct)
W = TypeVar("W", bound=StrEnum)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that ``word`` was probably meant to be; None when nothing is near."""
    found = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return found[0] if found else None


def unknown_word(what: str, word: str, known: Iterable[str]) -> SpecError:
    """The error for a name that is in no list, with the nearest name or the whole list as its hint."""
    names = sorted(known)
    near = nearest(word, names)
    hint = f"did you mean '{near}'?" if near else f"known: {', '.join(names) or 'none'}"
    return SpecError(f"there is no {what} '{word}'", hint=hint)


def known_word(words: type[W], text: str, what: str) -> W:
    """The member of a closed set. Raises SpecError with the nearest word."""
    try:
        return words(text.strip().lower())
    except ValueError:
        raise unknown_word(what, text, [word.value for word in words]) from None


def read_toml(path: Path, kind: type[T]) -> T:
    """Read one file. Raises SpecError for a file that is not there or unreadable, and as decode_toml does."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SpecError(f"there is no file '{path}'", hint="check the name; a relative path starts here") from None
    except (OSError, UnicodeError) as error:
        raise SpecError(f"'{path}' cannot be read: {error}") from None
    return decode_toml(text, kind, source=str(path))


def decode_toml(text: str, kind: type[T], *, source: str = "TOML text") -> T:
    """Decode ``text``; ``source`` names it in errors.

    Raises SpecError for a syntax error (with its line), unknown keys (with the nearest known key), missing keys and
    values of the wrong type, all listed together.
    """
    try:
        tree = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecError(f"'{source}' is not TOML: {error}", hint="fix the line named above") from None
    if tree.get("format_version") == 1:
        tree = with_new_keys(tree)
    return convert_tree(tree, kind, source=source)


def convert_tree(tree: Any, kind: type[T], *, source: str) -> T:
    """A tree of tables and values as a ``kind``: for parts of a file whose kind another part names.

    Raises SpecError as decode_toml does, but for syntax.
    """
    problems: list[str] = []
    tree = _with_sizes(tree, problems, "")
    problems += _problems(tree, kind, "")
    if not problems:
        try:
            return msgspec.convert(tree, kind)
        except (msgspec.ValidationError, LabError) as error:
            problems.append(_readable(error))
    listed = "\n".join(f"  - {problem}" for problem in problems)
    raise SpecError(f"'{source}' has keys or values that are not possible:\n{listed}", hint="fix the keys named above")


def _readable(error: Exception) -> str:
    return error.message if isinstance(error, LabError) else str(error).replace(" - at `$`", "")


def _with_sizes(node: Any, problems: list[str], path: str) -> Any:
    """The tree with every text under a ``…_bytes`` key turned into a number."""
    if isinstance(node, list):
        return [_with_sizes(item, problems, f"{path}[{index}]") for index, item in enumerate(node)]
    if not isinstance(node, dict):
        return node
    return {key: _size_or_tree(key, value, problems, _join(path, key)) for key, value in node.items()}


def _size_or_tree(key: str, value: Any, problems: list[str], path: str) -> Any:
    if not key.endswith("_bytes"):
        return _with_sizes(value, problems, path)
    if isinstance(value, list):
        return [_size_or_tree(key, item, problems, f"{path}[{index}]") for index, item in enumerate(value)]
    if not isinstance(value, str):
        return value
    try:
        return parse_bytes(value, what=path)
    except SpecError as error:
        problems.append(f"{error.message} ({error.hint})")
        return 0


def _problems(value: Any, wanted: Any, path: str) -> Iterator[str]:
    """Everything that keeps ``value`` from being a ``wanted``, key by key."""
    struct = _struct_in(wanted, value)
    if struct is not None and isinstance(value, dict):
        yield from _struct_problems(value, struct, path)
        return
    origin, arguments = get_origin(wanted), get_args(wanted)
    if isinstance(value, list) and origin in (list, tuple) and _holds_struct(wanted):
        for index, item in enumerate(value):
            yield from _problems(item, arguments[0], f"{path}[{index}]")
        return
    if isinstance(value, dict) and origin in (dict, Mapping) and _holds_struct(wanted):
        for key, item in value.items():
            yield from _problems(item, arguments[1], _join(path, key))
        return
    try:
        msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        yield f"{path}: {_readable(error)}"


def _struct_problems(tree: dict[str, Any], struct: type[msgspec.Struct], path: str) -> Iterator[str]:
    fields = _fields(struct)
    tag_field = struct.__struct_config__.tag_field
    for key, value in tree.items():
        if key in fields:
            yield from _problems(value, fields[key].type, _join(path, key))
        elif key != tag_field:
            near = nearest(key, fields)
            advice = f"did you mean '{near}'?" if near else f"known here: {', '.join(fields)}"
            yield f"unknown key '{_join(path, key)}': {advice}"
    for name, field in fields.items():
        if field.required and name not in tree:
            yield f"key '{_join(path, name)}' is missing"


@cache
def _fields(struct: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(struct)}


def _struct_in(wanted: Any, value: Any) -> type[msgspec.Struct] | None:
    """The struct that a table is to become; for a union, the one its tag names, or the only one."""
    if isinstance(wanted, type):
        return wanted if issubclass(wanted, msgspec.Struct) else None
    if get_origin(wanted) in (list, tuple, dict, Mapping):
        return None
    structs = [each for each in get_args(wanted) if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    if len(structs) == 1:
        return structs[0]
    for struct in structs:
        config = struct.__struct_config__
        if isinstance(value, dict) and config.tag_field and value.get(config.tag_field) == config.tag:
            return struct
    return None


def _holds_struct(wanted: Any) -> bool:
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        return True
    return any(_holds_struct(each) for each in get_args(wanted))


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
