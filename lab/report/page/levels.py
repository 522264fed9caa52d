"""Plots of each workload by array: speed, latency and CPU cost, with theory and published ratios."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lab.experiments.published import Published, PublishedFinding, Quantity
from lab.experiments.schedule import HEALTHY
from lab.report.cells import ResultLabels, Row, is_large
from lab.report.findings import Theory
from lab.report.page.plot import (
    PUBLISHED,
    SYMBOLS,
    THEORY,
    Plot,
    Trace,
    categories,
    colour,
    interval_words,
    log_axis,
    marks,
    median_bars,
    plain,
    strokes,
    wrapped,
)
from lab.report.page.plot import number as short
from lab.results.statistics import Estimate, estimate

_PERCENTILES = (("p50", "p50_seconds"), ("p95", "p95_seconds"), ("p99", "p99_seconds"), ("p99.9", "p999_seconds"))
_BAR_PIXELS, _FRAME_PIXELS = 34, 110


@dataclass(frozen=True, slots=True)
class Quantified:
    """One bar: the repeats of a row, with the values of theory and of the study."""

    row: Row
    values: Sequence[float]
    theory: float | None = None
    published: tuple[float, str] | None = None
    """The published ratio times the measured value of the other array, and the calculation in words."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The rows of one workload and direction, which a plot compares."""

    workload: str
    direction: str
    rows: tuple[Row, ...]


def settings(all_rows: Iterable[Row]) -> tuple[Setting, ...]:
    """The rows grouped by workload and direction, in their order."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in all_rows:
        found.setdefault((row.workload, row.direction), []).append(row)
    return tuple(Setting(*key, tuple(rows)) for key, rows in found.items())


class LevelPlots:
    """The plots of one setting."""

    def __init__(
        self, setting: Setting, labels: ResultLabels, published: Published | None, theory: Theory | None
    ) -> None:
        self._setting = setting
        self._labels = labels
        self._theory = theory
        findings = published.findings if published else ()
        self._findings = [
            finding
            for finding in findings
            if (finding.workload, finding.direction) == (setting.workload, setting.direction) and finding.ratio
        ]
        self._has_phases = len({row.phase for row in setting.rows}) > 1

    def plots(self) -> Iterator[Plot]:
        """The plots for which there are figures."""
        yield self._speed()
        yield self._mean_time()
        yield from self._percentiles()
        yield from self._cpu()

    def name(self, row: Row) -> str:
        """The label of a row's bar."""
        label = self._labels.array(row.array)
        return f"{label}, {row.phase}" if self._has_phases or row.phase != HEALTHY else label

    def _speed(self) -> Plot:
        rows = self._setting.rows
        if is_large(rows[0]):
            values = [row.values(lambda section: section.bandwidth_bytes_per_second / 1e6) for row in rows]
            scales = [_block_bytes(row) / 1e6 for row in rows]
            marks = self._published(Quantity.BANDWIDTH, rows, values) or self._published(Quantity.IOPS, rows, values)
            unit, what = "MB/s", "Throughput"
        else:
            values = [row.values(lambda section: section.iops) for row in rows]
            scales = [1.0] * len(rows)
            marks = self._published(Quantity.IOPS, rows, values)
            unit, what = "I/Os per second (IOPS)", "Speed"
        theory = [
            row.predicted_iops * scale if row.predicted_iops else None for row, scale in zip(rows, scales, strict=True)
        ]
        if not any(theory):
            theory = self._relative_theory(rows, values)
        return self._bars(what, unit, "more is better", _joined(rows, values, theory, marks))

    def _relative_theory(self, rows: Sequence[Row], values: Sequence[Sequence[float]]) -> list[float | None]:
        """Theory's ratios to the first array times the measured value of that array, if the disks' speed is unknown."""
        if self._theory is None:
            return [None] * len(rows)
        says = [self._theory.relative_iops(row.array, row.workload) if row.phase == HEALTHY else None for row in rows]
        first = says[0]
        if not first or not values[0]:
            return [None] * len(rows)
        here = estimate(values[0]).median
        return [None, *(said / first * here if said else None for said in says[1:])]

    def _mean_time(self) -> Plot:
        rows = self._setting.rows
        values = [row.values(lambda section: section.mean_seconds * 1000) for row in rows]
        in_flight = self._labels.in_flight(self._setting.workload)
        # Little's law: I/Os in flight = IOPS × latency in seconds.
        theory = [1000 * in_flight / row.predicted_iops if in_flight and row.predicted_iops else None for row in rows]
        marks = self._published(Quantity.MEAN_LATENCY, rows, values)
        return self._bars("Mean latency", "milliseconds", "less is better", _joined(rows, values, theory, marks))

    def _cpu(self) -> Iterator[Plot]:
        rows = self._setting.rows
        by_gib = is_large(rows[0])
        unit = "CPU seconds per GiB" if by_gib else "CPU µs per I/O"
        found = []
        for row in rows:
            costs = [cell.cpu for cell in row.cells if cell.cpu]
            picked = [each.cpu_seconds_per_gib if by_gib else each.cpu_microseconds_per_io for each in costs]
            values = [value for value in picked if value is not None and value > 0]
            if values:
                found.append((row, values))
        if not found:
            return
        kept, repeats = [row for row, _ in found], [values for _, values in found]
        marks = self._published(Quantity.CPU_PER_GIB, kept, repeats)
        yield self._bars(
            "CPU cost", unit, "all CPUs and md's threads, less the idle machine", _joined(kept, repeats, [], marks)
        )

    def _bars(self, what: str, unit: str, note: str, shown: Sequence[Quantified]) -> Plot:
        names = [wrapped(self.name(each.row), 20) for each in shown]
        found = [each.row.estimate(each.values) for each in shown]
        said = [interval_words(each, digits=4) for each in found]
        traces = [median_bars(names, found, said, f"%{{x:.4~g}} {plain(unit)}<br>%{{customdata}}")]
        if any(each.n > 1 for each in found):
            traces.append(_repeats_trace(names, shown))
        traces += _marks(names, [each.theory for each in shown], "theory", THEORY, "diamond-open")
        published = [each.published[0] if each.published else None for each in shown]
        reasons = [each.published[1] if each.published else "" for each in shown]
        traces += _marks(names, published, "published ratio", PUBLISHED, "star-open", reasons)
        layout = {
            "xaxis": {"title": {"text": f"{unit}; {note}"}, "rangemode": "tozero"},
            "yaxis": categories(names),
            "bargap": 0.35,
        }
        return Plot(what, self._summary(what, unit, shown), traces, layout, _height(len(shown)))

    def _summary(self, what: str, unit: str, shown: Sequence[Quantified]) -> str:
        medians = [(self.name(each.row), estimate(each.values).median) for each in shown]
        words = ", ".join(
            f"{name} {median:,.0f}" if median >= 100 else f"{name} {median:.3g}" for name, median in medians
        )
        return f"{what}, {unit.removesuffix(' (IOPS)')}; medians: {words}."

    def _published(
        self, quantity: Quantity, rows: Sequence[Row], values: Sequence[Sequence[float]]
    ) -> dict[str, tuple[float, str]]:
        """Array -> published ratio times the measured value of the other array, and the calculation in words.

        Published absolute figures are not shown, because they were measured on another machine.
        """
        medians = {row.array: estimate(found).median for row, found in zip(rows, values, strict=True) if found}
        return {
            finding.array: (finding.ratio * medians[finding.beside], self._reason(finding))
            for finding in self._findings
            if finding.quantity is quantity and finding.ratio and finding.beside in medians
        }

    def _reason(self, finding: PublishedFinding) -> str:
        return f"{finding.ratio:g} × {self._labels.array(finding.beside)}, as measured here"

    def _percentiles(self) -> Iterator[Plot]:
        found = []
        for row in self._setting.rows:
            points = [(name, row.latency_seconds(field)) for name, field in _PERCENTILES]
            points.append(("max", row.latency_seconds("max_seconds")))
            usable = [(name, each) for name, each in points if each and each.median > 0]
            if len(usable) > 1:
                found.append((row, usable))
        if not found:
            return
        shown = [each.median * 1000 for _, points in found for _, each in points]
        traces = [_line(self.name(row), points, place) for place, (row, points) in enumerate(found)]
        layout = {
            "xaxis": {"type": "category", "title": {"text": "percentile of all I/Os of a repeat"}},
            "yaxis": log_axis(shown, "milliseconds"),
        }
        words = ", ".join(
            f"{self.name(row)} {dict(points)['p99'].median * 1000:,.4g}"
            for row, points in found
            if "p99" in dict(points)
        )
        summary = f"Latency percentiles, log scale; p99 in milliseconds: {words}."
        yield Plot("Latency percentiles", summary, traces, layout, max(300, _height(len(found))))


