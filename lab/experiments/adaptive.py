"""Which cells need more repeats: those whose median is not yet known closely enough. Pure.

A cell is looked at after fixed numbers of repeats only, and its interval is that of its look (lab.results.looks), so
that stopping as soon as it is narrow costs nothing of the coverage. Between two looks every cell goes on.
Further rounds visit some cells only. Two cells are compared by the rounds that both have (lab.results.ratios), so a
comparison stays balanced, and which of the two is faster has no part in how many rounds that are.
"""

from __future__ import annotations

from collections.abc import Iterator

from lab.experiments.schedule import HEALTHY
from lab.experiments.schema import Experiment
from lab.results.looks import looks
from lab.results.record import ResultRecord
from lab.results.statistics import Estimate, estimate

_Key = tuple[str, str]


def wide_cells(experiment: Experiment, record: ResultRecord) -> frozenset[_Key]:
    """Arrays and workloads that are to be measured again: on the way to a look, or too wide at one, but the last."""
    planned = {look.n for look in looks(experiment.repeats, experiment.most_repeats)}
    return frozenset(
        key
        for key, found in _estimates(experiment, record)
        if found.n < max(planned, default=0)
        and (found.n not in planned or found.half_width_fraction > experiment.wanted_half_width)
    )


def wide_notes(experiment: Experiment, record: ResultRecord) -> tuple[str, ...]:
    """A stamp for every cell that stayed wide, where narrow intervals were asked for."""
    if experiment.most_repeats <= experiment.repeats:
        return ()
    wanted = experiment.wanted_half_width
    return tuple(
        f"wide-interval: {array}/{workload}: ±{found.half_width_fraction:.0%} after {found.n} repeats,"
        f" and ±{wanted:.0%} was wanted"
        for (array, workload), found in _estimates(experiment, record)
        if found.half_width_fraction > wanted
    )


def _estimates(experiment: Experiment, record: ResultRecord) -> Iterator[tuple[_Key, Estimate]]:
    """Of each cell the widest, of its reads or of its writes."""
    planned = looks(experiment.repeats, experiment.most_repeats)
    values: dict[_Key, dict[str, list[float]]] = {}
    for cell in record.cells:
        if cell.phase == HEALTHY:
            both = values.setdefault((cell.array, cell.workload), {})
            for name, section in (("read", cell.figures.reads), ("write", cell.figures.writes)):
                if section:
                    both.setdefault(name, []).append(section.iops)
    for key, both in values.items():
        if both:
            found = (estimate(samples, planned) for samples in both.values())
            yield key, max(found, key=lambda each: each.half_width_fraction)
