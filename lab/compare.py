"""Compare the figures of results measured under equal conditions, and compare platforms by ratios only.

Each ratio has a confidence interval and a verdict. Platforms are compared by dimensionless figures only, because raw
IOPS compare the disks, not the arrays. This module has no side effects.

Virtual and physical platforms are compared (methodology M25) by speed-up over the platform's own single disk, by share
of theory, and by CPU cost and rebuild rate relative to that disk, each with a confidence interval. They are also
compared by the order of the arrays. The main question is which conclusions of the first platform, such as that one
level is faster than another, also hold on the other platform, and which are reversed there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations
from statistics import median
from typing import NamedTuple

from lab.errors import ResultError, SpecError
from lab.results.record import HEALTHY, REBUILDING, Conditions, ResultRecord
from lab.results.rows import Row, grouped, rows
from lab.results.statistics import (
    DEFAULT_MARGIN,
    Asked,
    Estimate,
    Ratio,
    RatioOutcome,
    RatioTest,
    Verdict,
    estimate,
    judge_family,
)
from lab.tomlfile import as_meant, unknown_word
from lab.units import human_bytes

ALL = "all"
_MEMORY_SLACK = 0.05
"""Fraction of the memory by which equal machines may differ."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One condition in which two results differ."""

    condition: str
    sentence: str


class UnlikeRuns(ResultError):
    """The conditions of two results differ in ways that were not allowed."""


_Reader = Callable[[ResultRecord], str]


def _disks(conditions: Conditions) -> str:
    disks = conditions.disks
    kinds = Counter(f"{disk.kind} {disk.model}".strip() + f" of {human_bytes(disk.size_bytes)}" for disk in disks)
    return ", ".join(f"{count} x {word}" for word, count in sorted(kinds.items())) or "none"


def _tunables(conditions: Conditions) -> str:
    return ", ".join(f"{path.rpartition('/')[2]}={value}" for path, value in sorted(conditions.tunables.items()))


_CONDITIONS: dict[str, tuple[tuple[str, _Reader], ...]] = {
    "experiment": (("experiment", lambda r: r.experiment), ("experiment file", lambda r: as_meant(r.experiment_toml))),
    "host": (("host", lambda r: r.conditions.host_name), ("processor", lambda r: r.conditions.cpu_model)),
    "machine": (
        ("architecture", lambda r: r.conditions.architecture),
        ("kernel in a process", lambda r: "yes" if r.conditions.is_embedded else "no"),
        ("virtual time", lambda r: "yes" if r.conditions.is_virtual_time else "no"),
    ),
    "cpus": (("processors", lambda r: str(r.conditions.cpu_count)),),
    "memory": (("memory", lambda r: human_bytes(r.conditions.memory_bytes)),),
    "kernel": (("kernel", lambda r: r.conditions.kernel_release),),
    "tools": (
        ("mdadm", lambda r: r.conditions.mdadm_version),
        ("fio", lambda r: r.conditions.fio_version),
        ("nbdkit", lambda r: r.conditions.nbdkit_version),
    ),
    "disks": (("disks", lambda r: _disks(r.conditions)),),
    "tunables": (("tunables", lambda r: _tunables(r.conditions)),),
    "raidlab": (("raidlab", lambda r: r.raidlab_version),),
}
CONDITIONS = tuple(_CONDITIONS)


def differences(first: ResultRecord, second: ResultRecord) -> tuple[Difference, ...]:
    """Return every condition in which two results differ."""
    found = []
    for condition, readers in _CONDITIONS.items():
        for name, read in readers:
            before, after = read(first), read(second)
            if before == after or (condition == "memory" and _is_as_much_memory(first.conditions, second.conditions)):
                continue
            both = "differs" if "\n" in before + after else f"'{before}' and '{after}'"
            found.append(Difference(condition, f"{name}: {both}"))
    return tuple(found)


