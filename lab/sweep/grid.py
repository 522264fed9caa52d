"""The results of a sweep along its axes, the effect of each axis on the speeds, and the tables of both.

There is one row for each cell, workload and direction. Main effects are shares of the variance of log IOPS.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from lab.compare import is_speed
from lab.gates.text import markdown, shortened
from lab.results.rows import grouped
from lab.tables import NOTHING, Column, Table, Value
from lab.units import counted, human_bytes, human_seconds


class CellRow(msgspec.Struct, frozen=True, kw_only=True):
    """The reads or the writes of one workload in one cell, with the median of the repeats and its interval."""

    cell: str
    """Key of the cell, the SHA-256 in hexadecimal digits of everything that its figures depend on."""
    digest: str
    """SHA-256 of the measured figures (lab.results.record)."""
    level: str
    """Normalised, such as ``raid5``."""
    members: int
    chunk_bytes: int | None
    """Chunk size, or None if the level has no chunks."""
    drive: str
    """Model of the emulated drive, or an empty string for plain files."""
    kernel: str
    """The kernel as written in the sweep's file, or an empty string for the installed kernel."""
    workload: str
    direction: str
    """``read`` or ``write``."""
    block_bytes: int
    queue_depth: int
    jobs: int
    repeats: int
    iops: float
    iops_low: float
    """Lower end of the interval that covers the true median. Both ends equal the median if there is only one repeat."""
    iops_high: float
    bytes_per_second: float
    mean_seconds: float | None
    """Median of the repeats' mean latencies. ``p99_seconds`` is the median of their 99th percentiles."""
    p99_seconds: float | None
    predicted_iops: float | None
    """The prediction of lab.theory for this direction, or None if there is none."""
    is_virtual_time: bool
    computer: str
    """The computer that measured the cell (lab.sweep.cells.computer)."""
    measured_utc: str
    seconds: float
    """Time on that computer from the start of the machine to its end."""
    stamps: str
    """Warnings that lower confidence in the figures, one per line."""


class FailedCell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell whose measurement failed twice, on two computers if there are two."""

    cell: str
    label: str
    """The cell's values on the axes, such as ``raid5, 6 members, chunk 64K``."""
    message: str
    console: str = ""
    """The last lines of the machine's console."""


class SweepResult(msgspec.Struct, frozen=True, kw_only=True):
    """All results of a sweep, which may be incomplete."""

    id: str
    title: str
    question: str
    created_utc: str
    toml: str
    axes: dict[str, tuple[str | int, ...]]
    """Values of each axis, as in the file. Axes are the fields of ``CellRow`` that vary. ``chunk`` stands for
    ``chunk_bytes``.
    """
    planned: int
    rows: tuple[CellRow, ...]
    failed: tuple[FailedCell, ...] = ()

    @property
    def measured(self) -> int:
        """Number of cells that have rows."""
        return len({row.cell for row in self.rows})


def iops_text(iops: float) -> str:
    """Format IOPS with thousands separators, or with three significant digits below 100."""
    return f"{iops:,.0f}" if iops >= 100 else f"{iops:.3g}"


_NO_SPREAD = 1e-20
"""Mean square of logarithms below which differences count as rounding errors."""


@dataclass(frozen=True, slots=True)
class AxisEffect:
    """The main effect of one axis within a group of rows."""

    axis: str
    share: float
    """Share of the variance, from 0 to 1."""
    factor: float
    """Geometric mean of the speeds at the best value, divided by that at the worst value. It is at least 1."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The effects of the axes within a group of rows whose speeds are comparable."""

    title: str
    rows: int
    effects: tuple[AxisEffect, ...]
    """The effects of the axes that vary in the group, in the order of the axes. Empty if all speeds are equal."""
    together: float | None
    """Share of the variance explained by a model in which the effects of all axes multiply.

    The rest of the variance is due to interactions and noise. None if all speeds are equal.
    """


def sensitivities(grid: SweepGrid) -> tuple[Sensitivity, ...]:
    """Return the effects for each direction over all workloads, and then for each workload and direction.

    The former are left out if there is only one workload.
    """
    found = []
    if any(axis.name == WORKLOAD for axis in grid.axes):
        for direction in dict.fromkeys(row.direction for row in grid.rows):
            numbers = [number for number, row in enumerate(grid.rows) if row.direction == direction]
            found.append(_sensitivity(f"all workloads, {direction}s", grid, numbers, grid.axes))
    found += [_sensitivity(pair.title, grid, pair.rows, grid.settings) for pair in grid.pairs]
    return tuple(found)


