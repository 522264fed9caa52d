"""The building blocks of a report page: sections, text, tables, plots and foldable parts.

The templates render them; ``blocks.html.jinja`` has one macro for each kind of block.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from lab.report.page.plot import Plot
from lab.tables import Table


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
    """HTML from a file of raidlab, with elements that the page's scripts fill."""

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
