"""The plots of the report page. They show levels side by side, figures by chunk size, rebuilds, and ratios."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from lab.compare import PlatformComparison
from lab.experiments.published import Published, Quantity
from lab.report.collected import RatioDistribution
from lab.report.page.blocks import (
    DASHES,
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
    log_axis,
    median_bars,
    plain,
    scatter,
    strokes,
    wrapped,
)
from lab.report.page.blocks import number as short
from lab.report.tables import ComparedFinding, ResultLabels, Theory, integrity_text, is_large
from lab.results.record import DEGRADED, HEALTHY, REBUILDING, RebuildRecord, ResultRecord, Timeline
from lab.results.rows import Row, grouped
from lab.results.statistics import Estimate, estimate
from lab.units import human_bytes

_PERCENTILES = {
    "p50": "p50_seconds",
    "p95": "p95_seconds",
    "p99": "p99_seconds",
    "p99.9": "p999_seconds",
    "max": "max_seconds",
}
_BAR_PIXELS, _FRAME_PIXELS = 34, 110


class LevelPlots:
    """The plots that show the rows of one workload and direction."""

    def __init__(
        self, rows: Sequence[Row], labels: ResultLabels, published: Published | None, theory: Theory | None
    ) -> None:
        self._rows = rows
        self._labels = labels
        self._theory = theory
        findings = published.findings if published else ()
        self._findings = [
            finding
            for finding in findings
            if (finding.workload, finding.direction) == (rows[0].workload, rows[0].direction) and finding.ratio
        ]
        self._has_phases = len({row.phase for row in rows}) > 1

    def plots(self) -> Iterator[Plot]:
        yield self._speed()
        yield self._mean_time()
        yield from self._percentiles()
        yield from self._cpu()

    def name(self, row: Row) -> str:
        label = self._labels.array(row.array)
        return f"{label}, {row.phase}" if self._has_phases or row.phase != HEALTHY else label

    def _speed(self) -> Plot:
        if is_large(self._rows[0]):
            values = [row.values(lambda section: section.bandwidth_bytes_per_second / 1e6) for row in self._rows]
            first = [row.section(row.cells[0]) for row in self._rows]
            # An imported record may contain a rate without I/Os.
            scales = [section.io_bytes / section.total_ios / 1e6 if section.total_ios else 0.0 for section in first]
            marks = self._published(Quantity.BANDWIDTH, values) or self._published(Quantity.IOPS, values)
            unit, what = "MB/s", "Throughput"
        else:
            values = [row.values(lambda section: section.iops) for row in self._rows]
            scales = [1.0] * len(self._rows)
            marks = self._published(Quantity.IOPS, values)
            unit, what = "I/Os per second (IOPS)", "Speed"
        theory = [
            row.predicted_iops * scale or None if row.predicted_iops else None
            for row, scale in zip(self._rows, scales, strict=True)
        ]
        if not any(theory):
            theory = self._relative_theory(values)
        return self._bars(what, unit, "higher is better", values, theory, marks)

    def _relative_theory(self, values: Sequence[Sequence[float]]) -> list[float | None]:
        """Multiply predicted ratios to the first array by its measured value, because the disks' speed is unknown."""
        if self._theory is None:
            return [None] * len(self._rows)
        predicted = [
            self._theory.relative_iops(row.array, row.workload) if row.phase == HEALTHY else None for row in self._rows
        ]
        first = predicted[0]
        if not first or not values[0]:
            return [None] * len(self._rows)
        here = estimate(values[0]).median
        return [None, *(iops / first * here if iops else None for iops in predicted[1:])]

    def _mean_time(self) -> Plot:
        rows = self._rows
        values = [row.values(lambda section: section.mean_seconds * 1000) for row in rows]
        in_flight = self._labels.in_flight(rows[0].workload)
        # By Little's law, I/Os in flight = IOPS × latency in seconds.
        theory = [1000 * in_flight / row.predicted_iops if in_flight and row.predicted_iops else None for row in rows]
        marks = self._published(Quantity.MEAN_LATENCY, values)
        return self._bars("Mean latency", "milliseconds", "lower is better", values, theory, marks)

    def _cpu(self) -> Iterator[Plot]:
        unit, figure = "CPU µs per I/O", "cpu_microseconds_per_io"
        if is_large(self._rows[0]):
            unit, figure = "CPU seconds per GiB", "cpu_seconds_per_gib"
        values = [[cost for cost in row.cpu_by_repeat(figure).values() if cost > 0] for row in self._rows]
        if any(values):
            marks = self._published(Quantity.CPU_PER_GIB, values)
            note = "all CPUs and md's threads, minus the idle machine"
            yield self._bars("CPU cost", unit, note, values, [None] * len(values), marks)

    def _bars(
        self,
        what: str,
        unit: str,
        note: str,
        values: Sequence[Sequence[float]],
        theory: Sequence[float | None],
        published: dict[str, tuple[float, str]],
    ) -> Plot:
        shown = [each for each in zip(self._rows, values, theory, strict=True) if each[1]]
        names = [wrapped(self.name(row), 20) for row, _, _ in shown]
        found = [row.estimate(repeats) for row, repeats, _ in shown]
        hover_texts = [interval_words(each, digits=4) for each in found]
        traces = [median_bars(names, found, hover_texts, f"%{{x:.4~g}} {plain(unit)}<br>%{{customdata}}")]
        if any(each.n > 1 for each in found):
            points = [(name, value) for name, (_, repeats, _) in zip(names, shown, strict=True) for value in repeats]
            traces.append(strokes("each repeat", points, "%{x:.4~g}<extra>one repeat</extra>"))
        hover = "<b>%{y}</b><br>%{x:.4~g}<br>%{customdata}"
        theories = [(name, value, "") for name, (_, _, value) in zip(names, shown, strict=True)]
        ratios = [
            (name, *published[row.array])
            for name, (row, _, _) in zip(names, shown, strict=True)
            if row.array in published
        ]
        traces += [
            _points("theory", theories, THEORY, "diamond-open", hover),
            _points("published ratio", ratios, PUBLISHED, "star-open", hover),
        ]
        drawn = [trace for trace in traces if trace["x"]]
        medians = [(self.name(row), each.median) for (row, _, _), each in zip(shown, found, strict=True)]
        words = ", ".join(
            f"{name} {median:,.0f}" if median >= 100 else f"{name} {median:.3g}" for name, median in medians
        )
        summary = f"{what}, {unit.removesuffix(' (IOPS)')}; medians: {words}."
        return Plot(what, summary, drawn, _bars_layout(f"{unit}; {note}", names), _height(len(shown)))

    def _published(self, quantity: Quantity, values: Sequence[Sequence[float]]) -> dict[str, tuple[float, str]]:
        """Map each array to the published ratio times the other array's measured value, and to the calculation as text.

        Published absolute figures are not shown, because they were measured on a different machine.
        """
        medians = {row.array: estimate(found).median for row, found in zip(self._rows, values, strict=True) if found}
        return {
            finding.array: (
                finding.ratio * medians[finding.beside],
                plain(f"{finding.ratio:g} × {self._labels.array(finding.beside)}, as measured here"),
            )
            for finding in self._findings
            if finding.quantity is quantity and finding.ratio and finding.beside in medians
        }

    def _percentiles(self) -> Iterator[Plot]:
        found = []
        for row in self._rows:
            points = [(name, row.latency_seconds(field)) for name, field in _PERCENTILES.items()]
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