def ranked_axes(grid: SweepGrid) -> tuple[Axis, ...]:
    """Return the axes except the workload. Those that explain the most variance within workloads come first."""
    explained = dict.fromkeys((axis.name for axis in grid.settings), 0.0)
    for pair in grid.pairs:
        logs = [math.log(grid.rows[number].iops) for number in pair.rows]
        for axis in grid.settings:
            explained[axis.name] += _between([axis.codes[number] for number in pair.rows], logs)
    return tuple(sorted(grid.settings, key=lambda axis: -explained[axis.name]))


def _sensitivity(title: str, grid: SweepGrid, numbers: Sequence[int], axes: Sequence[Axis]) -> Sensitivity:
    logs = [math.log(grid.rows[number].iops) for number in numbers]
    mean = math.fsum(logs) / len(logs)
    total = math.fsum((value - mean) ** 2 for value in logs)
    if total <= _NO_SPREAD * len(logs):
        return Sensitivity(title, len(numbers), (), None)
    effects, columns = [], []
    for axis in axes:
        codes = [axis.codes[number] for number in numbers]
        if len(set(codes)) < 2:
            continue
        columns.append(codes)
        means = [math.fsum(values) / len(values) for values in _groups(codes, logs)]
        effects.append(AxisEffect(axis.name, _between(codes, logs) / total, math.exp(max(means) - min(means))))
    return Sensitivity(title, len(numbers), tuple(effects), _together(columns, logs) / total)


def _groups(codes: Sequence[int], logs: Sequence[float]) -> list[list[float]]:
    """Return the values in ``logs``, grouped by their code."""
    return [[logs[number] for number in group] for group in grouped(range(len(codes)), codes.__getitem__).values()]


def _between(codes: Sequence[int], logs: Sequence[float]) -> float:
    """Return the sum of squares between the groups."""
    mean = math.fsum(logs) / len(logs)
    return math.fsum(len(group) * (math.fsum(group) / len(group) - mean) ** 2 for group in _groups(codes, logs))


def _together(columns: Sequence[Sequence[int]], logs: Sequence[float]) -> float:
    """Return the sum of squares of the least-squares fit of a constant and one term for each value of each axis."""
    import numpy as np

    y = np.array(logs)
    design = [np.ones(len(logs))]
    for codes in columns:
        found = np.array(codes)
        # Leave out each axis's first value, because its column is a linear combination of the constant and the others.
        design += [(found == code).astype(float) for code in sorted(set(codes))[1:]]
    matrix = np.column_stack(design)
    solution = np.linalg.lstsq(matrix, y, rcond=None)[0]
    fitted = matrix @ solution
    return float(np.sum((fitted - y.mean()) ** 2))


NOWHERE = -1
"""The code of a row that has no value on an axis, such as RAID 1 on the axis of chunk sizes."""
AxisValue = str | int


@dataclass(frozen=True, slots=True)
class _Field:
    field: str
    title: str
    word: Callable[[AxisValue], str] = str
    alone: str = "{}"
    """Format of a value that is shown without the title of its axis."""


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
    """An axis with at least two values among a sweep's rows. ``codes`` gives each row's index in ``values``."""

    name: str
    title: str
    values: tuple[AxisValue, ...]
    labels: tuple[str, ...]
    words: tuple[str, ...]
    """Labels that are understood without the title of the axis."""
    codes: tuple[int, ...]
    """``NOWHERE`` for a row without a value."""

    @property
    def is_number(self) -> bool:
        return all(isinstance(value, int) for value in self.values)

    @property
    def is_doubling(self) -> bool:
        """Whether all values are powers of two, which are evenly spaced on a logarithmic scale."""
        return self.is_number and all(int(value) > 0 and int(value).bit_count() == 1 for value in self.values)

    def label(self, row: int) -> str:
        code = self.codes[row]
        return self.labels[code] if code != NOWHERE else "–"


@dataclass(frozen=True, slots=True)
class Pair:
    """One workload and direction, with its rows. The figures of these rows are comparable."""

    workload: str
    direction: str
    rows: tuple[int, ...]
    """Indices of the rows in ``SweepGrid.rows``, in ascending order."""

    @property
    def title(self) -> str:
        return f"{self.workload}, {self.direction}s"


