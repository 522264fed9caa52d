"""The building blocks of a page (sections, text, tables, plots, foldable parts), and the functions that render it.

A page is one self-contained HTML file that a browser shows without a network. The templates render the blocks, and
``blocks.html.jinja`` contains one macro for each kind of block. A plot consists of the data and the layout for Plotly,
and of a text for readers who cannot see the plot. Its colours are roles (``@measured``, ``@c1`` …), which the page
replaces with colours for a light or a dark screen. Marks of different kinds also differ in shape.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import msgspec

from lab import __version__
from lab.errors import RequirementMissing
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
    """Whether the plot takes the full width of the page."""


def colour(number: int) -> str:
    """Return the colour role of a series. The first series has ``number`` 0."""
    return f"@c{number % _COLOURS + 1}"


def plain(text: str) -> str:
    """Escape text for Plotly, which interprets some HTML, because names from imported bundles are untrusted."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def wrapped(text: str, width: int = 26) -> str:
    """Return escaped text in lines of about ``width`` characters."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return "<br>".join(map(plain, lines))


def scatter(name: str, x: Sequence[Any], y: Sequence[Any], hover: str, *, mode: str = "markers", **more: Any) -> Trace:
    """Return marks or lines. ``name`` is escaped here, and ``hover`` is a Plotly template."""
    return {"type": "scatter", "mode": mode, "name": plain(name), "x": x, "y": y, "hovertemplate": hover, **more}


def strokes(what: str, points: Sequence[tuple[str, float]], hover: str) -> Trace:
    """Return a small stroke for each value. ``points`` are pairs of the name of a bar and a value."""
    marker = {"symbol": "line-ns-open", "size": 12, "color": MEASURED, "line": {"width": 1.5, "color": MEASURED}}
    return scatter(what, [number(value) for _, value in points], [name for name, _ in points], hover, marker=marker)


def categories(names: Sequence[str]) -> dict[str, Any]:
    """Return a category axis with the first name at the top."""
    order = list(dict.fromkeys(names))
    return {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": order,
        "range": [len(order) - 0.5, -0.5],
        "automargin": True,
    }


def log_axis(values: Iterable[float], title: str) -> dict[str, Any]:
    """Return a logarithmic axis whose ticks do not overlap."""
    found = [value for value in values if value > 0]
    span = max(found) / min(found) if found else 1.0
    steps = (1, 2, 5) if span < 300 else (1,)
    ticks = [step * 10.0**power for power in range(-6, 10) for step in steps]
    return {"type": "log", "title": {"text": title}, "tickvals": ticks, "ticktext": [f"{tick:,.6g}" for tick in ticks]}


def interval_bars(found: Sequence[Estimate], *, scale: float = 1.0, role: str = INK) -> dict[str, Any]:
    """Return Plotly error bars for the intervals, which are multiplied by ``scale`` like the medians."""
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


def median_bars(names: Sequence[str], found: Sequence[Estimate], hover_texts: Sequence[str], hover: str) -> Trace:
    """Return a horizontal bar with an interval for each median. ``hover_texts`` become ``customdata`` in ``hover``."""
    return {
        "type": "bar",
        "orientation": "h",
        "name": "measured, median",
        "y": names,
        "x": [number(each.median) for each in found],
        "error_x": interval_bars(found),
        "marker": {"color": SOFT, "line": {"color": MEASURED, "width": 1.5}},
        "customdata": hover_texts,
        "hovertemplate": f"<b>%{{y}}</b><br>{hover}<extra>measured</extra>",
    }


def interval_words(found: Estimate, *, scale: float = 1.0, digits: int = 3) -> str:
    """Return the interval and the number of repeats for a hover text, as in ``[0.50 – 0.56], n = 6``."""
    return f"[{found.low * scale:.{digits}g} – {found.high * scale:.{digits}g}], n = {found.n}"


def number(value: float) -> float:
    """Round the value to four significant digits. These are enough for a plot, and they make the page smaller."""
    return float(f"{value:.4g}")


@dataclass(frozen=True, slots=True)
class Stamp:
    """A warning, with the ``why`` and the ``remedy`` of the lint rule if one applies."""

    rule: str
    sentence: str
    why: str = ""
    remedy: str = ""


class Marked(str):
    """The text of a table cell, with a sign, a style or an explanation that the page adds to it."""

    sign: str
    css_class: str
    """A class of the style sheet."""
    why: str

    def __new__(cls, text: str, *, sign: str = "", css_class: str = "", why: str = "") -> Self:
        made = super().__new__(cls, text)
        made.sign, made.css_class, made.why = sign, css_class, why
        return made


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table and how to display it."""

    table: Table
    is_titled: bool = True
    """Whether to show the table's title. False if the heading above it says the same."""
    css_class: str = ""
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
    """A list of lines. Lines beyond ``most`` are counted instead of shown."""

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
    """A section that the page's table of contents links to, such as a result or a comparison."""

    anchor: str
    title: str
    lead: str = ""
    blocks: tuple[Block, ...] = ()
    foremost: str = ""
    """A sentence that says how all figures of the section must be read."""
    badges: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnScripts:
    """Scripts and styles in ``folder`` for an interactive page, which embeds ``data`` as JSON."""

    folder: Path
    scripts: tuple[str, ...]
    styles: tuple[str, ...]
    data: Any
    has_plots: bool


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
    without_scripts: str = "The plots need JavaScript; every figure is also in the tables."
    own: OwnScripts | None = None


