"""Typed decoding that any thread may begin.

msgspec works out what a Struct's fields are at the first use of its type and shares that before it is complete; a
second thread that decodes the same type in that moment reads fields that are not there yet, and the process ends
with a segmentation fault (seen with 0.22.0). Here the first use of each type is one thread's alone.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_FIRST_USE = threading.Lock()
_known: set[Any] = set()


def decode_json(data: bytes | str, kind: type[T]) -> T:
    """Raises msgspec.DecodeError for what is no JSON, msgspec.ValidationError for JSON of another kind."""
    _know(kind)
    return msgspec.json.decode(data, type=kind)


def convert(tree: Any, kind: type[T]) -> T:
    """A tree of dicts, lists and plain values as a ``kind``. Raises msgspec.ValidationError."""
    _know(kind)
    return msgspec.convert(tree, kind)


def _know(kind: Any) -> None:
    if kind in _known:
        return
    with _FIRST_USE:
        # Making a decoder works out the type and all types inside it.
        msgspec.json.Decoder(kind)
        _known.add(kind)
