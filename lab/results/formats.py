"""What all files of results have in common: how they are read, and how they say in which format they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from lab.errors import ResultError
from lab.gates.decoding import convert, decode_json
from lab.gates.text import visible
from lab.units import MIB

_ESCAPES = (rb"\u", rb"\b", rb"\f", rb"\r", b"\x7f")
_MOST_CHANGED_BYTES = 4 * MIB
"""Of what an earlier raidlab wrote: as a tree it takes fifty times as much."""
_OF_MANY_LINES = frozenset({"experiment_toml", "job_text", "raw_json"})
Kind = TypeVar("Kind")


def refuse_newer(source: object, what: str, version: int, known: int) -> None:
    """Raises ResultError for a file whose format a later raidlab has brought; ``known`` is the newest of this one."""
    if version > known:
        raise ResultError(
            f"'{source}' has {what} format {version}; this raidlab reads up to {known}",
            hint="read it with a newer raidlab",
        )


def decode_visible(data: bytes, kind: type[Kind], change: Callable[[Any], Any] | None = None) -> Kind:
    """JSON as a value of ``kind``, all text in it visible (lab.gates.text), so that whatever shows it need not ask.

    ``change`` is done to the tree before. Raises what msgspec raises.
    """
    if change is not None:
        if len(data) > _MOST_CHANGED_BYTES:
            raise msgspec.ValidationError("too large for its format")
        return convert(change(_visible(msgspec.json.decode(data))), kind)
    # Decoded as what it is first: of what is no part of it, however much, nothing is kept.
    found = decode_json(data, kind)
    # Each a search of its own, which takes a tenth of what one of a regular expression does.
    if data.isascii() and not any(escape in data for escape in _ESCAPES):
        # Nearly always: no character of control can be in it but line ends and tabulators.
        return found
    return convert(_visible(msgspec.to_builtins(found)), kind)


def _visible(value: Any, *, lines: bool = False) -> Any:
    if isinstance(value, str):
        return visible(value, lines=lines)
    if isinstance(value, list | tuple):
        return [_visible(each) for each in value]
    if isinstance(value, dict):
        return {visible(key): _visible(each, lines=key in _OF_MANY_LINES) for key, each in value.items()}
    return value
