"""How much each axis changes a sweep's speeds: main effects, as shares of the variance of the logarithm of IOPS.

Logarithms, since axes multiply speeds rather than add to them: twice the drives, twice the reads. The share of one axis
is eta squared of a one-way analysis of variance, the sum of squares between its values over the whole sum: Fisher,
Statistical Methods for Research Workers, 1925, chapter VII. It describes these cells; it is no test of whether an
effect is there. Where every combination was measured equally often, the shares of all axes and the rest add up to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lab.sweep.grid import NOWHERE, WORKLOAD, Axis, SweepGrid

_NO_SPREAD = 1e-20
"""Mean square of logarithms that rounding alone makes."""


@dataclass(frozen=True, slots=True)
class AxisEffect:
    """What one axis alone does within a group of rows."""

    axis: str
    title: str
    share: float
    """0 to 1."""
    factor: float
    """Geometric mean of the speeds at its best value over that at its worst: 1 or more."""
    best: str
    """The label of its best value."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Of one group of rows whose speeds may be compared."""

    title: str
    rows: int
    effects: tuple[AxisEffect, ...]
    """In the order of the axes; of those that vary in the group. Empty where all speeds are the same."""
    together: float | None
    """The share that all axes explain when their effects multiply; the rest is interactions and noise."""


def sensitivities(grid: SweepGrid) -> tuple[Sensitivity, ...]:
    """Reads and writes over all workloads, where there are several; then every workload and direction."""
    found = []
    if any(axis.name == WORKLOAD for axis in grid.axes):
        for direction in dict.fromkeys(row.direction for row in grid.rows):
            numbers = [number for number, row in enumerate(grid.rows) if row.direction == direction]
            found.append(_sensitivity(f"all workloads, {direction}s", grid, numbers, grid.axes))
    found += [_sensitivity(pair.title, grid, pair.rows, grid.settings) for pair in grid.pairs]
    return tuple(found)


def ranked_axes(grid: SweepGrid) -> tuple[Axis, ...]:
    """The axes but the workload, the one that explains most within workloads and directions first."""
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
        means = {code: math.fsum(values) / len(values) for code, values in _by_code(codes, logs).items()}
        best = max(means, key=lambda code: means[code])
        effects.append(
            AxisEffect(
                axis.name,
                axis.title,
                _between(codes, logs) / total,
                math.exp(means[best] - min(means.values())),
                axis.labels[best] if best != NOWHERE else "none",
            )
        )
    return Sensitivity(title, len(numbers), tuple(effects), _together(columns, logs) / total)


def _by_code(codes: Sequence[int], logs: Sequence[float]) -> dict[int, list[float]]:
    groups: dict[int, list[float]] = {}
    for code, value in zip(codes, logs, strict=True):
        groups.setdefault(code, []).append(value)
    return groups


def _between(codes: Sequence[int], logs: Sequence[float]) -> float:
    """Sum of squares between the groups."""
    mean = math.fsum(logs) / len(logs)
    groups = _by_code(codes, logs).values()
    return math.fsum(len(group) * (math.fsum(group) / len(group) - mean) ** 2 for group in groups)


def _together(columns: Sequence[Sequence[int]], logs: Sequence[float]) -> float:
    """Sum of squares of the least-squares fit of a constant and one summand for each value of each axis."""
    import numpy as np

    y = np.array(logs)
    design = [np.ones(len(logs))]
    for codes in columns:
        found = np.array(codes)
        # Without its first value each axis adds nothing that the constant does not say already.
        design += [(found == code).astype(float) for code in sorted(set(codes))[1:]]
    matrix = np.column_stack(design)
    solution = np.linalg.lstsq(matrix, y, rcond=None)[0]
    fitted = matrix @ solution
    return float(np.sum((fitted - y.mean()) ** 2))