def _block_bytes(row: Row) -> float:
    section = row.section(row.cells[0])
    return section.io_bytes / section.total_ios


def _joined(
    rows: Sequence[Row],
    values: Sequence[Sequence[float]],
    theory: Sequence[float | None],
    published: dict[str, tuple[float, str]],
) -> list[Quantified]:
    predicted = theory or [None] * len(rows)
    return [
        Quantified(row, found, said, published.get(row.array))
        for row, found, said in zip(rows, values, predicted, strict=True)
        if found
    ]


def _repeats_trace(names: Sequence[str], shown: Sequence[Quantified]) -> Trace:
    points = [(name, value) for name, each in zip(names, shown, strict=True) for value in each.values]
    return strokes("each repeat", points, "%{x:.4~g}<extra>one repeat</extra>")


def _marks(
    names: Sequence[str],
    values: Sequence[float | None],
    what: str,
    role: str,
    symbol: str,
    reasons: Sequence[str] = (),
) -> Iterator[Trace]:
    points = [
        (name, short(value), plain(reason))
        for name, value, reason in zip(names, values, reasons or [""] * len(names), strict=True)
        if value
    ]
    if points:
        yield marks(what, points, role, symbol, hover="<b>%{y}</b><br>%{x:.4~g}<br>%{customdata}")


def _line(name: str, points: Sequence[tuple[str, Estimate]], place: int) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": plain(name),
        "x": [label for label, _ in points],
        "y": [short(each.median * 1000) for _, each in points],
        "customdata": [interval_words(each, scale=1000) for _, each in points],
        "marker": {"symbol": SYMBOLS[place % len(SYMBOLS)], "size": 9, "color": colour(place)},
        "line": {"width": 2, "color": colour(place)},
        "hovertemplate": "%{x}: %{y:.4~g} ms %{customdata}",
    }


def _height(count: int) -> int:
    return _FRAME_PIXELS + _BAR_PIXELS * count
