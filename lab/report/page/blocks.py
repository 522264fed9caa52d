"""The building blocks of a report page: sections, text, tables, plots and foldable parts.

The templates render them; ``blocks.html.jinja`` has one macro for each kind of block. A plot is a value: the data and
layout for Plotly, and a text for readers who cannot see it. Its colours are roles (``@measured``, ``@c1`` …), which the
page replaces by colours for a light or a dark screen. Marks of different kinds also differ in shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from lab.results.statistics import Estimate
from lab.tables import Table

Trace = dict[str, Any]
MEASURED, THEORY, PUBLISHED, SOFT, INK = "@measured", "@theory", "@published", "@soft", "@ink"
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "pentagon", "hexagon", "bowtie")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_COLOURS = 8


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot of the page."""

    title: str
    summary: str
    """A sentence that describes the plot, used as caption and alternative text."""
    traces: Sequence[Trace]
    layout: Mapping[str, Any] = field(default_factory=dict)
    height: int = 320
    """In CSS pixels."""
    is_wide: bool = False
    """Whether the plot has the full width of the page."""


def colour(number: int) -> str:
    """The colour role of series ``number``, which counts from 0."""
    return f"@c{number % _COLOURS + 1}"


def plain(text: str) -> str:
    """Text escaped for Plotly, which interprets some HTML; names from imported bundles are untrusted."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def wrapped(text: str, width: int = 26) -> str:
    """Escaped text in lines of about ``width`` characters."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return "<br>".join(map(plain, lines))


def marks(what: str, points: Sequence[tuple[str, float, str]], role: str, symbol: str, *, hover: str) -> Trace:
    """Single marks beside bars: name, value, and the text for ``customdata`` in the Plotly template ``hover``."""
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
    """A small stroke for each value; ``points`` are the name of the bar and the value."""
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
    """A category axis with the first name on top."""
    order = list(dict.fromkeys(names))
    return {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": order,
        "range": [len(order) - 0.5, -0.5],
        "automargin": True,
    }


def log_axis(values: Iterable[float], title: str) -> dict[str, Any]:
    """A logarithmic axis whose ticks do not overlap."""
    found = [value for value in values if value > 0]
    span = max(found) / min(found) if found else 1.0
    steps = (1, 2, 5) if span < 300 else (1,)
    ticks = [step * 10.0**power for power in range(-6, 10) for step in steps]
    return {"type": "log", "title": {"text": title}, "tickvals": ticks, "ticktext": [f"{tick:,.6g}" for tick in ticks]}


def interval_bars(found: Sequence[Estimate], *, scale: float = 1.0, role: str = INK) -> dict[str, Any]:
    """Plotly error bars from intervals, scaled like the medians by ``scale``."""
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
    """A horizontal bar with interval for each median; ``said`` are the texts for ``customdata`` in ``hover``."""
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
    """The interval and the number of repeats for a hover text: ``[0.50 – 0.56], n = 6``."""
    return f"[{found.low * scale:.{digits}g} – {found.high * scale:.{digits}g}], n = {found.n}"


def number(value: float) -> float:
    """The value with four significant digits, which suffice for a plot and take fewer bytes."""
    return float(f"{value:.4g}")


@dataclass(frozen=True, slots=True)
class Stamp:
    """A warning; ``why`` and ``remedy`` are those of the lint rule, if one applies."""

    rule: str
    sentence: str
    why: str = ""
    remedy: str = ""


class Marked(str):
    """Text of a table cell with additions for the page: a sign, a style, or an explanation below."""

    sign: str
    look: str
    """A class of the style sheet."""
    why: str

    def __new__(cls, text: str, *, sign: str = "", look: str = "", why: str = "") -> Self:
        made = super().__new__(cls, text)
        made.sign, made.look, made.why = sign, look, why
        return made


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table with options for its display."""

    table: Table
    is_titled: bool = True
    """False if the heading above it says the same."""
    look: str = ""
    """A class of the style sheet."""
    head_column: int = 0
    """Index of the column that names the subject of each row."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence or two about the blocks that follow."""

    text: str


@dataclass(frozen=True, slots=True)
class PageGroup:
    """Plots and tables under one heading."""

    title: str
    note: str = ""
    plots: tuple[Plot, ...] = ()
    tables: tuple[Table | ShownTable, ...] = ()
    warnings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lines:
    """A list of lines; lines beyond ``most`` are replaced by their number."""

    lines: tuple[str, ...]
    most: int


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Preformatted text, such as a file or the output of a program."""

    text: str


@dataclass(frozen=True, slots=True)
class Stamps:
    """A list of warnings."""

    stamps: tuple[Stamp, ...]
    is_titled: bool = True


@dataclass(frozen=True, slots=True)
class Facts:
    """A list of names and values."""

    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """A part that a click on its summary shows or hides."""

    summary: str
    blocks: tuple[Block, ...]
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class WarningBox:
    """A box with an error message and details."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Fragment:
    """HTML from one of raidlab's files, with elements that the page's scripts fill."""

    path: Path


Block = (
    Table | ShownTable | Plot | Remark | PageGroup | Lines | Verbatim | Stamps | Facts | Fold | WarningBox | Fragment
)


@dataclass(frozen=True, slots=True)
class PageSection:
    """A section that the page's contents link to, such as a result or a comparison."""

    anchor: str
    title: str
    lead: str = ""
    blocks: tuple[Block, ...] = ()
    foremost: str = ""
    """A sentence that decides how all figures of the section are read."""
    badges: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnScripts:
    """Scripts and styles in ``folder`` for an interactive page; ``data`` is embedded as JSON."""

    folder: Path
    scripts: tuple[str, ...]
    styles: tuple[str, ...]
    data: Any
    has_plots: bool
    """Whether the scripts draw plots."""


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a page."""

    title: str
    lead: str
    sections: tuple[PageSection, ...] = ()
    badges: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    overview: Table | None = None
    contents: Block | None = None
    """A block before the first section, such as a list of the results."""
    footer: str = ""
    """How to read the figures."""
    without_scripts: str = "The plots need JavaScript; every figure also stands in the tables."
    own: OwnScripts | None = None
