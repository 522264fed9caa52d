"""The rows of a sweep on its axes: what varies, in which order, and which rows have figures that can be shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from lab.sweep.rows import CellRow, SweepResult
from lab.units import human_bytes

NOWHERE = -1
"""The code of a row that has no value on an axis, such as RAID 1 on that of the chunk sizes."""
Value = str | int


@dataclass(frozen=True, slots=True)
class _Field:
    field: str
    """Of ``CellRow``."""
    title: str
    word: Callable[[Value], str] = str
    alone: str = "{}"
    """How a value is told without its axis's title."""


_FIELDS = {
    "level": _Field("level", "level"),
    "members": _Field("members", "members", alone="{} members"),
    "chunk": _Field("chunk_bytes", "chunk", lambda value: human_bytes(int(value)), "chunk {}"),
    "drive": _Field("drive", "drive", lambda value: str(value) or "plain files"),
    "kernel": _Field("kernel", "kernel", lambda value: str(value) or "installed kernel"),
    "workload": _Field("workload", "workload"),
    "block": _Field("block_bytes", "block", lambda value: human_bytes(int(value)), "block {}"),
    "queue_depth": _Field("queue_depth", "queue depth", alone="queue depth {}"),
    "jobs": _Field("jobs", "jobs", alone="jobs {}"),
}
_BY_FIELD = {each.field: name for name, each in _FIELDS.items()}
WORKLOAD = "workload"


@dataclass(frozen=True, slots=True)
class Axis:
    """What varies over a sweep's rows, with two values or more. ``codes`` has each row's place in ``values``."""

    name: str
    title: str
    values: tuple[Value, ...]
    labels: tuple[str, ...]
    words: tuple[str, ...]
    """Values as they are told without the axis's title beside them."""
    codes: tuple[int, ...]
    """``NOWHERE`` for a row that has no value here."""

    @property
    def is_number(self) -> bool:
        """Whether its values can be put on a scale."""
        return all(isinstance(value, int) for value in self.values)

    @property
    def is_doubling(self) -> bool:
        """Whether all values are powers of two: then a scale of their logarithms is even."""
        return self.is_number and all(int(value) > 0 and int(value).bit_count() == 1 for value in self.values)

    def label(self, row: int) -> str:
        """Of the row with this number."""
        code = self.codes[row]
        return self.labels[code] if code != NOWHERE else "–"


@dataclass(frozen=True, slots=True)
class Pair:
    """One workload and direction: rows whose figures may stand side by side."""

    workload: str
    direction: str
    rows: tuple[int, ...]
    """Numbers of rows, in their order."""

    @property
    def title(self) -> str:
        """Such as ``rand-read-4k, reads``."""
        return f"{self.workload}, {self.direction}s"


class SweepGrid:
    """A sweep's usable rows, its axes, and what was wrong with the others."""

    def __init__(self, result: SweepResult) -> None:
        self.result = result
        problems: list[str] = []
        self.rows = tuple(_usable(result.rows, problems))
        unknown = [name for name in result.axes if name not in _FIELDS and name not in _BY_FIELD]
        problems += [
            f"axis '{name}': no figure says where it lies on it; its values are not told apart" for name in unknown
        ]
        self.problems = tuple(problems)
        self.axes = tuple(_axes(result, self.rows))

    @cached_property
    def measured(self) -> int:
        """Cells with rows."""
        return len({row.cell for row in self.result.rows})

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """Every workload and direction, in the order of the rows."""
        found: dict[tuple[str, str], list[int]] = {}
        for number, row in enumerate(self.rows):
            found.setdefault((row.workload, row.direction), []).append(number)
        return tuple(Pair(*key, tuple(numbers)) for key, numbers in found.items())

    @cached_property
    def settings(self) -> tuple[Axis, ...]:
        """The axes but the workload."""
        return tuple(axis for axis in self.axes if axis.name != WORKLOAD)