def _line(name: str, points: Sequence[tuple[str, Estimate]], place: int) -> Trace:
    return scatter(
        name,
        [label for label, _ in points],
        [short(each.median * 1000) for _, each in points],
        "%{x}: %{y:.4~g} ms %{customdata}",
        mode="lines+markers",
        customdata=[interval_words(each, scale=1000) for _, each in points],
        marker={"symbol": SYMBOLS[place % len(SYMBOLS)], "size": 9, "color": colour(place)},
        line={"width": 2, "color": colour(place)},
    )


def _height(count: int) -> int:
    return _FRAME_PIXELS + _BAR_PIXELS * count


def _bars_layout(title: str, names: Sequence[str]) -> dict[str, Any]:
    return {"xaxis": {"title": {"text": title}, "rangemode": "tozero"}, "yaxis": categories(names), "bargap": 0.35}


_Sweep = list[tuple[int, Row]]


def chunk_plots(record: ResultRecord, groups: Iterable[Sequence[Row]], labels: ResultLabels) -> Iterator[Plot]:
    """Yield a plot for each workload that was measured on several arrays that differ only in their chunk size."""
    arrays = {array.name: array for array in record.arrays}
    for rows in groups:
        sweeps: dict[str, _Sweep] = {}
        for row in rows:
            array = arrays.get(row.array)
            if array and array.chunk_bytes and row.phase == HEALTHY:
                family = f"{array.level} of {len(array.members)}{f', {array.layout}' if array.layout else ''}"
                sweeps.setdefault(family, []).append((array.chunk_bytes, row))
        swept = {name: sorted(sweep, key=lambda each: each[0]) for name, sweep in sweeps.items()}
        swept = {name: sweep for name, sweep in swept.items() if len({chunk for chunk, _ in sweep}) > 1}
        if swept:
            yield _chunk_plot(rows[0], swept, labels)


