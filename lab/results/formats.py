"""Common code of all results files: decoding and format versions."""

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
"""Limit for files of earlier versions: decoded to a tree they take fifty times as much memory."""
_OF_MANY_LINES = frozenset({"experiment_toml", "job_text", "raw_json"})
Kind = TypeVar("Kind")


def refuse_newer(source: object, what: str, version: int, known: int) -> None:
    """Raises ResultError if the format of a file is newer than ``known``, the newest that this raidlab supports."""
    if version > known:
        raise ResultError(
            f"'{source}' has {what} format {version}; this raidlab reads up to {known}",
            hint="read it with a newer raidlab",
        )


def decode_visible(data: bytes, kind: type[Kind], change: Callable[[Any], Any] | None = None) -> Kind:
    """Decode JSON to ``kind`` with all text made visible (lab.gates.text), so that it can be printed without checks.

    ``change`` is applied to the tree first. Raises the errors of msgspec.
    """
    if change is not None:
        if len(data) > _MOST_CHANGED_BYTES:
            raise msgspec.ValidationError("too large for its format")
        return convert(change(_visible(msgspec.json.decode(data))), kind)
    # Decode to the type first: unknown fields of any size are dropped.
    found = decode_json(data, kind)
    # Separate searches take a tenth of the time of one regular expression.
    if data.isascii() and not any(escape in data for escape in _ESCAPES):
        # The usual case: it cannot contain control characters other than line feeds and tabs.
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
