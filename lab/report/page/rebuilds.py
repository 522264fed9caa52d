"""Plots of rebuilds: how long they took, and what happened meanwhile on one time axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lab.report.cells import integrity_text
from lab.report.labels import Labels
from lab.report.page.plot import (
    DASHES,
    INK,
    MEASURED,
    SOFT,
    THEORY,
    Plot,
    Trace,
    categories,
    colour,
    interval_bars,
    plain,
    wrapped,
)
from lab.report.page.plot import number as short
from lab.results.record import RebuildRecord, ResultRecord
from lab.results.statistics import estimate
from lab.results.timeline import Timeline

_LANE_PIXELS = 130


def times_plot(record: ResultRecord, labels: Labels) -> Plot:
    """Rebuild times beside the predicted ones."""
    groups: dict[tuple[str, str], list[RebuildRecord]] = {}
    for rebuild in record.rebuilds:
        groups.setdefault((rebuild.array, rebuild.under_workload), []).append(rebuild)
    names = [wrapped(_what(labels, array, under), 20) for array, under in groups]
    found = [estimate([rebuild.rebuild_seconds for rebuild in group]) for group in groups.values()]
    medians = [short(each.median) for each in found]
    lows, highs = [short(each.low) for each in found], [short(each.high) for each in found]
    verdicts = [plain(integrity_text(group)) for group in groups.values()]
    measured: Trace = {
        "type": "bar",
        "orientation": "h",
        "name": "measured, median",
        "y": names,
        "x": medians,
        "error_x": interval_bars(medians, lows, highs),
        "marker": {"color": SOFT, "line": {"color": MEASURED, "width": 1.5}},
        "customdata": [
            f"[{each.low:.3g} – {each.high:.3g}] s, n = {each.n}; data {verdict}"
            for each, verdict in zip(found, verdicts, strict=True)
        ],
        "hovertemplate": "<b>%{y}</b><br>%{x:.3~g} s %{customdata}<extra>measured</extra>",
    }
    predicted = [
        (name, short(group[0].predicted_seconds))
        for name, group in zip(names, groups.values(), strict=True)
        if group[0].predicted_seconds
    ]
    theory: Trace = {
        "type": "scatter",
        "mode": "markers",
        "name": "theory",
        "y": [name for name, _ in predicted],
        "x": [value for _, value in predicted],
        "marker": {"symbol": "diamond-open", "size": 13, "color": THEORY, "line": {"width": 2.5, "color": THEORY}},
        "hovertemplate": "<b>%{y}</b><br>%{x:.3~g} s<extra>theory</extra>",
    }
    layout = {
        "xaxis": {"title": {"text": "seconds; less is better"}, "rangemode": "tozero"},
        "yaxis": categories(names),
        "bargap": 0.35,
    }
    words = ", ".join(f"{_what(labels, *key)} {each.median:.3g}" for key, each in zip(groups, found, strict=True))
    traces = [measured, theory] if predicted else [measured]
    return Plot("Rebuild time", f"Seconds, medians: {words}.", traces, layout, 110 + 36 * len(names))


def _what(labels: Labels, array: str, under: str) -> str:
    return f"{labels.array(array)}, under load" if under else labels.array(array)


def timeline_plot(rebuild: RebuildRecord, found: Timeline, labels: Labels) -> Plot:
    """The array, its members, the rebuild and the CPUs on one time axis, with what happened when."""
    lanes = list(_lanes(found))
    count = len(lanes)
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": "seconds on the machine's clock"}, "anchor": f"y{count}" if count > 1 else "y"},
        "shapes": [],
        "annotations": [],
        "hovermode": "x unified",
        "legend": {"orientation": "h", "y": -0.13, "yanchor": "top"},
    }
    traces: list[Trace] = []
    for place, (title, lines) in enumerate(lanes):
        axis = f"y{place + 1}" if place else "y"
        top, bottom = 1 - place / count, 1 - (place + 1) / count + 0.035
        layout[f"yaxis{place + 1}" if place else "yaxis"] = {
            "domain": [max(0.0, bottom), top],
            "title": {"text": title},
            "rangemode": "tozero",
            "automargin": True,
        }
        traces += [{**line, "yaxis": axis} for line in lines]
    for number, stretch in enumerate(found.stretches):
        layout["shapes"].append(_band(stretch.start_seconds, stretch.end_seconds, number))
        layout["annotations"].append(_name_of(stretch.start_seconds, stretch.name))
    name = _what(labels, rebuild.array, rebuild.under_workload)
    words = ", ".join(
        f"{stretch.name} from {stretch.start_seconds:.1f} s to {stretch.end_seconds:.1f} s"
        for stretch in found.stretches
    )
    return Plot(
        f"{name}: a rebuild, second by second",
        f"Repeat {rebuild.repeat + 1}, rebuilt in {rebuild.rebuild_seconds:.1f} s. {words[:1].upper()}{words[1:]}.",
        traces,
        layout,
        110 + _LANE_PIXELS * count,
        is_wide=True,
    )


def _lanes(found: Timeline) -> Iterator[tuple[str, list[Trace]]]:
    """Title and lines of each lane that has something to show."""
    times = [round(value, 2) for value in found.seconds]
    if any(value for value in (*found.read_iops, *found.write_iops) if value):
        lines = [
            _line("reads of the array", times, found.read_iops, 0, "IOPS"),
            _line("writes of the array", times, found.write_iops, 1, "IOPS"),
        ]
        yield "IOPS", lines
        waits = [None if value is None else value * 1000 for value in found.wait_seconds]
        if any(waits):
            yield "latency, ms", [_line("mean latency", times, waits, 2, "ms")]
    rebuilt = [None if value is None else value * 100 for value in found.rebuilt_fraction]
    yield "rebuilt, %", [_line("rebuilt", times, rebuilt, 3, "%")]
    members: list[Trace] = []
    for place, member in enumerate(found.members):
        for what, column, dash in (
            ("reads", member.read_bytes_per_second, DASHES[0]),
            ("writes", member.written_bytes_per_second, DASHES[2]),
        ):
            if any(column):
                values = [None if value is None else value / 1e6 for value in column]
                members.append(_line(f"{member.name} {what}", times, values, place, "MB/s", dash))
    if members:
        yield "members, MB/s", members
    busy = [None if value is None else value * 100 for value in found.busy_fraction]
    if any(busy):
        yield "CPU busy, %", [_line("all CPUs", times, busy, 6, "%")]


def _line(
    name: str, times: Sequence[float], values: Sequence[float | None], place: int, unit: str, dash: str = "solid"
) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(name),
        "x": times,
        "y": [None if value is None else short(value) for value in values],
        "line": {"color": colour(place), "width": 1.5, "dash": dash},
        "hovertemplate": f"%{{y:.4~g}} {unit}",
    }


def _band(start: float, end: float, number: int) -> dict[str, Any]:
    return {
        "type": "rect",
        "xref": "x",
        "yref": "paper",
        "x0": start,
        "x1": end,
        "y0": 0,
        "y1": 1,
        "fillcolor": f"@band{number % 4 + 1}",
        "line": {"width": 0},
        "layer": "below",
    }


def _name_of(start: float, name: str) -> dict[str, Any]:
    return {
        "text": plain(name),
        "xref": "x",
        "yref": "paper",
        "x": start,
        "y": 1,
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"color": INK, "size": 12},
    }