class SweepGrid:
    """The usable rows of a sweep, its axes, and a message for each row or axis that was left out."""

    def __init__(self, result: SweepResult) -> None:
        self.result = result
        problems: list[str] = []
        self.rows = tuple(_usable(result.rows, problems))
        unknown = [name for name in result.axes if name not in _FIELDS and name not in _BY_FIELD]
        problems += [
            f"axis '{name}': the figures do not record its values, so they are not shown separately" for name in unknown
        ]
        self.problems = tuple(problems)
        self.axes = tuple(_axes(result, self.rows))

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """All workloads and directions, in the order of the rows."""
        found = grouped(range(len(self.rows)), lambda n: (self.rows[n].workload, self.rows[n].direction))
        return tuple(Pair(*key, tuple(numbers)) for key, numbers in found.items())

    @cached_property
    def settings(self) -> tuple[Axis, ...]:
        """The axes except the workload."""
        return tuple(axis for axis in self.axes if axis.name != WORKLOAD)


def chosen_axes(grid: SweepGrid) -> dict[str, str]:
    """Choose the axes for ``x``, ``lines``, ``columns`` and ``rows`` of small multiples. "" means no axis.

    ``x`` is the numeric axis with the most values, and ``lines`` is the level. The remaining axes give columns and
    rows, with the larger one as columns. For readability, axes with at most eight values are preferred for lines,
    columns and rows.
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
    """Yield the title of each field that has the same value in all rows, and this value in words."""
    for kind in _FIELDS.values():
        values = {getattr(row, kind.field) for row in grid.rows} - {None}
        if len(values) == 1:
            yield kind.title, kind.word(values.pop())


def _usable(rows: Sequence[CellRow], problems: list[str]) -> Iterator[CellRow]:
    """Yield the rows whose speeds are above 0. Other invalid figures become None."""
    for row in rows:
        if not all(map(is_speed, (row.iops, row.iops_low, row.iops_high, row.bytes_per_second))):
            numbers = f"{row.iops:g} [{row.iops_low:g} – {row.iops_high:g}] IOPS, {row.bytes_per_second:g} B/s"
            problems.append(f"cell {row.cell[:12]}, {row.workload}, {row.direction}s: {numbers}, left out")
            continue
        values = ((name, getattr(row, name)) for name in ("mean_seconds", "p99_seconds", "predicted_iops"))
        none = {name: None for name, value in values if value is not None and not is_speed(value)}
        yield msgspec.structs.replace(row, **none) if none else row


def _axes(result: SweepResult, rows: Sequence[CellRow]) -> list[Axis]:
    """Return the axes of the sweep's file, in its order, then the varying fields that these axes do not determine."""
    stated = {_BY_FIELD.get(name, name): values for name, values in result.axes.items()}
    found: list[Axis] = []
    for name in (*stated, *(name for name in _FIELDS if name not in stated)):
        if name not in _FIELDS:
            continue
        axis = _axis(name, stated.get(name, ()), rows)
        if axis and (name in stated or not _follows(axis, found)):
            found.append(axis)
    return found


def _axis(name: str, order: Sequence[AxisValue], rows: Sequence[CellRow]) -> Axis | None:
    kind = _FIELDS[name]
    column: list[AxisValue | None] = [getattr(row, kind.field) for row in rows]
    there = dict.fromkeys(value for value in column if value is not None)
    if len(there) < 2:
        return None
    # Numbers are in ascending order, and strings are in the file's order, then in order of appearance.
    if all(isinstance(value, int) for value in there):
        values = sorted(there)
    else:
        values = [value for value in order if value in there]
        values += [value for value in there if value not in values]
    place: dict[AxisValue | None, int] = {value: code for code, value in enumerate(values)}
    labels = tuple(map(kind.word, values))
    words, codes = tuple(map(kind.alone.format, labels)), tuple(place.get(value, NOWHERE) for value in column)
    return Axis(name, kind.title, tuple(values), labels, words, codes)


def _follows(axis: Axis, others: Sequence[Axis]) -> bool:
    """Whether the other axes determine the value on this axis, as a workload determines its block size."""
    known: dict[tuple[int, ...], int] = {}
    places = zip(*(other.codes for other in others), strict=True) if others else ((),) * len(axis.codes)
    return all(known.setdefault(place, code) == code for place, code in zip(places, axis.codes, strict=True))


