"""Comparison of two results: comparability, and ratios, each with an interval and a verdict. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from statistics import median

from lab.errors import ResultError, SpecError
from lab.results.record import Conditions, ResultRecord
from lab.results.statistics import DEFAULT_MARGIN, Asked, Ratio, RatioOutcome, RatioTest, check_margin, judge_family
from lab.tomlfile import as_meant, unknown_word
from lab.units import human_bytes

ALL = "all"
_MEMORY_SLACK = 0.05
"""Fraction of the memory by which equal machines may differ."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One condition in which two results differ."""

    condition: str
    """The word that allows the difference."""
    sentence: str


class UnlikeRuns(ResultError):
    """Two results that are not comparable as they are; ``differences`` lists the reasons."""

    def __init__(self, message: str, *, hint: str, differences: tuple[Difference, ...]) -> None:
        super().__init__(message, hint=hint)
        self.differences = differences


_Reader = Callable[[ResultRecord], str]


def _disks(conditions: Conditions) -> str:
    kinds: dict[str, int] = {}
    for disk in conditions.disks:
        word = f"{disk.kind} {disk.model}".strip() + f" of {human_bytes(disk.size_bytes)}"
        kinds[word] = kinds.get(word, 0) + 1
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
"""The words that allow a difference."""


def differences(first: ResultRecord, second: ResultRecord) -> tuple[Difference, ...]:
    """Every condition in which two results differ."""
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
    """Memory is equal up to the kernel's own use, which differs by a few MiB between two boots of one machine."""
    least, most = sorted((first.memory_bytes, second.memory_bytes))
    return most - least <= _MEMORY_SLACK * most


def require_alike(first: ResultRecord, second: ResultRecord, allowed: Collection[str] = ()) -> tuple[Difference, ...]:
    """The allowed differences.

    Raises UnlikeRuns with every other difference and the word that allows it, SpecError for an unknown word.
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
            hint=f"if this difference is what you want to measure: {words}",
            differences=refused,
        )
    return found


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure that both results have."""

    array: str
    workload: str
    phase: str
    figure: str
    """``read IOPS``, ``write IOPS`` or ``rebuild seconds``."""
    first: float
    """Median of the first result."""
    second: float
    ratio: Ratio | None
    """Second to first (Mann-Whitney: the results are two independent runs); None if the ratio is meaningless."""
    outcome: RatioOutcome
    """Verdict on the second result relative to the first."""
    reason: str
    """Why there is no verdict; otherwise empty."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All figures common to both results."""

    rows: tuple[Compared, ...]
    only_first: tuple[str, ...]
    """Cells without a counterpart."""
    only_second: tuple[str, ...]


_Key = tuple[str, str, str, str]
_Figures = dict[_Key, list[float]]


def compare(first: ResultRecord, second: ResultRecord, *, margin: float = DEFAULT_MARGIN) -> Comparison:
    """All common figures. Raises SpecError for an invalid margin, or if there are no common figures."""
    check_margin(margin)
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
    """Repeats of every figure, in the order of the record."""
    found: _Figures = {}
    for cell in record.cells:
        for name, section in (("read IOPS", cell.figures.reads), ("write IOPS", cell.figures.writes)):
            if section:
                found.setdefault((cell.array, cell.workload, cell.phase, name), []).append(section.iops)
    for rebuild in record.rebuilds:
        key = (rebuild.array, f"rebuild under {rebuild.under_workload}" if rebuild.under_workload else "rebuild")
        found.setdefault((*key, "rebuilding", "rebuild seconds"), []).append(rebuild.rebuild_seconds)
    return found


def _names(keys: Iterable[_Key]) -> tuple[str, ...]:
    return tuple(dict.fromkeys("/".join(key[:3]) for key in keys))


def _rows(before: _Figures, after: _Figures, margin: float) -> Iterator[Compared]:
    """Among many comparisons some differ by chance alone, so all of them are judged as one family."""
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