def _chunk_plot(first: Row, swept: dict[str, _Sweep], labels: ResultLabels) -> Plot:
    in_megabytes = is_large(first)
    traces, words = [], []
    for place, (family, sweep) in enumerate(swept.items()):
        chunks = [human_bytes(chunk) for chunk, _ in sweep]
        found = [row.bytes_per_second if in_megabytes else row.iops for _, row in sweep]
        traces.append(line(family, chunks, found, place, 1e6 if in_megabytes else 1))
        words.append(f"{family}: {', '.join(chunks)}")
        predicted = [row.predicted_iops for _, row in sweep]
        if all(predicted) and not in_megabytes:
            marker = _open_mark(THEORY, "diamond-open")
            values = [short(value) for value in predicted if value]
            traces.append(scatter(f"theory, {family}", chunks, values, "%{x}: %{y:.4~g}", marker=marker))
    unit = "MB/s" if in_megabytes else "I/Os per second (IOPS)"
    layout = {
        "xaxis": {"type": "category", "title": {"text": "chunk size"}},
        "yaxis": {"title": {"text": unit}, "rangemode": "tozero"},
    }
    title = f"{labels.workload(first.workload)}: {first.direction}s"
    return Plot(title, f"By chunk size, in {unit}. {'; '.join(words)}.", traces, layout)


def line(name: str, places: Sequence[str], found: Sequence[Estimate], place: int, scale: float) -> Trace:
    """Return a line of medians with intervals. The index ``place`` of the line selects its colour, dash and symbol."""
    return scatter(
        name,
        places,
        [short(each.median / scale) for each in found],
        "%{x}: %{y:.4~g}",
        mode="lines+markers",
        error_y=interval_bars(found, scale=1 / scale, role=colour(place)),
        line={"color": colour(place), "width": 2, "dash": DASHES[place % len(DASHES)]},
        marker={"color": colour(place), "symbol": SYMBOLS[place % len(SYMBOLS)], "size": 9},
    )


_LANE_PIXELS, _GAP = 120, 0.04


