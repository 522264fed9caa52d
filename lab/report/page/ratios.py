"""Plots of ratios: findings of a study, comparisons of machines, and distributions over many results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from lab.compare.platforms import PlatformComparison, PlatformMeasure, PlatformRow
from lab.report.cells import ResultLabels
from lab.report.collected import RatioDistribution
from lab.report.findings import ComparedFinding
from lab.report.page.plot import (
    INK,
    MEASURED,
    PUBLISHED,
    SYMBOLS,
    THEORY,
    Plot,
    Trace,
    categories,
    colour,
    interval_bars,
    interval_words,
    marks,
    plain,
    wrapped,
)
from lab.report.page.plot import number as short
from lab.results.statistics import Estimate

_ROW_PIXELS, _LINE_PIXELS, _FRAME_PIXELS = 40, 18, 120
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_LEAST_SPAN = (0.5, 2.0)
_EDGE = 1.08
"""Factor by which the axis extends beyond the outermost ticks."""
ONE = {
    "type": "line",
    "xref": "x",
    "yref": "paper",
    "x0": 1,
    "x1": 1,
    "y0": 0,
    "y1": 1,
    "line": {"color": INK, "width": 1, "dash": "dot"},
}
"""A vertical line at ratio 1."""


def ratio_axis(title: str, values: Iterable[float]) -> dict[str, Any]:
    """A logarithmic axis for ratios, on which half and double are equally far from 1.

    It covers at least 0.5 to 2, so that it has three ticks and a difference of 5 % looks small.
    """
    shown = [value for value in values if value > 0 and math.isfinite(value)]
    lowest, highest = min((_LEAST_SPAN[0], *shown)), max((_LEAST_SPAN[1], *shown))
    low = max((tick for tick in _TICKS if tick <= lowest), default=lowest)
    high = min((tick for tick in _TICKS if tick >= highest), default=highest)
    return {
        "type": "log",
        "title": {"text": title},
        "range": [round(math.log10(low / _EDGE), 4), round(math.log10(high * _EDGE), 4)],
        "tickvals": list(_TICKS),
        "ticktext": [f"{value:g}×" for value in _TICKS],
    }


def findings_plot(found: Sequence[ComparedFinding], labels: ResultLabels) -> Plot:
    """Published, predicted and measured ratio of each finding on one axis."""
    names = [
        wrapped(f"{n}. {labels.array(each.finding.array)} ÷ {labels.array(each.finding.beside)}", 24)
        for n, each in enumerate(found, 1)
    ]
    said = [plain(each.finding.says) for each in found]
    measured = [(name, each.measured, text) for name, each, text in zip(names, found, said, strict=True)]
    traces = [
        _points("published", names, [each.finding.ratio for each in found], said, PUBLISHED, "star-open"),
        _points("theory", names, [each.theory for each in found], said, THEORY, "diamond-open"),
        _intervals("measured here [interval]", measured, MEASURED, "circle"),
    ]
    summary = f"{len(found)} findings as ratios; each is told in the table below."
    layout = {
        "xaxis": ratio_axis("ratio, log scale; dotted: no difference", _of_findings(found)),
        "yaxis": categories(names),
        "shapes": [ONE],
    }
    return Plot(
        "Published, theory, measured",
        summary,
        [trace for trace in traces if trace["x"]],
        layout,
        _FRAME_PIXELS + sum(max(_ROW_PIXELS, 22 + _LINE_PIXELS * name.count("<br>")) for name in names),
        is_wide=True,
    )


def _of_findings(found: Sequence[ComparedFinding]) -> Iterator[float]:
    for each in found:
        yield from (value for value in (each.finding.ratio, each.theory) if value)
        yield from _ends([each.measured])


def _ends(estimates: Iterable[Estimate | None]) -> Iterator[float]:
    """The values that a plot of the estimates shows: medians and ends of intervals."""
    for each in estimates:
        if each:
            yield from (each.low, each.median, each.high)


def _points(
    what: str, names: Sequence[str], values: Sequence[float | None], said: Sequence[str], role: str, symbol: str
) -> Trace:
    points = [(name, short(value), text) for name, value, text in zip(names, values, said, strict=True) if value]
    return marks(what, points, role, symbol, hover="%{customdata}<br><b>%{x:.3~g}</b>")


def _intervals(what: str, points: Sequence[tuple[str, Estimate | None, str]], role: str, symbol: str) -> Trace:
    kept = [(name, each, text) for name, each, text in points if each and each.median > 0]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(what),
        "y": [name for name, _, _ in kept],
        "x": [short(each.median) for _, each, _ in kept],
        "customdata": [[text, interval_words(each)] for _, each, text in kept],
        "error_x": interval_bars([each for _, each, _ in kept], role=role),
        "marker": {"symbol": symbol, "size": 10, "color": role},
        "hovertemplate": "%{customdata[0]}<br><b>%{x:.3~g}</b> %{customdata[1]}<extra>" + plain(what) + "</extra>",
    }


def platform_plots(found: PlatformComparison) -> Iterator[Plot]:
    """One plot per dimensionless figure, with all machines."""
    for measure in PlatformMeasure:
        rows = [row for row in found.rows if row.measure is measure]
        if rows:
            yield _platform_plot(measure, rows, [platform.name for platform in found.platforms])


def _platform_plot(measure: PlatformMeasure, rows: Sequence[PlatformRow], machines: Sequence[str]) -> Plot:
    names = [wrapped(row.what, 24) for row in rows]
    traces = []
    for place, machine in enumerate(machines):
        values = [_without_interval(row.values[place]) for row in rows]
        points = [(name, value, plain(row.what)) for name, value, row in zip(names, values, rows, strict=True)]
        traces.append(_intervals(machine, points, colour(place), SYMBOLS[place % len(SYMBOLS)]))
    layout = {
        "xaxis": ratio_axis(f"{measure.value}, log scale", _ends(value for row in rows for value in row.values)),
        "yaxis": categories(names),
        "shapes": [ONE],
    }
    summary = f"{measure.value[0].upper()}{measure.value[1:]}, for {len(machines)} machines: {'; '.join(machines)}."
    return Plot(
        f"{measure.value[0].upper()}{measure.value[1:]}",
        summary,
        traces,
        layout,
        _FRAME_PIXELS + _ROW_PIXELS * len(rows),
        is_wide=len(rows) > 8,
    )


def _without_interval(found: Estimate | None) -> Estimate | None:
    """The estimate reduced to its median if it has too few repeats."""
    return found if found is None or found.has_enough else replace(found, low=found.median, high=found.median)


def distribution_plots(found: Sequence[RatioDistribution]) -> Iterator[Plot]:
    """A box plot for each workload and direction; each box needs five numbers, regardless of the number of results."""
    settings = dict.fromkeys((each.workload, each.direction) for each in found)
    for workload, direction in settings:
        group = [each for each in found if (each.workload, each.direction) == (workload, direction)]
        yield Plot(
            f"{workload}, {direction}s",
            "Over all results; medians: " + ", ".join(f"{each.what} {each.quantile(0.5):.2f}" for each in group) + ".",
            [_box(group)],
            {
                "xaxis": ratio_axis(
                    "ratio within each result, log scale; box: middle half, lines: all",
                    (each.quantile(part) for each in group for part in (0.0, 1.0)),
                ),
                "yaxis": categories([wrapped(each.what, 18) for each in group]),
                "shapes": [ONE],
                "showlegend": False,
            },
            _FRAME_PIXELS + _ROW_PIXELS * len(group),
        )


def _box(group: Sequence[RatioDistribution]) -> Trace:
    def each(fraction: float) -> list[float]:
        return [short(one.quantile(fraction)) for one in group]

    return {
        "type": "box",
        "orientation": "h",
        "y": [wrapped(one.what, 18) for one in group],
        "lowerfence": each(0),
        "q1": each(0.25),
        "median": each(0.5),
        "q3": each(0.75),
        "upperfence": each(1),
        "line": {"color": MEASURED},
        "fillcolor": "@soft",
        "name": "results",
    }
