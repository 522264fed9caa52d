"""The input of a report. Results are read one at a time. If there are many, only a summary of each stays in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from lab.compare import (
    BaselinePair,
    PlatformComparison,
    bad_repeats,
    baseline_ratios,
    compare_platforms,
    healthy_medians,
    is_speed,
    platform_of,
    platform_words,
)
from lab.errors import LabError, ResultError
from lab.lint.experiment_checks import as_shown
from lab.results.record import CellRecord, RebuildRecord, ResultRecord, RunStatus, Timeline, decode_timeline
from lab.results.rows import grouped
from lab.results.store import FoundResult, ResultStore, find_results
from lab.tables import Column, Table
from lab.workloads.fio_output import DirectionFigures

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Loaded:
    """A result whose figures are all finite and above 0."""

    record: ResultRecord
    source: str
    problems: tuple[str, ...]
    read_file: Callable[[str], str]

    @property
    def machine(self) -> str:
        """The platform, such as ``embedded, hdd-7200``."""
        return platform_words(self.record)

    def timeline(self, rebuild: RebuildRecord) -> Timeline | None:
        """Read the timeline of a rebuild. Return None if none was stored. Raises ResultError if it cannot be read."""
        if not rebuild.timeline_file:
            return None
        source = f"{self.record.id}/{rebuild.timeline_file}"
        found = decode_timeline(self.read_file(rebuild.timeline_file), source=source)
        if self.record.conditions.has_cpu_time:
            return found
        return msgspec.structs.replace(found, busy_fraction=(None,) * len(found.seconds))


def each_result(names: Sequence[str], store: ResultStore) -> Iterator[Loaded | str]:
    """Yield each readable result once, and an error message for each result that cannot be read."""
    seen: set[str] = set()
    for found in find_results(names, store):
        if isinstance(found, str):
            yield found
        elif found.record.id not in seen:
            seen.add(found.record.id)
            yield loaded(found)


def loaded(found: FoundResult) -> Loaded:
    """Return a result without its invalid figures. ``problems`` lists what was removed."""
    record = found.record
    cells = tuple(cleaned for cell in record.cells if (cleaned := _cleaned(cell)))
    rebuilds = tuple(each for each in record.rebuilds if is_speed(each.rebuild_seconds) and each.rebuilt_bytes > 0)
    bad = [f"{each.key}: {each.rebuild_seconds:g} s, left out" for each in record.rebuilds if each not in rebuilds]
    clean = as_shown(msgspec.structs.replace(record, cells=cells, rebuilds=rebuilds))
    return Loaded(clean, found.source, (*_shortened(record), *bad), found.read_file)


def _shortened(record: ResultRecord) -> Iterator[str]:
    """Yield a message for each bad repeat, but only one for all missing cells if there are many."""
    missing = record.missing_keys
    if len(missing) <= _MOST_NAMED:
        yield from bad_repeats(record)
        return
    yield from (problem for problem in bad_repeats(record) if not problem.endswith(": planned, not measured"))
    yield f"{len(missing)} of {len(record.planned_cells)} planned cells were not measured: {missing[0]} and others"


def _cleaned(cell: CellRecord) -> CellRecord | None:
    reads, writes = _usable(cell.figures.reads), _usable(cell.figures.writes)
    if reads is None and writes is None:
        return None
    if (reads, writes) == (cell.figures.reads, cell.figures.writes):
        return cell
    return msgspec.structs.replace(cell, figures=msgspec.structs.replace(cell.figures, reads=reads, writes=writes))


def _usable(section: DirectionFigures | None) -> DirectionFigures | None:
    if section is None or not (is_speed(section.iops) and is_speed(section.bandwidth_bytes_per_second)):
        return None
    return section if is_speed(section.mean_seconds) else None


@dataclass(frozen=True, slots=True)
class RatioDistribution:
    """The ratios of one array to the baseline of the same result, over many results, for one workload."""

    array: str
    baseline: str
    workload: str
    direction: str
    values: Sequence[float]
    """The ratios in ascending order."""

    @property
    def what(self) -> str:
        return f"{self.array} ÷ {self.baseline}"

    def quantile(self, fraction: float) -> float:
        """Return a quantile, interpolated linearly between the two nearest values."""
        place = fraction * (len(self.values) - 1)
        low = math.floor(place)
        high = min(low + 1, len(self.values) - 1)
        return self.values[low] + (place - low) * (self.values[high] - self.values[low])


def distribution_table(experiment: str, found: Sequence[RatioDistribution]) -> Table:
    """Tabulate the median, the quartiles and the range of each distribution."""
    columns = (Column("ratio", False), Column("of", False), Column("results"), Column("median", form=".2f"))
    body = tuple(
        (
            each.what,
            f"{each.workload}, {each.direction}s",
            len(each.values),
            each.quantile(0.5),
            f"{each.quantile(0.25):.2f} – {each.quantile(0.75):.2f}",
            f"{each.quantile(0):.2f} – {each.quantile(1):.2f}",
        )
        for each in found
    )
    note = "medians of each result divided by those of its baseline, because machines can be compared only by ratios"
    return Table(f"{experiment}: ratios", (*columns, Column("middle half"), Column("all")), body, (note,))


MOST_DETAILED = 12
"""Up to this many results are shown in full. Otherwise, each result is one line, and each experiment a distribution."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A result in the list of results."""

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
    """The input of a report."""

    listed: tuple[Listed, ...]
    detailed: tuple[Loaded, ...]
    """All results, or no result if there are more than ``MOST_DETAILED``."""
    problems: tuple[str, ...]
    """Messages about results that are unreadable or not comparable, and about figures that were left out."""
    comparisons: Mapping[str, PlatformComparison] = field(default_factory=dict)
    distributions: Mapping[str, tuple[RatioDistribution, ...]] = field(default_factory=dict)
    """For each experiment, the ratios over all its results, if there are more than ``MOST_DETAILED``."""
    others: tuple[Table, ...] = ()
    """Tables that do not belong to a result, such as verdicts on faults."""


