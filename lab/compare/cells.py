"""Ratios of two results, cell by cell, each with an interval and a verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median

from lab.errors import SpecError
from lab.results.ratios import Ratio, RatioTest
from lab.results.record import ResultRecord
from lab.results.verdicts import DEFAULT_MARGIN, Asked, Outcome, check_margin, judge_family


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both results."""

    array: str
    workload: str
    phase: str
    figure: str
    """``read IOPS``, ``write IOPS`` or ``rebuild seconds``."""
    first: float
    """Median of the first result."""
    second: float
    ratio: Ratio | None
    """Second to first (Mann-Whitney: the results are two runs of their own); None where it means nothing."""
    outcome: Outcome
    """Of the second beside the first."""
    reason: str
    """Why it cannot be told; otherwise empty."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All figures that both results have."""

    rows: tuple[Compared, ...]
    only_first: tuple[str, ...]
    """Cells without counterpart."""
    only_second: tuple[str, ...]


_Key = tuple[str, str, str, str]
_Figures = dict[_Key, list[float]]


def compare(first: ResultRecord, second: ResultRecord, *, margin: float = DEFAULT_MARGIN) -> Comparison:
    """Every figure of both. Raises SpecError for a margin that is none, or if they have nothing in common."""
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
    """Of many comparisons some differ by chance alone, so all of them are judged as one family."""
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
            yield Compared(*key, *medians, None, Outcome.CANNOT_TELL, test.message)
        else:
            yield Compared(*key, *medians, test.ratio, verdicts[key].outcome, verdicts[key].reason)


def _test(first: list[float], second: list[float]) -> RatioTest | SpecError:
    try:
        return RatioTest.apart(second, first)
    except SpecError as error:
        return error
