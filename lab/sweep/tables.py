"""Tables of a sweep's results: best and worst cells, deviations from theory, and the effect of each axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.gates.text import markdown, shortened
from lab.sweep.grid import Axis, CellRow, Pair, SweepGrid, SweepResult, iops_text, sensitivities
from lab.tables import NOTHING, Column, Table, Value
from lab.units import counted, human_seconds

OFF_THEORY = 0.10
"""Relative deviation above which a figure is a surprise, unless its interval contains the prediction."""
_FEW_SURPRISES = 10
_FEW_FAILED = 10
_MOST_OF_MESSAGE = 300


@dataclass(frozen=True, slots=True)
class Surprise:
    """A row whose speed deviates from theory."""

    number: int
    """Index of the row in ``SweepGrid.rows``."""
    ratio: float
    """Measured speed divided by predicted speed."""

    @property
    def distance(self) -> float:
        """Absolute logarithm of the ratio, so half the speed is as far as twice the speed."""
        return abs(math.log(self.ratio))


def summary_tables(result: SweepResult) -> tuple[Table, ...]:
    """The tables for a terminal: best and worst cell of each workload, largest surprises, and effects of the axes.

    Then come the failed cells and the rows that no table contains. There is no table for a sweep without results.
    """
    grid = SweepGrid(result)
    return (*_found_tables(grid), *_missing_tables(grid))


def summary_text(result: SweepResult, *, is_markdown: bool = False, is_running: bool = False) -> str:
    """The tables of ``summary_tables`` as one text, after a sentence about cells that are not measured."""
    missing = missing_sentence(result, is_running=is_running)
    tables = [table.as_markdown() if is_markdown else table.as_text() for table in summary_tables(result)]
    return "\n\n".join(filter(None, (markdown(missing) if is_markdown else missing, *tables)))


def missing_sentence(result: SweepResult, *, is_running: bool = False) -> str:
    """The number of measured cells and the command that measures the others; empty if all are measured."""
    measured = len({row.cell for row in result.rows})
    if measured >= result.planned:
        return ""
    failed = len(result.failed)
    are = "is" if measured == 1 else "are"
    words = f"{measured:,} of {counted(result.planned, 'cell')} {are} measured"
    words += f", {failed:,} could not be" if failed else ""
    if is_running:
        return f"{words}; the sweep still runs"
    left = "the other" if result.planned - measured == 1 else "the others"
    return f"{words}; 'raidlab sweep {result.id} --resume' measures {left}"


def _missing_tables(grid: SweepGrid) -> Iterator[Table]:
    failed = grid.result.failed
    if failed:
        rows = tuple(
            (each.label, shortened(" ".join(each.message.split()), _MOST_OF_MESSAGE)) for each in failed[:_FEW_FAILED]
        )
        notes = (f"and {len(failed) - len(rows):,} more",) if len(failed) > len(rows) else ()
        yield Table("Cells that could not be measured", (Column("cell", False), Column("why", False)), rows, notes)
    if grid.problems:
        notes = (f"and {len(grid.problems) - _FEW_FAILED:,} more",) if len(grid.problems) > _FEW_FAILED else ()
        left_out = tuple((problem,) for problem in grid.problems[:_FEW_FAILED])
        yield Table("In no table", (Column("what, and why", False),), left_out, notes)


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
_SPEEDS_NOTE = "interval: covers the true median; where there is one repeat, nothing is known of its spread"


def extreme_table(grid: SweepGrid, pair: Pair, most: int) -> Table:
    """The ``most`` fastest and slowest cells of one workload and direction."""
    body = tuple((place, *cells) for place, cells in _extremes(grid, grid.settings, pair, most))
    ordered = _by_speed(grid, pair)
    best = grid.rows[ordered[0]]
    level = sum(grid.rows[number].iops_high >= best.iops_low for number in ordered[1:])
    notes = [_SPEEDS_NOTE]
    if level and best.repeats > 1:
        reach = "the interval of 1 other cell reaches" if level == 1 else f"the intervals of {level} other cells reach"
        notes.append(f"{reach} into that of the best: it may not be the fastest")
    title = f"{pair.title}: best and worst of {len(pair.rows):,}"
    return Table(title, (Column("", False), *_columns(grid.settings), *_FIGURES), body, tuple(notes))


def surprises(grid: SweepGrid) -> tuple[Surprise, ...]:
    """All surprises, largest deviation first."""
    found = [
        Surprise(number, row.iops / row.predicted_iops)
        for number, row in enumerate(grid.rows)
        if row.predicted_iops and is_off(row)
    ]
    return tuple(sorted(found, key=lambda each: -each.distance))


def is_off(row: CellRow) -> bool:
    """Whether a row deviates from its prediction by more than ``OFF_THEORY`` and its interval does not contain it."""
    if not row.predicted_iops:
        return False
    is_far = abs(row.iops / row.predicted_iops - 1) > OFF_THEORY
    return is_far and not row.iops_low <= row.predicted_iops <= row.iops_high


def surprise_table(grid: SweepGrid, most: int) -> Table:
    """Measured and predicted speeds of the ``most`` largest surprises."""
    found = surprises(grid)
    columns = (
        Column("workload", False),
        *_columns(grid.settings),
        Column("measured"),
        Column("interval", False),
        Column("theory"),
        Column("measured ÷ theory"),
    )
    body = []
    for each in found[:most]:
        row = grid.rows[each.number]
        said = (f"{row.workload}, {row.direction}s", *_place(grid.settings, each.number))
        theory = iops_text(row.predicted_iops or 0.0)
        body.append((*said, iops_text(row.iops), interval_text(row), theory, f"{each.ratio:.2f}"))
    predicted = sum(row.predicted_iops is not None for row in grid.rows)
    far = f"more than {OFF_THEORY:.0%}"
    note = (
        f"{len(found)} of {counted(predicted, 'figure')} with a prediction lie{'s' if len(found) == 1 else ''} {far} "
        f"from it, and {'its' if len(found) == 1 else 'their'} interval does not hold it"
    )
    if len(found) > most:
        note += f"; the {most} farthest are shown"
    if not predicted:
        note = "theory says nothing of these cells"
    return Table("Surprises: far from theory (IOPS)", columns, tuple(body), (note,))


def sensitivity_table(grid: SweepGrid) -> Table:
    """The share of the variance of log IOPS that each axis explains alone, and its factor on the speed."""
    found = sensitivities(grid)
    columns = (
        Column("figures of", False),
        Column("n", form=","),
        *(Column(axis.title) for axis in grid.axes),
        Column("rest"),
    )
    body: list[tuple[Value, ...]] = []
    for each in found:
        told = {effect.axis: f"{effect.share:.0%} ×{effect.factor:.3g}" for effect in each.effects}
        # Rounding in the least-squares fit may make the rest slightly negative.
        rest = f"{max(0.0, 1 - each.together):.0%}" if each.together is not None else None
        body.append((each.title, each.rows, *(told.get(axis.name) for axis in grid.axes), rest))
    notes = (
        "share of the variance of log IOPS that the axis explains alone; ×: mean speed at its best value over that at "
        "its worst (geometric means)",
        "rest: interactions of axes, and noise; where combinations are missing, shares overlap and need not add up",
    )
    return Table("How much each axis changes the speed", columns, tuple(body), notes)


def interval_text(row: CellRow) -> str:
    """``[98 – 104], n = 6``, or ``one repeat``, which has no interval."""
    if row.repeats < 2:
        return "one repeat"
    return f"[{iops_text(row.iops_low)} – {iops_text(row.iops_high)}], n = {row.repeats}"


def _columns(axes: Sequence[Axis]) -> Iterator[Column]:
    for axis in axes:
        yield Column(axis.title, axis.is_number)


def _place(axes: Sequence[Axis], number: int) -> Iterator[str]:
    for axis in axes:
        yield axis.label(number)


def _by_speed(grid: SweepGrid, pair: Pair) -> list[int]:
    return sorted(pair.rows, key=lambda number: -grid.rows[number].iops)


def _extremes(grid: SweepGrid, axes: Sequence[Axis], pair: Pair, most: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The best cells in descending order of speed, then the worst in ascending order; no cell is in both."""
    ordered = _by_speed(grid, pair)
    most = min(most, max(1, len(ordered) // 2))
    worst = ordered[most:][-most:][::-1]
    for word, numbers in (("best", ordered[:most]), ("worst", worst)):
        for place, number in enumerate(numbers):
            yield word if most == 1 else f"{word} {place + 1}", (*_place(axes, number), *_figures(grid.rows[number]))


def _figures(row: CellRow) -> Iterator[str]:
    yield iops_text(row.iops)
    yield interval_text(row)
    yield f"{row.bytes_per_second / 1e6:,.3g}" if row.bytes_per_second < 1e9 else f"{row.bytes_per_second / 1e6:,.0f}"
    yield human_seconds(row.p99_seconds) if row.p99_seconds else NOTHING
    yield f"{row.iops / row.predicted_iops:.2f}" if row.predicted_iops else NOTHING
