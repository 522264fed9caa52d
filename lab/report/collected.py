"""What a report tells of, read one result after the other: few are kept whole, of many only what they add up to."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lab.compare.figures import singles
from lab.compare.platforms import PlatformComparison, by_experiment, compare_platforms, platform_of
from lab.errors import LabError, ResultError
from lab.report.distribution import Distribution
from lab.report.series import rows
from lab.report.sources import Loaded
from lab.results.record import ResultRecord, RunStatus

MOST_DETAILED = 12
"""With more results than this each is a line, and its experiment a distribution."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One result as a line."""

    id: str
    experiment: str
    created_utc: str
    machine: str
    cells: int
    is_complete: bool
    stamps: int
    problems: int


@dataclass(frozen=True, slots=True)
class Collected:
    """What the report is made from."""

    listed: tuple[Listed, ...]
    detailed: tuple[Loaded, ...]
    """Every result, or none where there are too many."""
    problems: tuple[str, ...]
    """What could not be read, or not be compared, and what was left out."""
    comparisons: Mapping[str, PlatformComparison] = field(default_factory=dict)
    """Experiment -> its machines side by side."""
    distributions: Mapping[str, tuple[Distribution, ...]] = field(default_factory=dict)
    """Experiment -> ratios over all its results, where they are too many to be told one by one."""


def collect(found: Iterable[Loaded | str], *, failures: Sequence[str] = ()) -> Collected:
    """Read all of ``found``. Raises ResultError if there is nothing left to report on, failures neither."""
    listed: list[Listed] = []
    detailed: list[Loaded] = []
    problems = list(failures)
    ratios: dict[str, _Ratios] = {}
    for each in found:
        if isinstance(each, str):
            problems.append(each)
            continue
        listed.append(_listed(each))
        ratios.setdefault(each.record.experiment, _Ratios()).add(each.record)
        if len(listed) <= MOST_DETAILED:
            detailed.append(each)
    if not listed and not failures:
        raise ResultError(
            f"there is nothing to report on: {'; '.join(problems) or 'no result is named'}",
            hint="'raidlab results' lists what there is",
        )
    if len(listed) > MOST_DETAILED:
        lines = [f"{each.problems} repeats left out or missing in {each.id}" for each in listed if each.problems]
        return Collected(
            tuple(listed),
            (),
            (*problems, *lines),
            distributions={name: each.distributions() for name, each in sorted(ratios.items())},
        )
    comparisons, unlike = _comparisons(detailed)
    return Collected(tuple(listed), tuple(detailed), (*problems, *unlike), comparisons)


def _listed(each: Loaded) -> Listed:
    record = each.record
    return Listed(
        record.id,
        record.experiment,
        record.created_utc,
        each.machine,
        len(record.cells) + len(record.rebuilds),
        record.status is RunStatus.COMPLETE,
        len(record.stamps),
        len(each.problems),
    )


def _comparisons(detailed: Sequence[Loaded]) -> tuple[dict[str, PlatformComparison], list[str]]:
    """Of every experiment that there are two results or more of, and why others cannot be compared."""
    found: dict[str, PlatformComparison] = {}
    problems: list[str] = []
    for experiment, group in by_experiment([platform_of(each.record) for each in detailed]).items():
        if len(group) < 2:
            continue
        try:
            found[experiment] = compare_platforms(group)
        except LabError as error:
            problems.append(f"{experiment}: {error.message}")
        else:
            problems += found[experiment].left_out
    return found, problems


class _Ratios:
    """Each result's medians through those of its own baseline."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, str, str], list[float]] = {}

    def add(self, record: ResultRecord) -> None:
        medians = {
            (row.array, row.workload, row.direction): statistics.median(row.values(lambda section: section.iops))
            for row in rows(record)
            if row.phase == "healthy"
        }
        names = list(dict.fromkeys(array for array, _, _ in medians))
        baseline = next((name for name in names if name in singles(record)), names[0] if names else "")
        for (array, workload, direction), value in medians.items():
            beside = medians.get((baseline, workload, direction))
            if beside and array != baseline:
                self._values.setdefault((array, baseline, workload, direction), []).append(value / beside)

    def distributions(self) -> tuple[Distribution, ...]:
        return tuple(Distribution(*key, tuple(sorted(values))) for key, values in self._values.items())
