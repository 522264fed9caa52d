"""Rebuild times as raidlab measured them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from statistics import median

from lab.errors import ResultError
from lab.results.store import ResultStore


@dataclass(frozen=True, slots=True)
class MeasuredRebuild:
    """Rebuilds of one array in a stored result, under one workload or none."""

    result: str
    experiment: str
    array: str
    under_workload: str
    """Empty: none."""
    bytes_per_second: float
    """Median of the repeats."""
    count: int


def measured_rebuilds(store: ResultStore) -> tuple[MeasuredRebuild, ...]:
    """All measured rebuilds in this store, newest results first; unreadable results are omitted."""
    found = []
    for summary in store.list():
        with suppress(ResultError):
            rates: dict[tuple[str, str], list[float]] = {}
            for each in store.load(summary.id).rebuilds:
                if each.rebuild_seconds > 0 and each.rebuilt_bytes > 0:
                    rate = each.rebuilt_bytes / each.rebuild_seconds
                    rates.setdefault((each.array, each.under_workload), []).append(rate)
            found += [
                MeasuredRebuild(summary.id, summary.experiment, array, under, median(values), len(values))
                for (array, under), values in rates.items()
            ]
    return tuple(found)
