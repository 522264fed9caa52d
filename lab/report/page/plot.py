"""A plot as a value: what Plotly draws, and what whoever cannot see it reads.

Colours are roles (``@measured``, ``@c1`` …), which the page turns into colours that suit a light or a dark screen.
Marks of different kinds differ in shape too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.results.statistics import Estimate

Trace = dict[str, Any]
MEASURED, THEORY, PUBLISHED, SOFT, INK = "@measured", "@theory", "@published", "@soft", "@ink"
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "pentagon", "hexagon", "bowtie")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_COLOURS = 8


@dataclass(frozen=True, slots=True)
class Plot:
    """One figure of the page."""

    title: str
    summary: str
    """What it shows, in a sentence: its caption and its alternative text."""
    traces: Sequence[Trace]
    layout: Mapping[str, Any] = field(default_factory=dict)
    height: int = 320
    """In CSS pixels."""
    is_wide: bool = False
    """Takes the page's whole width."""


def colour(number: int) -> str:
    """The role of the n-th series, from 0 on."""
    return f"@c{number % _COLOURS + 1}"


def plain(text: str) -> str:
    """Text for Plotly, which takes some HTML: names out of a stranger's bundle must stay text."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def wrapped(text: str, width: int = 26) -> str:
    """Plain text in lines of about ``width`` characters."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return "<br>".join(map(plain, lines))


def marks(what: str, points: Sequence[tuple[str, float, str]], role: str, symbol: str, *, hover: str) -> Trace:
    """Single marks beside bars: name, value, and what ``hover`` (Plotly's template) calls customdata."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": what,
        "y": [name for name, _, _ in points],
        "x": [value for _, value, _ in points],
        "customdata": [text for _, _, text in points],
        "marker": {"symbol": symbol, "size": 13, "color": role, "line": {"width": 2.5, "color": role}},
        "hovertemplate": f"{hover}<extra>{plain(what)}</extra>",
    }


def strokes(what: str, points: Sequence[tuple[str, float]], hover: str) -> Trace:
    """Small strokes, one for each single value: its bar's name, and the value."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": what,
        "y": [name for name, _ in points],
        "x": [number(value) for _, value in points],
        "marker": {"symbol": "line-ns-open", "size": 12, "color": MEASURED, "line": {"width": 1.5, "color": MEASURED}},
        "hovertemplate": hover,
    }


def categories(names: Sequence[str]) -> dict[str, Any]:
    """An axis of names, the first one on top."""
    order = list(dict.fromkeys(names))
    return {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": order,
        "range": [len(order) - 0.5, -0.5],
        "automargin": True,
    }


def log_axis(values: Iterable[float], title: str) -> dict[str, Any]:
    """A log axis with as many ticks as can be told apart."""
    found = [value for value in values if value > 0]
    span = max(found) / min(found) if found else 1.0
    steps = (1, 2, 5) if span < 300 else (1,)
    ticks = [step * 10.0**power for power in range(-6, 10) for step in steps]
    return {"type": "log", "title": {"text": title}, "tickvals": ticks, "ticktext": [f"{tick:,.6g}" for tick in ticks]}


def interval_bars(found: Sequence[Estimate], *, scale: float = 1.0, role: str = INK) -> dict[str, Any]:
    """Plotly's error bars from intervals; ``scale``: what the medians were multiplied by."""
    ends = ([number(end * scale) for end in (each.low, each.median, each.high)] for each in found)
    bars = [(high - median, median - low) for low, median, high in ends]
    return {
        "type": "data",
        "symmetric": False,
        "array": [above for above, _ in bars],
        "arrayminus": [below for _, below in bars],
        "color": role,
        "thickness": 1.5,
        "width": 4,
        "visible": any(each.n > 1 for each in found),
    }


def median_bars(names: Sequence[str], found: Sequence[Estimate], said: Sequence[str], hover: str) -> Trace:
    """A lying bar for each median, with its interval; ``said`` is what ``hover`` tells of each as customdata."""
    return {
        "type": "bar",
        "orientation": "h",
        "name": "measured, median",
        "y": names,
        "x": [number(each.median) for each in found],
        "error_x": interval_bars(found),
        "marker": {"color": SOFT, "line": {"color": MEASURED, "width": 1.5}},
        "customdata": said,
        "hovertemplate": f"<b>%{{y}}</b><br>{hover}<extra>measured</extra>",
    }


def interval_words(found: Estimate, *, scale: float = 1.0, digits: int = 3) -> str:
    """``[0.50 – 0.56], n = 6``, for whoever points at a mark."""
    return f"[{found.low * scale:.{digits}g} – {found.high * scale:.{digits}g}], n = {found.n}"


def number(value: float) -> float:
    """With four significant digits: what a plot can show, in fewer bytes."""
    return float(f"{value:.4g}")