def _is_as_much_memory(first: Conditions, second: Conditions) -> bool:
    """Whether the sizes differ by at most _MEMORY_SLACK. The kernel's own use varies by a few MiB from boot to boot."""
    least, most = sorted((first.memory_bytes, second.memory_bytes))
    return most - least <= _MEMORY_SLACK * most


def require_alike(first: ResultRecord, second: ResultRecord, allowed: Collection[str] = ()) -> tuple[Difference, ...]:
    """Return the differences.

    Raises UnlikeRuns if one is not ``allowed``, and SpecError if an allowed word is unknown.
    """
    for word in allowed:
        if word not in (*CONDITIONS, ALL):
            raise unknown_word("condition", word, (*CONDITIONS, ALL))
    found = differences(first, second)
    if ALL in allowed:
        return found
    refused = tuple(each for each in found if each.condition not in allowed)
    if refused:
        lines = "".join(f"\n  - {each.sentence} (--allow {each.condition})" for each in refused)
        words = " ".join(f"--allow {word}" for word in dict.fromkeys(each.condition for each in refused))
        raise UnlikeRuns(
            f"{first.id} and {second.id} were not measured under equal conditions:{lines}",
            hint=f"if you want to measure the effect of this difference, add {words}",
        )
    return found


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure that both results contain."""

    array: str
    workload: str
    phase: str
    figure: str
    """``read IOPS``, ``write IOPS`` or ``rebuild seconds``."""
    first: float
    """Median of the first result."""
    second: float
    ratio: Ratio | None
    """Ratio of the second to the first, or None if it is meaningless.

    It comes from the Mann-Whitney test, because the runs are independent.
    """
    outcome: RatioOutcome
    """Verdict on the second result relative to the first."""
    reason: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """All figures common to both results."""

    rows: tuple[Compared, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]


_Key = tuple[str, str, str, str]
_Figures = dict[_Key, list[float]]


def compare(first: ResultRecord, second: ResultRecord, *, margin: float = DEFAULT_MARGIN) -> Comparison:
    """Compare all common figures. Raises SpecError if the margin is invalid, or if there are no common figures."""
    before, after = _figures(first), _figures(second)
    rows = tuple(_rows(before, after, margin))
    if not rows:
        raise SpecError(
            f"{first.id} and {second.id} have no cell in common", hint="compare results of the same experiment"
        )
    return Comparison(
        rows, _names(key for key in before if key not in after), _names(key for key in after if key not in before)
    )


def _figures(record: ResultRecord) -> _Figures:
    """Return the repeats of every figure, in the order of the record."""
    found: _Figures = {}
    for cell in record.cells:
        for way, section in cell.figures.sections.items():
            found.setdefault((cell.array, cell.workload, cell.phase, f"{way} IOPS"), []).append(section.iops)
    for rebuild in record.rebuilds:
        key = (rebuild.array, f"rebuild under {rebuild.under_workload}" if rebuild.under_workload else "rebuild")
        found.setdefault((*key, REBUILDING, "rebuild seconds"), []).append(rebuild.rebuild_seconds)
    return found


def _names(keys: Iterable[_Key]) -> tuple[str, ...]:
    return tuple(dict.fromkeys("/".join(key[:3]) for key in keys))


def _rows(before: _Figures, after: _Figures, margin: float) -> Iterator[Compared]:
    """Judge all comparisons as one family, because among many comparisons some differ by chance alone."""
    tests = {key: _test(before[key], after[key]) for key in before if key in after}
    asked = {
        key: Asked(test, is_time=key[-1].endswith("seconds"))
        for key, test in tests.items()
        if isinstance(test, RatioTest)
    }
    verdicts = dict(zip(asked, judge_family(list(asked.values()), margin=margin), strict=True))
    for key, test in tests.items():
        medians = median(before[key]), median(after[key])
        if isinstance(test, SpecError):
            yield Compared(*key, *medians, None, RatioOutcome.CANNOT_TELL, test.message)
        else:
            yield Compared(*key, *medians, test.ratio, verdicts[key].outcome, verdicts[key].reason)


def _test(first: list[float], second: list[float]) -> RatioTest | SpecError:
    try:
        return RatioTest.apart(second, first)
    except SpecError as error:
        return error


SINGLE = "single"
_SMALLEST = 1e-12


class Key(NamedTuple):
    """The measurement that a figure belongs to."""

    array: str
    workload: str
    phase: str
    direction: str

    @property
    def words(self) -> str:
        phase = "" if self.phase == HEALTHY else f", {self.phase}"
        return f"{self.array}, {self.workload}, {self.direction}{phase}"


def figures_of(record: ResultRecord) -> Mapping[Key, Row]:
    """Return all figures, without repeats that have an invalid speed (0, NaN, infinite)."""
    valid = (replace(row, cells=tuple(c for c in row.cells if is_speed(row.section(c).iops))) for row in rows(record))
    return {Key(row.array, row.workload, row.phase, row.direction): row for row in valid if row.cells}


def healthy_medians(record: ResultRecord) -> dict[tuple[str, str, str], float]:
    """Map (array, workload, direction) to the median IOPS of the valid repeats that ran without failed members."""
    return {
        (key.array, key.workload, key.direction): median(_iops(row).values())
        for key, row in figures_of(record).items()
        if key.phase == HEALTHY
    }


def _iops(row: Row) -> dict[int, float]:
    return row.by_repeat(lambda section: section.iops)


def _cpu_costs(row: Row) -> dict[int, float]:
    costs = row.cpu_by_repeat("cpu_microseconds_per_io")
    return {repeat: cost for repeat, cost in costs.items() if is_speed(cost)}


def is_speed(value: float) -> bool:
    """Whether the value is above 0, and large enough that dividing by it gives a finite number."""
    return math.isfinite(value) and value > _SMALLEST


def bad_repeats(record: ResultRecord) -> tuple[str, ...]:
    """List the cells whose figures are 0, NaN or infinite, and the planned cells that are missing."""
    sections = ((cell.key, section) for cell in record.cells for section in cell.figures.sections.values())
    bad = [f"{key}: {section.iops:g} IOPS, left out" for key, section in sections if not is_speed(section.iops)]
    bad += [f"{cell.key}: no I/O, left out" for cell in record.cells if not cell.figures.sections]
    return (*bad, *(f"{key}: planned, not measured" for key in record.missing_keys))


def singles(record: ResultRecord) -> tuple[str, ...]:
    """Return the arrays that are a single bare disk, in the order of the experiment."""
    return tuple(array.name for array in record.arrays if array.level == SINGLE)


BaselinePair = tuple[str, str, str, str]
"""Array, baseline, workload and direction."""


def baseline_ratios(
    record: ResultRecord, medians: Mapping[tuple[str, str, str], float]
) -> Iterator[tuple[BaselinePair, float | None]]:
    """Yield the ratio of each of the result's ``healthy_medians`` to that of the baseline under the same load.

    The baseline is the result's first single disk or, if it has none, its first array. The ratio is None if the
    baseline was not measured under that load.
    """
    # An array without valid figures has no medians, but remains the baseline.
    baseline = next(iter((*singles(record), *(array.name for array in record.arrays))), "")
    for (array, workload, direction), value in medians.items():
        if array != baseline:
            beside = medians.get((baseline, workload, direction))
            yield (array, baseline, workload, direction), value / beside if beside else None


class PlatformMeasure(StrEnum):
    """Figures that are comparable across platforms."""

    SPEED_UP = "speed-up over one disk"
    THEORY_SHARE = "share of theory"
    CPU_COST = "CPU per I/O ÷ that of one disk"
    REBUILD = "rebuild rate ÷ one disk's"
    REBUILD_SHARE = "predicted ÷ measured rebuild time"


class Transfer(StrEnum):
    """Whether a conclusion also holds on another platform."""

    CARRIES_OVER = "carries over"
    FLIPS = "flips"
    CHANGES = "changes"
    """The arrays differ on one platform but not on the other."""
    CANNOT_TELL = "cannot tell"


MOST_PAIRS = 5_000
"""Limit on pairs of arrays under the same load, because each takes a few milliseconds. The largest built-in experiment
has 3,140."""


@dataclass(frozen=True, slots=True)
class Platform:
    """The result of one platform, and the platform's name."""

    name: str
    record: ResultRecord
    problems: tuple[str, ...] = ()
    """Descriptions of the repeats that are missing or have no valid figures. All other repeats are used."""