PARTS = Path(__file__).with_name("parts")


def render_page(page: Page) -> str:
    """Render the HTML document. Raises RequirementMissing if jinja2 or plotly (extra ``report``) is missing."""
    plots: list[Plot] = []

    def register(plot: Plot) -> int:
        plots.append(plot)
        return len(plots) - 1

    own = page.own or OwnScripts(PARTS, (), (), None, has_plots=False)
    body = render_part("page.html.jinja", PARTS, page=page, register=register, version=__version__)
    # On a page without plots, this script only unfolds everything for printing. A page's own scripts use it to draw.
    scripts = [
        PARTS / "drawing.js",
        *([PARTS / "plots.js"] if plots else ()),
        *(own.folder / each for each in own.scripts),
    ]
    figures = [{"traces": plot.traces, "layout": plot.layout} for plot in plots]
    return render_document(
        body,
        title=page.title,
        style="\n".join(map(_text, (PARTS / "report.css", *(own.folder / each for each in own.styles)))),
        data={**({"data": own.data} if own.scripts else {}), **({"figures": figures} if figures else {})},
        scripts=[*([_plotly()] if plots or own.has_plots else ()), "\n".join(map(_text, scripts))],
    )


def render_part(template: str, folder: Path, **values: Any) -> str:
    """Render a template of ``folder`` or of this package, with escaped values. Raises RequirementMissing."""
    try:
        import jinja2
        from markupsafe import Markup
    except ImportError as error:
        raise _missing(error) from None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader((folder, PARTS)),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["kind"] = lambda value: type(value).__name__
    environment.globals["file"] = lambda path: Markup(_text(path))
    return environment.get_template(template).render(**values)


def render_document(
    body: str,
    *,
    title: str,
    style: str,
    kind: str = "",
    data: Mapping[str, Any] | None = None,
    scripts: Sequence[str] = (),
) -> str:
    """Render a document around ``body``, the output of ``render_part``, with a content security policy for ``scripts``.

    ``data`` maps element ids to values, which are embedded as JSON. ``kind`` is a class for the style sheet. Raises
    RequirementMissing if jinja2 is missing.
    """
    from markupsafe import Markup

    # These are safe: they are raidlab's own files, escaped output of a template, and JSON that cannot end its element.
    return render_part(
        "document.html.jinja",
        PARTS,
        title=title,
        kind=kind,
        version=__version__,
        body=Markup(body),
        style=Markup(style),
        data={
            name: Markup(msgspec.json.encode(value).decode().replace("<", "\\u003c"))
            for name, value in (data or {}).items()
        },
        scripts=[Markup(script) for script in scripts],
        script_hashes=Markup(" ".join(map(_hash, scripts))),
    )


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise _missing(error) from None
    script: str = get_plotlyjs()
    return script


def _missing(error: ImportError) -> RequirementMissing:
    return RequirementMissing(
        f"an HTML page needs {error.name or 'plotly'}", hint="install it: pip install 'raidlab[report]'"
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _hash(script: str) -> str:
    """Return a script's hash for the content security policy, which keeps scripts in imported results from running."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