OFF_THEORY = 0.10
"""Relative deviation above which a figure is a surprise, unless its interval contains the prediction."""
_FEW_SURPRISES = 10
_FEW_FAILED = 10
_MOST_OF_MESSAGE = 300


def summary_tables(result: SweepResult) -> tuple[Table, ...]:
    """Return the tables for a terminal.

    They show the best and worst cell of each workload, the largest surprises, and the effects of the axes. The last
    tables list the failed cells, and the rows that were left out. A sweep without results has no tables.
    """
    grid = SweepGrid(result)
    return (*_found_tables(grid), *_missing_tables(grid))


def summary_text(result: SweepResult, *, is_markdown: bool = False, is_running: bool = False) -> str:
    """Return the tables of ``summary_tables`` as text, preceded by a sentence if cells have not been measured."""
    missing = missing_sentence(result, is_running=is_running)
    tables = [table.as_document(is_markdown) for table in summary_tables(result)]
    return "\n\n".join(filter(None, (markdown(missing) if is_markdown else missing, *tables)))


def missing_sentence(result: SweepResult, *, is_running: bool = False) -> str:
    """Return the number of measured cells and the command that measures the others, or "" if all are measured."""
    measured = result.measured
    if measured >= result.planned:
        return ""
    failed = len(result.failed)
    are = "is" if measured == 1 else "are"
    words = f"{measured:,} of {counted(result.planned, 'cell')} {are} measured"
    words += f", {failed:,} could not be" if failed else ""
    if is_running:
        return f"{words}; the sweep is still running"
    left = "the other" if result.planned - measured == 1 else "the others"
    return f"{words}; 'raidlab sweep {result.id} --resume' measures {left}"


def _missing_tables(grid: SweepGrid) -> Iterator[Table]:
    failed = [(each.label, shortened(" ".join(each.message.split()), _MOST_OF_MESSAGE)) for each in grid.result.failed]
    problems = [(problem,) for problem in grid.problems]
    found: tuple[tuple[str, tuple[str, ...], Sequence[tuple[str, ...]]], ...] = (
        ("Cells that could not be measured", ("cell", "why"), failed),
        ("Left out of all tables", ("what, and why",), problems),
    )
    for title, names, rows in found:
        if rows:
            notes = (f"and {len(rows) - _FEW_FAILED:,} more",) if len(rows) > _FEW_FAILED else ()
            yield Table(title, tuple(Column(name, False) for name in names), tuple(rows[:_FEW_FAILED]), notes)


def _found_tables(grid: SweepGrid) -> tuple[Table, ...]:
    if not grid.rows:
        return ()
    axes = grid.settings
    columns = (Column("workload", False), Column("", False), *_columns(axes), *_FIGURES)
    body = [
        (pair.title, place, *cells)
        for pair in grid.pairs
        for place, cells in _extremes(grid, axes, pair, 1)
        if place == "best" or len(pair.rows) > 1
    ]
    shown = Table("Best and worst cells", columns, tuple(body), (_SPEEDS_NOTE,))
    return (shown, surprise_table(grid, _FEW_SURPRISES), sensitivity_table(grid))


_FIGURES = (Column("IOPS"), Column("interval", False), Column("MB/s"), Column("p99"), Column("÷ theory"))
_SPEEDS_NOTE = "the interval covers the true median; one repeat gives none"


def extreme_table(grid: SweepGrid, pair: Pair, most: int) -> Table:
    """Return a table of the ``most`` fastest and slowest cells of one workload and direction."""
    body = tuple((place, *cells) for place, cells in _extremes(grid, grid.settings, pair, most))
    ordered = _by_speed(grid, pair)
    best = grid.rows[ordered[0]]
    level = sum(grid.rows[number].iops_high >= best.iops_low for number in ordered[1:])
    notes = [_SPEEDS_NOTE]
    if level and best.repeats > 1:
        reach = "the interval of 1 other cell reaches" if level == 1 else f"the intervals of {level} other cells reach"
        notes.append(f"{reach} into that of the best, so it may not be the fastest")
    title = f"{pair.title}: best and worst of {len(pair.rows):,}"
    return Table(title, (Column("", False), *_columns(grid.settings), *_FIGURES), body, tuple(notes))


def is_off(row: CellRow) -> bool:
    """Whether the prediction is more than ``OFF_THEORY`` from the measured speed, and outside the measured interval."""
    if not row.predicted_iops:
        return False
    is_far = abs(row.iops / row.predicted_iops - 1) > OFF_THEORY
    return is_far and not row.iops_low <= row.predicted_iops <= row.iops_high