def chosen_axes(grid: SweepGrid) -> dict[str, str]:
    """Which axis goes where in small multiples: ``x``, ``lines``, ``columns``, ``rows``; empty: none.

    Along x the numbers with the most values, lines by level, and small charts by what is left, the axis with more
    values across. So that a chart stays readable, lines and charts have eight values at most if there is a choice.
    """
    numbers = [axis for axis in grid.settings if axis.is_number]
    left = list(grid.settings)
    x = max(numbers or left or grid.axes, key=lambda axis: (len(axis.values), axis.name == "queue_depth"), default=None)
    left = [axis for axis in left if axis is not x]
    lines = min(left, key=lambda axis: (len(axis.values) > 8, axis.name != "level", axis.is_number), default=None)
    left = [axis for axis in left if axis is not lines]
    left += [axis for axis in grid.axes if axis.name == WORKLOAD and axis is not x]
    few = sorted(left, key=lambda axis: (len(axis.values) > 8, axis.name == WORKLOAD))[:2]
    facets = sorted(few, key=lambda axis: -len(axis.values))
    picked = (x, lines, *facets)
    names = [axis.name if axis else "" for axis in picked] + [""] * (4 - len(picked))
    return dict(zip(("x", "lines", "columns", "rows"), names, strict=True))


def fixed_values(grid: SweepGrid) -> Iterator[tuple[str, str]]:
    """What all rows have in common, of all that may vary: its title, and its value in words."""
    for kind in _FIELDS.values():
        values = {getattr(row, kind.field) for row in grid.rows} - {None}
        if len(values) == 1:
            yield kind.title, kind.word(values.pop())


def _usable(rows: Sequence[CellRow], problems: list[str]) -> Iterator[CellRow]:
    """Rows with speeds above 0. Of the rest of their figures, those that are none are None."""
    for row in rows:
        if not all(map(_is_figure, (row.iops, row.iops_low, row.iops_high, row.bytes_per_second))):
            numbers = f"{row.iops:g} [{row.iops_low:g} – {row.iops_high:g}] IOPS, {row.bytes_per_second:g} B/s"
            problems.append(f"cell {row.cell[:12]}, {row.workload}, {row.direction}s: {numbers}, left out")
            continue
        values = ((name, getattr(row, name)) for name in ("mean_seconds", "p99_seconds", "predicted_iops"))
        none = {name: None for name, value in values if value is not None and not _is_figure(value)}
        yield msgspec.structs.replace(row, **none) if none else row


def _is_figure(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _axes(result: SweepResult, rows: Sequence[CellRow]) -> Iterator[Axis]:
    """Those of the sweep's file, in its order, then what varies beside them and does not follow from them."""
    said = {_BY_FIELD.get(name, name): values for name, values in result.axes.items()}
    found: list[Axis] = []
    for name in (*said, *(name for name in _FIELDS if name not in said)):
        if name not in _FIELDS:
            continue
        axis = _axis(name, said.get(name, ()), rows)
        if axis and (name in said or not _follows(axis, found)):
            found.append(axis)
    return iter(found)


def _axis(name: str, order: Sequence[Value], rows: Sequence[CellRow]) -> Axis | None:
    kind = _FIELDS[name]
    column: list[Value | None] = [getattr(row, kind.field) for row in rows]
    there = dict.fromkeys(value for value in column if value is not None)
    if len(there) < 2:
        return None
    # Numbers by size; words as the file has them, then as they were met.
    if all(isinstance(value, int) for value in there):
        values = sorted(there)
    else:
        values = [value for value in order if value in there]
        values += [value for value in there if value not in values]
    place: dict[Value | None, int] = {value: code for code, value in enumerate(values)}
    labels = tuple(map(kind.word, values))
    return Axis(
        name,
        kind.title,
        tuple(values),
        labels,
        tuple(map(kind.alone.format, labels)),
        tuple(place.get(value, NOWHERE) for value in column),
    )


def _follows(axis: Axis, others: Sequence[Axis]) -> bool:
    """Whether each row's value follows from its values on the others: a workload's block size from the workload."""
    known: dict[tuple[int, ...], int] = {}
    places = zip(*(other.codes for other in others), strict=True) if others else ((),) * len(axis.codes)
    return all(known.setdefault(place, code) == code for place, code in zip(places, axis.codes, strict=True))