@dataclass(frozen=True, slots=True)
class PlatformRow:
    """One dimensionless figure, with its value on every platform that has it."""

    measure: PlatformMeasure
    what: str
    values: tuple[Estimate | None, ...]
    """The figure on each platform, in the order of the platforms."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How similarly two platforms order the arrays.

    For three or four arrays that are measured six times, tau has no meaningful confidence interval. The order is known
    only for those pairs of arrays that have a verdict on both platforms.
    """

    platform: str
    what: str
    arrays: int
    tau: float
    """Kendall's tau of the medians: 1 for the same order, -1 for the reverse, NaN if all are equal on one platform."""
    pairs: int
    told: int
    """Number of pairs of arrays with a verdict on both platforms."""
    turned: int
    """Number of these pairs whose two verdicts are opposite."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Which of two arrays is faster, on each platform."""

    what: str
    faster: str
    slower: str
    """The slower array according to the first platform, if that has a verdict."""
    verdicts: tuple[Verdict, ...]
    transfers: tuple[Transfer, ...]
    """The outcome on every platform after the first."""


@dataclass(frozen=True, slots=True)
class PlatformComparison:
    """The complete comparison of the platforms."""

    platforms: tuple[Platform, ...]
    left_out: tuple[str, ...]
    rows: tuple[PlatformRow, ...]
    agreements: tuple[Agreement, ...]
    conclusions: tuple[Conclusion, ...]