def times_plot(record: ResultRecord, labels: ResultLabels) -> Plot:
    """Plot rebuild times beside their predictions."""
    groups = grouped(record.rebuilds, lambda rebuild: (rebuild.array, rebuild.under_workload))
    names = [wrapped(_what(labels, array, under), 20) for array, under in groups]
    found = [estimate([rebuild.rebuild_seconds for rebuild in group]) for group in groups.values()]
    verdicts = [plain(integrity_text(group)) for group in groups.values()]
    hover_texts = [f"{interval_words(each)}; data {verdict}" for each, verdict in zip(found, verdicts, strict=True)]
    measured = median_bars(names, found, hover_texts, "%{x:.3~g} s %{customdata}")
    predicted = [(name, group[0].predicted_seconds, "") for name, group in zip(names, groups.values(), strict=True)]
    theory = _points("theory", predicted, THEORY, "diamond-open", "<b>%{y}</b><br>%{x:.3~g} s")
    words = ", ".join(f"{_what(labels, *key)} {each.median:.3g}" for key, each in zip(groups, found, strict=True))
    traces = [measured, theory] if theory["x"] else [measured]
    layout = _bars_layout("seconds; lower is better", names)
    return Plot("Rebuild time", f"Seconds, medians: {words}.", traces, layout, 110 + 36 * len(names))


def _what(labels: ResultLabels, array: str, under: str) -> str:
    return f"{labels.array(array)}, under load" if under else labels.array(array)


def timeline_plot(rebuild: RebuildRecord, found: Timeline, labels: ResultLabels) -> Plot:
    """Plot the array, its members, the rebuild and the CPUs on one time axis, with the events."""
    lanes = list(_lanes(found))
    height = (1 - _GAP * (len(lanes) - 1)) / len(lanes)
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": "seconds on the machine's clock"}, "anchor": _axis(len(lanes) - 1)},
        "shapes": [],
        "annotations": [],
        "hovermode": "x unified",
    }
    traces: list[Trace] = []
    for place, (title, lines) in enumerate(lanes):
        top = 1 - place * (height + _GAP)
        end = str(place + 1) if place else ""
        domain = [max(0.0, top - height), top]
        layout[f"yaxis{end}"] = {"domain": domain, "title": {"text": title}, "rangemode": "tozero"}
        layout[f"legend{end}"] = _legend(top)
        traces += [{**line, "yaxis": _axis(place), "legend": f"legend{end}"} for line in lines]
    for number, stretch in enumerate(found.stretches):
        band = {"type": "rect", "fillcolor": f"@band{number % 4 + 1}", "line": {"width": 0}, "layer": "below"}
        layout["shapes"].append(_over_all(stretch.start_seconds, stretch.end_seconds) | band)
        start = {"x": stretch.start_seconds, "xref": "x", "xanchor": "left"}
        above = {"y": 1, "yref": "paper", "yanchor": "bottom"}
        font = {"color": INK, "size": 12}
        layout["annotations"].append({"text": plain(stretch.name), **start, **above, "showarrow": False, "font": font})
    events = _events(found)
    layout["shapes"] += [_dotted(seconds) for seconds, _ in events]
    listed = "; ".join(f"{what} at {seconds:.1f} s" for seconds, what in events)
    return Plot(
        f"{_what(labels, rebuild.array, rebuild.under_workload)}: a rebuild, second by second",
        f"Repeat {rebuild.repeat + 1}, rebuilt in {rebuild.rebuild_seconds:.1f} s. {listed[:1].upper()}{listed[1:]}.",
        traces,
        layout,
        110 + _LANE_PIXELS * len(lanes),
        is_wide=True,
    )


def _axis(place: int) -> str:
    return f"y{place + 1}" if place else "y"


def _events(found: Timeline) -> list[tuple[float, str]]:
    """Return the events of the rebuild, which are shown as dotted lines and in the caption."""
    events = []
    for stretch in found.stretches:
        if stretch.name == DEGRADED:
            events.append((stretch.start_seconds, "a member has been removed"))
        if stretch.name == REBUILDING:
            events += [(stretch.start_seconds, "a blank disk is added"), (stretch.end_seconds, "the rebuild ends")]
    return events


