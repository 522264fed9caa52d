"""Bitwise comparison of two results; those of one experiment in virtual time are identical."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lab.results.record import ResultRecord

_CHANCE = frozenset({"id", "created_utc", "started_utc", "cpu_model"})
"""Names and dates of the run, and the computer's processor, which does not affect a machine in virtual time."""
_COMPUTERS = frozenset(
    {"fio_seconds", "mkfs_seconds", "mdadm_seconds", "resync_seconds", "other_seconds", "total_seconds"}
)
"""Fields of the timings that are the computer's time."""


def measured_part(record: ResultRecord) -> dict[str, Any]:
    """The reproducible part of a record: all but names, dates and the computer's own time."""
    part: dict[str, Any] = _without(msgspec.to_builtins(record), _CHANCE)
    part["timings"] = _without(part["timings"], _COMPUTERS)
    return part


def digest(record: ResultRecord) -> str:
    """SHA-256 of the measured part, in hexadecimal digits."""
    return hashlib.sha256(msgspec.json.encode(measured_part(record), order="deterministic")).hexdigest()


def differences(first: ResultRecord, second: ResultRecord) -> Iterator[str]:
    """One line for each value that differs: its place and both values."""
    yield from _differences("", measured_part(first), measured_part(second))


def _without(value: Any, names: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(each, names) for name, each in value.items() if name not in names}
    return [_without(each, names) for each in value] if isinstance(value, list | tuple) else value


def _differences(place: str, first: Any, second: Any) -> Iterator[str]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for name in dict.fromkeys((*first, *second)):
            yield from _differences(f"{place}.{name}" if place else name, first.get(name), second.get(name))
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for number, (one, other) in enumerate(zip(first, second, strict=True)):
            yield from _differences(f"{place}[{number}]", one, other)
    elif first != second:
        yield f"{place}: {_short(first)} and {_short(second)}"


def _short(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"{len(value)} entries"
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