def platform_of(record: ResultRecord) -> Platform:
    """Make the platform of a record. Its name describes the machine and the disks."""
    return Platform(platform_words(record), record, bad_repeats(record))


def platform_words(record: ResultRecord) -> str:
    """Return a short description, for example ``embedded, hdd-7200`` or ``vagrant:, virtio``."""
    conditions = record.conditions
    is_uml = conditions.is_embedded and not conditions.is_stock
    machine = "embedded" if is_uml else conditions.target or conditions.host_name
    disks = dict.fromkeys(disk.model or disk.kind for disk in conditions.disks)
    return ", ".join((machine, "+".join(disks))) if disks else machine


def compare_platforms(platforms: Sequence[Platform], *, margin: float = DEFAULT_MARGIN) -> PlatformComparison:
    """Compare every platform with the first. Platforms that share no figure with the first are left out.

    Raises SpecError if nothing can be compared, or if there are more than MOST_PAIRS pairs of arrays.
    """
    if len(platforms) < 2:
        raise SpecError("a comparison needs at least two platforms", hint="specify results from two or more machines")
    first, *others = _with_names(platforms)
    compared, figures, left_out = [first], [figures_of(first.record)], []
    for platform in others:
        found = figures_of(platform.record)
        if found.keys() & figures[0].keys():
            compared.append(platform)
            figures.append(found)
        else:
            left_out.append(f"{platform.name} has no figure in common with {first.name}")
    if len(compared) < 2:
        raise SpecError(
            f"nothing can be compared: {'; '.join(left_out)}", hint="run the same experiment on both machines"
        )
    conclusions = tuple(_conclusions(figures, margin))
    agreements = tuple(_agreements(compared, figures, conclusions))
    rows = tuple(_platform_rows(compared, figures))
    return PlatformComparison(tuple(compared), tuple(left_out), rows, agreements, conclusions)


_DISTINCTIONS: tuple[Callable[[ResultRecord], str], ...] = (
    lambda record: "virtual time" if record.conditions.is_virtual_time else "real time",
    lambda record: record.conditions.host_name,
    lambda record: f"kernel {record.conditions.kernel_release}",
    lambda record: f"{record.conditions.cpu_count} processors",
)
"""Properties that distinguish platforms with the same name, with the most informative ones first."""