def surprise_table(grid: SweepGrid, most: int) -> Table:
    """Return a table of the measured and predicted speeds of the ``most`` largest surprises."""
    predicted = [(number, row, row.predicted_iops) for number, row in enumerate(grid.rows) if row.predicted_iops]
    off = [each for each in predicted if is_off(each[1])]
    # Sort by the logarithm of the ratio, so that half the speed is as far from theory as twice the speed.
    off.sort(key=lambda each: -abs(math.log(each[1].iops / each[2])))
    columns = (
        Column("workload", False),
        *_columns(grid.settings),
        Column("measured"),
        Column("interval", False),
        Column("theory"),
        Column("measured ÷ theory"),
    )
    body = []
    for number, row, theory in off[:most]:
        labels = (f"{row.workload}, {row.direction}s", *(axis.label(number) for axis in grid.settings))
        figures = (iops_text(row.iops), interval_text(row), iops_text(theory), f"{row.iops / theory:.2f}")
        body.append((*labels, *figures))
    lie, their = ("lies", "its") if len(off) == 1 else ("lie", "their")
    note = (
        f"{len(off)} of {counted(len(predicted), 'figure')} with a prediction {lie} more than {OFF_THEORY:.0%} from "
        f"it, and {their} interval does not contain it"
    )
    if len(off) > most:
        note += f"; the {most} farthest are shown"
    if not predicted:
        note = "there is no prediction for these cells"
    return Table("Surprises: far from theory (IOPS)", columns, tuple(body), (note,))


def sensitivity_table(grid: SweepGrid) -> Table:
    """Return a table with the share of the variance that each axis explains alone, and its effect on the speed."""
    found = sensitivities(grid)
    columns = (
        Column("figures of", False),
        Column("n", form=","),
        *(Column(axis.title) for axis in grid.axes),
        Column("rest"),
    )
    body: list[tuple[Value, ...]] = []
    for each in found:
        shares = {effect.axis: f"{effect.share:.0%} ×{effect.factor:.3g}" for effect in each.effects}
        # Rounding in the least-squares fit may make the rest slightly negative.
        rest = f"{max(0.0, 1 - each.together):.0%}" if each.together is not None else None
        body.append((each.title, each.rows, *(shares.get(axis.name) for axis in grid.axes), rest))
    notes = (
        "share of the variance of log IOPS that the axis explains alone; ×: mean speed at its best value over that at "
        "its worst (geometric means)",
        "rest: interactions of axes, and noise; where combinations are missing, shares overlap and need not add up",
    )
    return Table("How much each axis changes the speed", columns, tuple(body), notes)


def interval_text(row: CellRow) -> str:
    """Return the interval as text such as ``[98 – 104], n = 6``, or ``one repeat`` if there is no interval."""
    if row.repeats < 2:
        return "one repeat"
    return f"[{iops_text(row.iops_low)} – {iops_text(row.iops_high)}], n = {row.repeats}"


def _columns(axes: Sequence[Axis]) -> Iterator[Column]:
    for axis in axes:
        yield Column(axis.title, axis.is_number)


def _by_speed(grid: SweepGrid, pair: Pair) -> list[int]:
    return sorted(pair.rows, key=lambda number: -grid.rows[number].iops)


def _extremes(grid: SweepGrid, axes: Sequence[Axis], pair: Pair, most: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the best cells in descending order of speed, then the worst in ascending order. No cell is in both."""
    ordered = _by_speed(grid, pair)
    most = min(most, max(1, len(ordered) // 2))
    worst = ordered[most:][-most:][::-1]
    for word, numbers in (("best", ordered[:most]), ("worst", worst)):
        for place, number in enumerate(numbers):
            labels = (axis.label(number) for axis in axes)
            yield word if most == 1 else f"{word} {place + 1}", (*labels, *_figures(grid.rows[number]))


def _figures(row: CellRow) -> Iterator[str]:
    yield iops_text(row.iops)
    yield interval_text(row)
    megabytes = row.bytes_per_second / 1e6
    yield f"{megabytes:.3g}" if megabytes < 999.5 else f"{megabytes:,.0f}"
    yield human_seconds(row.p99_seconds) if row.p99_seconds else NOTHING
    yield f"{row.iops / row.predicted_iops:.2f}" if row.predicted_iops else NOTHING
