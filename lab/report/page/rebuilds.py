"""Plots of rebuilds: their duration, and the activity of array and members on one time axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lab.experiments.schedule import DEGRADED, REBUILDING
from lab.report.cells import ResultLabels, integrity_text
from lab.report.page.plot import (
    DASHES,
    INK,
    THEORY,
    Plot,
    Trace,
    categories,
    colour,
    interval_words,
    median_bars,
    plain,
    wrapped,
)
from lab.report.page.plot import number as short
from lab.results.record import RebuildRecord, ResultRecord
from lab.results.statistics import estimate
from lab.results.timeline import Timeline

_LANE_PIXELS, _GAP = 120, 0.04


def times_plot(record: ResultRecord, labels: ResultLabels) -> Plot:
    """Rebuild times beside their predictions."""
    groups: dict[tuple[str, str], list[RebuildRecord]] = {}
    for rebuild in record.rebuilds:
        groups.setdefault((rebuild.array, rebuild.under_workload), []).append(rebuild)
    names = [wrapped(_what(labels, array, under), 20) for array, under in groups]
    found = [estimate([rebuild.rebuild_seconds for rebuild in group]) for group in groups.values()]
    verdicts = [plain(integrity_text(group)) for group in groups.values()]
    said = [f"{interval_words(each)}; data {verdict}" for each, verdict in zip(found, verdicts, strict=True)]
    measured = median_bars(names, found, said, "%{x:.3~g} s %{customdata}")
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


def _what(labels: ResultLabels, array: str, under: str) -> str:
    return f"{labels.array(array)}, under load" if under else labels.array(array)


def timeline_plot(rebuild: RebuildRecord, found: Timeline, labels: ResultLabels) -> Plot:
    """Array, members, rebuild and CPUs on one time axis, with the events."""
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
        layout["shapes"].append(_band(stretch.start_seconds, stretch.end_seconds, number))
        layout["annotations"].append(_name_of(stretch.start_seconds, stretch.name))
    events = _events(found)
    layout["shapes"] += [
        {**_over_all(seconds, seconds), "type": "line", "line": {"color": INK, "width": 1, "dash": "dot"}}
        for seconds, _ in events
    ]
    told = "; ".join(f"{what} at {seconds:.1f} s" for seconds, what in events)
    return Plot(
        f"{_what(labels, rebuild.array, rebuild.under_workload)}: a rebuild, second by second",
        f"Repeat {rebuild.repeat + 1}, rebuilt in {rebuild.rebuild_seconds:.1f} s. {told[:1].upper()}{told[1:]}.",
        traces,
        layout,
        110 + _LANE_PIXELS * len(lanes),
        is_wide=True,
    )


def _axis(place: int) -> str:
    return f"y{place + 1}" if place else "y"


def _events(found: Timeline) -> list[tuple[float, str]]:
    """The events of the rebuild, shown as dotted lines and in the caption."""
    events = []
    for stretch in found.stretches:
        if stretch.name == DEGRADED:
            events.append((stretch.start_seconds, "a member has been removed"))
        if stretch.name == REBUILDING:
            events += [(stretch.start_seconds, "a blank disk is added"), (stretch.end_seconds, "it is rebuilt")]
    return events


def _lanes(found: Timeline) -> Iterator[tuple[str, list[Trace]]]:
    """Title and traces of each lane that has data."""
    times = [round(value, 2) for value in found.seconds]
    if any(value for value in (*found.read_iops, *found.write_iops) if value):
        reads = _line("reads", times, found.read_iops, 0, "IOPS")
        yield "array, IOPS", [reads, _line("writes", times, found.write_iops, 1, "IOPS", DASHES[1])]
        waits = _scaled(found.wait_seconds, 1000)
        if any(waits):
            yield "latency, ms", [_line("mean latency", times, waits, 2, "ms")]
    yield "rebuilt, %", [_line("rebuilt", times, _scaled(found.rebuilt_fraction, 100), 3, "%")]
    for title, pick in (("read, MB/s", "read_bytes_per_second"), ("written, MB/s", "written_bytes_per_second")):
        columns = [(member.name, _scaled(getattr(member, pick), 1e-6)) for member in found.members]
        if any(any(column) for _, column in columns):
            yield (
                title,
                [
                    _line(name, times, column, place, "MB/s", DASHES[place % len(DASHES)])
                    for place, (name, column) in enumerate(columns)
                ],
            )
    busy = _scaled(found.busy_fraction, 100)
    if any(busy):
        yield "CPU busy, %", [_line("all CPUs", times, busy, 6, "%")]


def _scaled(values: Sequence[float | None], factor: float) -> list[float | None]:
    return [None if value is None else value * factor for value in values]


def _line(
    name: str, times: Sequence[float], values: Sequence[float | None], place: int, unit: str, dash: str = DASHES[0]
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


def _legend(top: float) -> dict[str, Any]:
    """A legend within the lane, since the same colour has different meanings in different lanes."""
    return {
        "orientation": "h",
        "x": 1,
        "xanchor": "right",
        "y": top,
        "yanchor": "top",
        "bgcolor": "@veil",
        "font": {"size": 11},
    }


def _band(start: float, end: float, number: int) -> dict[str, Any]:
    role = f"@band{number % 4 + 1}"
    return {**_over_all(start, end), "type": "rect", "fillcolor": role, "line": {"width": 0}, "layer": "below"}


def _over_all(start: float, end: float) -> dict[str, Any]:
    return {"xref": "x", "yref": "paper", "x0": start, "x1": end, "y0": 0, "y1": 1}


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
