"""Which cells need more repeats: those whose median is not yet known closely enough. Pure.

Every look at the interval is a chance to stop on a lucky one. The first comes after ``repeats`` rounds, when the
interval is the whole range of six, so what that costs in coverage is small (tests/unit/experiments/test_adaptive.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from lab.experiments.schedule import HEALTHY
from lab.experiments.schema import Experiment
from lab.results.record import ResultRecord
from lab.results.statistics import Estimate, estimate

_Key = tuple[str, str]


def wide_cells(experiment: Experiment, record: ResultRecord) -> frozenset[_Key]:
    """Arrays and workloads that have all planned repeats, not yet the most, and a wide interval in some direction."""
    if experiment.most_repeats <= experiment.repeats:
        return frozenset()
    return frozenset(key for key, found in _estimates(experiment, record) if found.n < experiment.most_repeats)


def wide_notes(experiment: Experiment, record: ResultRecord) -> tuple[str, ...]:
    """A stamp for every cell that stayed wide, where narrow intervals were asked for."""
    if experiment.most_repeats <= experiment.repeats:
        return ()
    wanted = experiment.wanted_half_width
    return tuple(
        f"wide-interval: {array}/{workload}: ±{found.half_width_fraction:.0%} after {found.n} repeats,"
        f" and ±{wanted:.0%} was wanted"
        for (array, workload), found in _estimates(experiment, record)
    )


def _estimates(experiment: Experiment, record: ResultRecord) -> Iterator[tuple[_Key, Estimate]]:
    """The widest estimate of each cell that is too wide."""
    values: dict[_Key, dict[str, list[float]]] = {}
    for cell in record.cells:
        if cell.phase == HEALTHY:
            both = values.setdefault((cell.array, cell.workload), {})
            for name, section in (("read", cell.figures.reads), ("write", cell.figures.writes)):
                if section:
                    both.setdefault(name, []).append(section.iops)
    for key, both in values.items():
        widest = max(map(estimate, both.values()), key=lambda found: found.half_width_fraction, default=None)
        if widest and widest.half_width_fraction > experiment.wanted_half_width:
            yield key, widest