def _with_names(platforms: Sequence[Platform]) -> list[Platform]:
    """Make the names unique. Equal names get the properties that differ, or else the id of the result, as a suffix."""
    named = []
    for platform in platforms:
        twins = [other.record for other in platforms if other.name == platform.name]
        name = f"{platform.name} ({_distinction(platform.record, twins)})" if len(twins) > 1 else platform.name
        named.append(replace(platform, name=name))
    return named


def _distinction(record: ResultRecord, twins: Sequence[ResultRecord]) -> str:
    """Return properties that distinguish this result from its twins, or its id if none do."""
    differing = [distinction for distinction in _DISTINCTIONS if len({distinction(each) for each in twins}) > 1]
    for chosen in (*([each] for each in differing), differing):
        words = [tuple(distinction(each) for distinction in chosen) for each in twins]
        if len(set(words)) == len(twins):
            return ", ".join(distinction(record) for distinction in chosen)
    return record.id


def _platform_rows(platforms: Sequence[Platform], figures: Sequence[Mapping[Key, Row]]) -> Iterator[PlatformRow]:
    per_platform = [_dimensionless(each.record, found) for each, found in zip(platforms, figures, strict=True)]
    keys = dict.fromkeys(key for found in per_platform for key in found)
    for measure, what in sorted(keys, key=lambda key: list(PlatformMeasure).index(key[0])):
        values = tuple(found.get((measure, what)) for found in per_platform)
        if sum(value is not None for value in values) > 1:
            yield PlatformRow(measure, what, values)


def _dimensionless(record: ResultRecord, figures: Mapping[Key, Row]) -> dict[tuple[PlatformMeasure, str], Estimate]:
    found: dict[tuple[PlatformMeasure, str], Estimate] = {}
    disks = singles(record)
    for key, row in figures.items():
        predicted = row.predicted_iops
        if predicted is not None and is_speed(predicted):
            shares = [value / predicted for value in _iops(row).values()]
            found[PlatformMeasure.THEORY_SHARE, key.words] = estimate(shares, row.looks)
        disk = next((figures[each] for name in disks if (each := key._replace(array=name)) in figures), None)
        if disk is None or key.array in disks:
            continue
        for measure, values in ((PlatformMeasure.SPEED_UP, _iops), (PlatformMeasure.CPU_COST, _cpu_costs)):
            ours, theirs = values(row), values(disk)
            if ours.keys() & theirs.keys():
                found[measure, key.words] = RatioTest.paired(ours, theirs).ratio
    return found | _rebuilds(record, figures, disks)


def _rebuilds(
    record: ResultRecord, figures: Mapping[Key, Row], disks: Collection[str]
) -> dict[tuple[PlatformMeasure, str], Estimate]:
    found: dict[tuple[PlatformMeasure, str], Estimate] = {}
    sequential = [
        row.values(lambda section: section.bandwidth_bytes_per_second)
        for key, row in figures.items()
        if key.array in disks and row.cells[0].is_sequential
    ]
    # A rebuild is as fast as its slowest part, so it is compared with the slowest sequential rate of a single disk,
    # which is usually that of writes.
    slowest = min(sequential, key=min, default=None)
    groups: dict[str, list[tuple[float, float | None]]] = {}
    for rebuild in record.rebuilds:
        if is_speed(rebuild.rebuild_seconds) and rebuild.rebuilt_bytes > 0:
            what = f"{rebuild.array}, under {rebuild.under_workload}" if rebuild.under_workload else rebuild.array
            share = rebuild.predicted_seconds / rebuild.rebuild_seconds if rebuild.predicted_seconds else None
            groups.setdefault(what, []).append((rebuild.rebuilt_bytes / rebuild.rebuild_seconds, share))
    for what, group in groups.items():
        if slowest is not None:
            rates = [rate for rate, _ in group]
            # Jobs run first and rebuilds after them, so repeats of the two are not paired.
            found[PlatformMeasure.REBUILD, what] = RatioTest.apart(rates, slowest).ratio
        shares = [share for _, share in group if share is not None]
        if shares:
            found[PlatformMeasure.REBUILD_SHARE, what] = estimate(shares)
    return found


