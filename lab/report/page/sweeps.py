"""Plots of figures by chunk size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.report.cells import ResultLabels, Row, is_large
from lab.report.page.levels import Setting
from lab.report.page.plot import DASHES, SYMBOLS, THEORY, Plot, Trace, colour, interval_bars, plain
from lab.report.page.plot import number as short
from lab.results.record import ArrayRecord, ResultRecord
from lab.results.statistics import Estimate
from lab.units import human_bytes

_Sweep = list[tuple[int, Row]]


def chunk_plots(record: ResultRecord, all_settings: Sequence[Setting], labels: ResultLabels) -> Iterator[Plot]:
    """A plot for each workload that was measured on arrays which differ only in their chunk size."""
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


def _chunk_plot(setting: Setting, swept: dict[str, _Sweep], labels: ResultLabels) -> Plot:
    in_megabytes = is_large(setting.rows[0])
    traces, words = [], []
    for place, (family, sweep) in enumerate(swept.items()):
        chunks = [human_bytes(chunk) for chunk, _ in sweep]
        found = [row.bytes_per_second if in_megabytes else row.iops for _, row in sweep]
        traces.append(line(family, chunks, found, place, 1e6 if in_megabytes else 1))
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


def line(name: str, places: Sequence[str], found: Sequence[Estimate], place: int, scale: float) -> Trace:
    """A line of medians with intervals; its index ``place`` selects colour, dash and symbol."""
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": plain(name),
        "x": places,
        "y": [short(each.median / scale) for each in found],
        "error_y": interval_bars(found, scale=1 / scale, role=colour(place)),
        "line": {"color": colour(place), "width": 2, "dash": DASHES[place % len(DASHES)]},
        "marker": {"color": colour(place), "symbol": SYMBOLS[place % len(SYMBOLS)], "size": 9},
        "hovertemplate": "%{x}: %{y:.4~g}",
    }