def _lanes(found: Timeline) -> Iterator[tuple[str, list[Trace]]]:
    times = [round(value, 2) for value in found.seconds]
    if any(value for value in (*found.read_iops, *found.write_iops) if value):
        reads = _rebuilds_line("reads", times, found.read_iops, 0, "IOPS")
        yield "array, IOPS", [reads, _rebuilds_line("writes", times, found.write_iops, 1, "IOPS", DASHES[1])]
        waits = _scaled(found.wait_seconds, 1000)
        if any(waits):
            yield "latency, ms", [_rebuilds_line("mean latency", times, waits, 2, "ms")]
    yield "rebuilt, %", [_rebuilds_line("rebuilt", times, _scaled(found.rebuilt_fraction, 100), 3, "%")]
    for title, pick in (("read, MB/s", "read_bytes_per_second"), ("written, MB/s", "written_bytes_per_second")):
        columns = [(member.name, _scaled(getattr(member, pick), 1e-6)) for member in found.members]
        if any(any(column) for _, column in columns):
            yield (
                title,
                [
                    _rebuilds_line(name, times, column, place, "MB/s", DASHES[place % len(DASHES)])
                    for place, (name, column) in enumerate(columns)
                ],
            )
    busy = _scaled(found.busy_fraction, 100)
    if any(busy):
        yield "CPU busy, %", [_rebuilds_line("all CPUs", times, busy, 6, "%")]


def _scaled(values: Sequence[float | None], factor: float) -> list[float | None]:
    return [None if value is None else value * factor for value in values]


def _rebuilds_line(
    name: str, times: Sequence[float], values: Sequence[float | None], place: int, unit: str, dash: str = DASHES[0]
) -> Trace:
    shown = [None if value is None else short(value) for value in values]
    line_style = {"color": colour(place), "width": 1.5, "dash": dash}
    return scatter(name, times, shown, f"%{{y:.4~g}} {unit}", mode="lines", line=line_style)


def _legend(top: float) -> dict[str, Any]:
    """Return a legend that is shown inside the lane, because a colour means something different in each lane."""
    return {
        "orientation": "h",
        "x": 1,
        "xanchor": "right",
        "y": top,
        "yanchor": "top",
        "bgcolor": "@veil",
        "font": {"size": 11},
    }


def _dotted(place: float) -> dict[str, Any]:
    return {**_over_all(place, place), "type": "line", "line": {"color": INK, "width": 1, "dash": "dot"}}


def _over_all(start: float, end: float) -> dict[str, Any]:
    return {"xref": "x", "yref": "paper", "x0": start, "x1": end, "y0": 0, "y1": 1}


_ROW_PIXELS, _LINE_PIXELS, _RATIO_FRAME_PIXELS = 40, 18, 120
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_LEAST_SPAN = (0.5, 2.0)
_EDGE = 1.08
"""Factor by which the axis extends beyond the outermost ticks."""


def ratio_axis(title: str, values: Iterable[float]) -> dict[str, Any]:
    """Return a logarithmic axis for ratios. It covers at least 0.5 to 2, so that a difference of 5 % looks small."""
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
    """Plot the published, the predicted and the measured ratio of each finding on one axis."""
    names = [
        wrapped(f"{n}. {labels.array(each.finding.array)} ÷ {labels.array(each.finding.beside)}", 24)
        for n, each in enumerate(found, 1)
    ]
    rows = [(name, each, plain(each.finding.says)) for name, each in zip(names, found, strict=True)]
    measured = [(name, each.measured, text) for name, each, text in rows]
    published = [(name, each.finding.ratio, text) for name, each, text in rows]
    theory = [(name, each.theory, text) for name, each, text in rows]
    hover = "%{customdata}<br><b>%{x:.3~g}</b>"
    traces = [
        _points("published", published, PUBLISHED, "star-open", hover),
        _points("theory", theory, THEORY, "diamond-open", hover),
        _intervals("measured here [interval]", measured, MEASURED, "circle"),
    ]
    single = [value for each in found for value in (each.finding.ratio, each.theory) if value]
    return Plot(
        "Published, theory, measured",
        f"{len(found)} findings as ratios; the table below describes each.",
        [trace for trace in traces if trace["x"]],
        _ratio_layout(
            "ratio, log scale; dotted: no difference", (*single, *_ends(each.measured for each in found)), names
        ),
        _RATIO_FRAME_PIXELS + sum(max(_ROW_PIXELS, 22 + _LINE_PIXELS * name.count("<br>")) for name in names),
        is_wide=True,
    )


