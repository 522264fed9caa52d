"""How one ratio is distributed over many results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lab.report.table import Column, Table


@dataclass(frozen=True, slots=True)
class Distribution:
    """One array and workload over many results, each divided by the same result's baseline."""

    array: str
    baseline: str
    workload: str
    direction: str
    values: Sequence[float]
    """Sorted."""

    @property
    def what(self) -> str:
        return f"{self.array} ÷ {self.baseline}"

    def quantile(self, fraction: float) -> float:
        """By linear interpolation between the two nearest."""
        place = fraction * (len(self.values) - 1)
        low = math.floor(place)
        high = min(low + 1, len(self.values) - 1)
        return self.values[low] + (place - low) * (self.values[high] - self.values[low])


def distribution_table(experiment: str, found: Sequence[Distribution]) -> Table:
    """Median, middle half and range of each."""
    columns = (Column("ratio", False), Column("of", False), Column("results"), Column("median"))
    body = tuple(
        (
            each.what,
            f"{each.workload}, {each.direction}s",
            str(len(each.values)),
            f"{each.quantile(0.5):.2f}",
            f"{each.quantile(0.25):.2f} – {each.quantile(0.75):.2f}",
            f"{each.quantile(0):.2f} – {each.quantile(1):.2f}",
        )
        for each in found
    )
    note = "medians of each result divided by those of its own baseline: no raw figures of two machines side by side"
    return Table(f"{experiment}: ratios", (*columns, Column("half of them"), Column("all")), body, (note,))