def collect(
    found: Iterable[Loaded | str], *, failures: Sequence[str] = (), others: tuple[Table, ...] = ()
) -> Collected:
    """Collect the input of a report from ``found``. Raises ResultError if there is nothing to report."""
    listed: list[Listed] = []
    detailed: list[Loaded] = []
    problems = list(failures)
    ratios: dict[str, dict[BaselinePair, list[float]]] = {}
    for each in found:
        if isinstance(each, str):
            problems.append(each)
            continue
        record = each.record
        listed.append(
            Listed(
                record.id,
                record.experiment,
                record.created_utc,
                each.machine,
                len(record.cells) + len(record.rebuilds),
                record.status is RunStatus.COMPLETE,
                len(record.stamps),
                len(each.problems),
            )
        )
        of_experiment = ratios.setdefault(record.experiment, {})
        for pair, ratio in baseline_ratios(record, healthy_medians(record)):
            if ratio is not None:
                of_experiment.setdefault(pair, []).append(ratio)
        if len(listed) <= MOST_DETAILED:
            detailed.append(each)
    if not listed and not failures and not others:
        raise ResultError(
            f"nothing to report: {'; '.join(problems) or 'no result was specified'}",
            hint="'raidlab results' lists the results",
        )
    if len(listed) > MOST_DETAILED:
        lines = [f"{each.problems} repeats left out or missing in {each.id}" for each in listed if each.problems]
        return Collected(
            tuple(listed),
            (),
            (*problems, *lines),
            distributions={
                name: tuple(RatioDistribution(*pair, tuple(sorted(values))) for pair, values in each.items())
                for name, each in sorted(ratios.items())
            },
            others=others,
        )
    comparisons, unlike = _comparisons(detailed)
    return Collected(tuple(listed), tuple(detailed), (*problems, *unlike), comparisons, others=others)


def _comparisons(detailed: Sequence[Loaded]) -> tuple[dict[str, PlatformComparison], list[str]]:
    """Compare the results of each experiment that has more than one.

    Also return messages about incomparable results.
    """
    found: dict[str, PlatformComparison] = {}
    problems: list[str] = []
    for experiment, group in grouped(
        [platform_of(each.record) for each in detailed], lambda each: each.record.experiment
    ).items():
        if len(group) < 2:
            continue
        try:
            found[experiment] = compare_platforms(group)
        except LabError as error:
            problems.append(f"{experiment}: {error.message}")
        else:
            problems += found[experiment].left_out
    return found, problems
