"""Plots of the AdaptRaid study over the number of fast disks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.adapt.study.figures import SYSTEMS, WORKLOADS, Configuration, Measurements
from lab.report.page.blocks import DASHES, SYMBOLS, PageGroup, Plot, Trace, colour
from lab.report.page.blocks import number as short
from lab.report.page.plots import line
from lab.results.record import ResultRecord


def by_fast_disks(record: ResultRecord) -> PageGroup:
    """The study's Figs 6 to 12: capacity, and requests per second of three systems."""
    return PageGroup("By the number of fast disks", plots=tuple(_plots(record)))


def _plots(record: ResultRecord) -> Iterator[Plot]:
    found = Measurements(record)
    capacities = [
        (SYSTEMS[system], points)
        for system in SYSTEMS
        if (
            points := [
                (place.fast, array.size_bytes / 1e9)
                for place, array in sorted(found.arrays.items(), key=lambda each: each[0].fast)
                if place == Configuration(system, place.fast)
            ]
        )
    ]
    if any(len(points) > 1 for _, points in capacities):
        traces = [_plain_line(name, points, place) for place, (name, points) in enumerate(capacities)]
        yield Plot("Capacity", "Gigabytes by the number of fast disks.", traces, _axes("GB"))
    for workload, title in WORKLOADS.items():
        lines = []
        for place, (system, name) in enumerate(SYSTEMS.items()):
            counts = found.counts(system, workload)
            rows = [row for k in counts if (row := found.row(Configuration(system, k), workload))]
            if rows:
                lines.append(line(name, [str(k) for k in counts], [row.iops for row in rows], place, 1))
        if lines:
            summary = "Requests per second of each system, by the number of fast disks among nine."
            yield Plot(title, summary, lines, _axes("requests per second"))


def _plain_line(name: str, points: Sequence[tuple[int, float]], place: int) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [str(k) for k, _ in points],
        "y": [short(value) for _, value in points],
        "line": {"color": colour(place), "width": 2, "dash": DASHES[place % len(DASHES)]},
        "marker": {"color": colour(place), "symbol": SYMBOLS[place % len(SYMBOLS)], "size": 9},
    }


def _axes(unit: str) -> dict[str, object]:
    return {
        "xaxis": {
            "type": "category",
            "title": {"text": "fast disks"},
            "categoryorder": "array",
            "categoryarray": [str(k) for k in range(10)],
        },
        "yaxis": {"title": {"text": unit}, "rangemode": "tozero"},
    }