def _ratio_layout(title: str, values: Iterable[float], names: Sequence[str]) -> dict[str, Any]:
    return {"xaxis": ratio_axis(title, values), "yaxis": categories(names), "shapes": [_dotted(1)]}


def _ends(estimates: Iterable[Estimate | None]) -> Iterator[float]:
    """Yield the values that a plot of the estimates shows, which are the medians and the ends of the intervals."""
    for each in estimates:
        if each:
            yield from (each.low, each.median, each.high)


def _points(what: str, points: Iterable[tuple[str, float | None, str]], role: str, symbol: str, hover: str) -> Trace:
    """Return a mark for each value.

    Each point has a name, a value or None, and a text for ``customdata`` in ``hover``.
    """
    known = [(name, short(value), text) for name, value, text in points if value]
    return scatter(
        what,
        [value for _, value, _ in known],
        [name for name, _, _ in known],
        f"{hover}<extra>{plain(what)}</extra>",
        customdata=[text for _, _, text in known],
        marker=_open_mark(role, symbol),
    )


def _open_mark(role: str, symbol: str) -> dict[str, Any]:
    return {"symbol": symbol, "size": 13, "color": role, "line": {"width": 2.5, "color": role}}


def _intervals(what: str, points: Sequence[tuple[str, Estimate | None, str]], role: str, symbol: str) -> Trace:
    positive = [(name, each, text) for name, each, text in points if each and each.median > 0]
    return scatter(
        what,
        [short(each.median) for _, each, _ in positive],
        [name for name, _, _ in positive],
        "%{customdata[0]}<br><b>%{x:.3~g}</b> %{customdata[1]}<extra>" + plain(what) + "</extra>",
        customdata=[[text, interval_words(each)] for _, each, text in positive],
        error_x=interval_bars([each for _, each, _ in positive], role=role),
        marker={"symbol": symbol, "size": 10, "color": role},
    )


def platform_plots(found: PlatformComparison) -> Iterator[Plot]:
    """Yield a plot for each dimensionless figure, with all machines side by side."""
    machines = [platform.name for platform in found.platforms]
    for measure, rows in grouped(found.rows, lambda row: row.measure).items():
        names = [wrapped(row.what, 24) for row in rows]
        traces = []
        for place, machine in enumerate(machines):
            values = [_without_interval(row.values[place]) for row in rows]
            points = [(name, value, plain(row.what)) for name, value, row in zip(names, values, rows, strict=True)]
            traces.append(_intervals(machine, points, colour(place), SYMBOLS[place % len(SYMBOLS)]))
        title = f"{measure.value[0].upper()}{measure.value[1:]}"
        yield Plot(
            title,
            f"{title}, for {len(machines)} machines: {'; '.join(machines)}.",
            traces,
            _ratio_layout(f"{measure.value}, log scale", _ends(value for row in rows for value in row.values), names),
            _RATIO_FRAME_PIXELS + _ROW_PIXELS * len(rows),
            is_wide=len(rows) > 8,
        )


def _without_interval(found: Estimate | None) -> Estimate | None:
    return found if found is None or found.has_enough else replace(found, low=found.median, high=found.median)


def distribution_plots(found: Sequence[RatioDistribution]) -> Iterator[Plot]:
    """Yield a box plot for each workload and direction.

    A box needs only five numbers, however many results there are.
    """
    for (workload, direction), group in grouped(found, lambda each: (each.workload, each.direction)).items():
        yield Plot(
            f"{workload}, {direction}s",
            "Over all results; medians: " + ", ".join(f"{each.what} {each.quantile(0.5):.2f}" for each in group) + ".",
            [_box(group)],
            _ratio_layout(
                "ratio within each result, log scale; box: middle half, lines: all",
                (each.quantile(part) for each in group for part in (0.0, 1.0)),
                [wrapped(each.what, 18) for each in group],
            )
            | {"showlegend": False},
            _RATIO_FRAME_PIXELS + _ROW_PIXELS * len(group),
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
