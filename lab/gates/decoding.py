"""Thread-safe typed decoding.

msgspec analyses a Struct's fields at the first use of the type and publishes the result before it is complete. A second
thread that decodes the same type at that moment reads uninitialised fields, and the process ends with a segmentation
fault (seen with 0.22.0). Here a lock serialises the first use of each type.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_FIRST_USE = threading.Lock()
_known: set[Any] = set()


def decode_json(data: bytes | str, kind: type[T]) -> T:
    """Decode JSON. Raises msgspec.DecodeError for invalid JSON, msgspec.ValidationError for JSON of another type."""
    _know(kind)
    return msgspec.json.decode(data, type=kind)


def convert(tree: Any, kind: type[T]) -> T:
    """Convert a tree of dicts, lists and plain values to ``kind``. Raises msgspec.ValidationError."""
    _know(kind)
    return msgspec.convert(tree, kind)


def _know(kind: Any) -> None:
    if kind in _known:
        return
    with _FIRST_USE:
        # Creating a decoder analyses the type and all types inside it.
        msgspec.json.Decoder(kind)
        _known.add(kind)