def _settings(figures: Mapping[Key, Row]) -> dict[tuple[str, str, str], list[Key]]:
    """Map workload, phase and direction to the measurements of all arrays."""
    return grouped(figures, lambda key: (key.workload, key.phase, key.direction))


def _agreements(
    platforms: Sequence[Platform], figures: Sequence[Mapping[Key, Row]], conclusions: Sequence[Conclusion]
) -> Iterator[Agreement]:
    from scipy import stats

    first = figures[0]
    for place, (platform, other) in enumerate(zip(platforms[1:], figures[1:], strict=True)):
        for setting, keys in _settings(first).items():
            both = [key for key in keys if key in other]
            # The order of two arrays is already one of the conclusions.
            if len(both) < 3:
                continue
            medians = [[found[key].iops.median for key in both] for found in (first, other)]
            arrays = {key.array for key in both}
            transfers = [
                each.transfers[place]
                for each in conclusions
                if each.what == _setting_words(setting) and {each.faster, each.slower} <= arrays
            ]
            yield Agreement(
                platform.name,
                _setting_words(setting),
                arrays=len(both),
                tau=float(stats.kendalltau(*medians).statistic),
                pairs=len(transfers),
                told=len(transfers) - transfers.count(Transfer.CANNOT_TELL),
                turned=transfers.count(Transfer.FLIPS),
            )


def _setting_words(setting: tuple[str, str, str]) -> str:
    return Key("", *setting).words.removeprefix(", ")


_OPPOSITES = {RatioOutcome.FASTER: RatioOutcome.SLOWER, RatioOutcome.SLOWER: RatioOutcome.FASTER}


def _conclusions(figures: Sequence[Mapping[Key, Row]], margin: float) -> Iterator[Conclusion]:
    """Compare all pairs of arrays on all platforms, as one family of comparisons."""
    pairs = [
        (setting, one, other)
        for setting, keys in _settings(figures[0]).items()
        for one, other in combinations(keys, 2)
        if any(one in found and other in found for found in figures[1:])
    ]
    if len(pairs) > MOST_PAIRS:
        raise SpecError(
            f"{len(pairs):,} pairs of arrays are too many for one comparison; the limit is {MOST_PAIRS:,}",
            hint="compare smaller results, or compare two results of one machine cell by cell",
        )
    iops = [{key: _iops(row) for key, row in found.items()} for found in figures]
    tests = {
        (place, one, other): RatioTest.paired(found[one], found[other])
        for place, found in enumerate(iops)
        for _, one, other in pairs
        if one in found and other in found and found[one].keys() & found[other].keys()
    }
    judged = judge_family([Asked(test) for test in tests.values()], margin=margin)
    verdicts = dict(zip(tests, judged, strict=True))
    missing = Verdict(RatioOutcome.CANNOT_TELL, "not measured there")
    for setting, one, other in pairs:
        known = tuple(verdicts.get((place, one, other), missing) for place in range(len(figures)))
        is_slower = known[0].outcome is RatioOutcome.SLOWER
        faster, slower = (other, one) if is_slower else (one, other)
        # All verdicts are about the array that is faster on the first platform.
        turned = tuple(
            replace(each, outcome=_OPPOSITES.get(each.outcome, each.outcome)) if is_slower else each for each in known
        )
        transfers = tuple(_transfer(turned[0], verdict) for verdict in turned[1:])
        yield Conclusion(_setting_words(setting), faster.array, slower.array, turned, transfers)


def _transfer(here: Verdict, there: Verdict) -> Transfer:
    if RatioOutcome.CANNOT_TELL in (here.outcome, there.outcome):
        return Transfer.CANNOT_TELL
    if here.outcome is there.outcome:
        return Transfer.CARRIES_OVER
    return Transfer.CHANGES if RatioOutcome.SAME in (here.outcome, there.outcome) else Transfer.FLIPS
