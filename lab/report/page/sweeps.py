"""Plots over a parameter: chunk sizes, and the AdaptRaid study's number of fast disks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.report.adaptraid_figures import SYSTEMS, WORKLOADS, Configuration, Measurements
from lab.report.labels import Labels, is_large
from lab.report.page.levels import Setting
from lab.report.page.plot import DASHES, SYMBOLS, THEORY, Plot, Trace, colour, interval_bars, plain
from lab.report.page.plot import number as short
from lab.report.series import Row
from lab.results.record import ArrayRecord, ResultRecord
from lab.results.statistics import Estimate
from lab.units import human_bytes

_Sweep = list[tuple[int, Row]]


def chunk_plots(record: ResultRecord, all_settings: Sequence[Setting], labels: Labels) -> Iterator[Plot]:
    """For each workload that was measured on arrays which differ in their chunk size alone."""
    arrays = {array.name: array for array in record.arrays}
    for setting in all_settings:
        sweeps: dict[str, _Sweep] = {}
        for row in setting.rows:
            array = arrays.get(row.array)
            if array and array.chunk_bytes and row.phase == "healthy":
                sweeps.setdefault(_family(array), []).append((array.chunk_bytes, row))
        swept = {name: sorted(sweep, key=lambda each: each[0]) for name, sweep in sweeps.items()}
        swept = {name: sweep for name, sweep in swept.items() if len({chunk for chunk, _ in sweep}) > 1}
        if swept:
            yield _chunk_plot(setting, swept, labels)


def _family(array: ArrayRecord) -> str:
    return f"{array.level} of {len(array.members)}{f', {array.layout}' if array.layout else ''}"


def _chunk_plot(setting: Setting, swept: dict[str, _Sweep], labels: Labels) -> Plot:
    in_megabytes = is_large(setting.rows[0])
    traces, words = [], []
    for place, (family, sweep) in enumerate(swept.items()):
        chunks = [human_bytes(chunk) for chunk, _ in sweep]
        found = [row.bytes_per_second if in_megabytes else row.iops for _, row in sweep]
        traces.append(_line(family, chunks, found, place, 1e6 if in_megabytes else 1))
        words.append(f"{family}: {', '.join(chunks)}")
        predicted = [row.predicted_iops for _, row in sweep]
        if all(predicted) and not in_megabytes:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": f"theory, {plain(family)}",
                    "x": chunks,
                    "y": [short(value) for value in predicted if value],
                    "marker": {
                        "symbol": "diamond-open",
                        "size": 13,
                        "color": THEORY,
                        "line": {"width": 2.5, "color": THEORY},
                    },
                }
            )
    unit = "MB/s" if in_megabytes else "I/Os per second (IOPS)"
    layout = {
        "xaxis": {"type": "category", "title": {"text": "chunk size"}},
        "yaxis": {"title": {"text": unit}, "rangemode": "tozero"},
    }
    title = f"{labels.workload(setting.workload)}: {setting.direction}s"
    return Plot(title, f"By chunk size, in {unit}. {'; '.join(words)}.", traces, layout)


def _line(name: str, places: Sequence[str], found: Sequence[Estimate], place: int, scale: float) -> Trace:
    medians = [short(each.median / scale) for each in found]
    lows, highs = ([short(getattr(each, end) / scale) for each in found] for end in ("low", "high"))
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": plain(name),
        "x": places,
        "y": medians,
        "error_y": {
            **interval_bars(medians, lows, highs),
            "color": colour(place),
            "visible": any(each.n > 1 for each in found),
        },
        "line": {"color": colour(place), "width": 2, "dash": DASHES[place % len(DASHES)]},
        "marker": {"color": colour(place), "symbol": SYMBOLS[place % len(SYMBOLS)], "size": 9},
        "hovertemplate": "%{x}: %{y:.4~g}",
    }


def adaptraid_plots(record: ResultRecord) -> Iterator[Plot]:
    """The study's Figs 6 to 12: capacity, and requests per second of three systems, by the number of fast disks."""
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
        yield Plot("Capacity", "Gigabytes by the number of fast disks.", traces, _by_fast_disks("GB"))
    for workload, title in WORKLOADS.items():
        lines = []
        for place, (system, name) in enumerate(SYSTEMS.items()):
            counts = found.counts(system, workload)
            rows = [row for k in counts if (row := found.row(Configuration(system, k), workload))]
            if rows:
                lines.append(_line(name, [str(k) for k in counts], [row.iops for row in rows], place, 1))
        if lines:
            summary = "Requests per second of each system, by the number of fast disks among nine."
            yield Plot(title, summary, lines, _by_fast_disks("requests per second"))


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


def _by_fast_disks(unit: str) -> dict[str, object]:
    return {
        "xaxis": {
            "type": "category",
            "title": {"text": "fast disks"},
            "categoryorder": "array",
            "categoryarray": [str(k) for k in range(10)],
        },
        "yaxis": {"title": {"text": unit}, "rangemode": "tozero"},
    }
