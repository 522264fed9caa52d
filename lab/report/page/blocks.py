"""What a page consists of, whatever it is about: sections of words, tables, plots, and what a reader may unfold.

How it looks is the templates' business (``blocks.html.jinja``, which has a macro for each kind of block).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from lab.report.page.plot import Plot
from lab.tables import Table


@dataclass(frozen=True, slots=True)
class Stamp:
    """One thing to be careful about; ``remedy`` and ``why`` where a rule of the lint says it."""

    rule: str
    sentence: str
    why: str = ""
    remedy: str = ""


class Marked(str):
    """Text in a table's cell with what only a page shows: a sign and a colour, or an explanation below."""

    sign: str
    look: str
    """The name of its class in the style sheet."""
    why: str

    def __new__(cls, text: str, *, sign: str = "", look: str = "", why: str = "") -> Self:
        made = super().__new__(cls, text)
        made.sign, made.look, made.why = sign, look, why
        return made


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table that is shown in another way than most."""

    table: Table
    is_titled: bool = True
    """False: what stands above it says the same."""
    look: str = ""
    """The name of its class in the style sheet."""
    head_column: int = 0
    """That tells what each row is about."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence or two on what follows."""

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
    """A list; of more than ``most`` lines the rest is counted."""

    lines: tuple[str, ...]
    most: int


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A file or an output, as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Stamps:
    """What to be careful about."""

    stamps: tuple[Stamp, ...]
    is_titled: bool = True


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values."""

    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """What is seen once its summary is clicked, or from the beginning on."""

    summary: str
    blocks: tuple[Block, ...]
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class WarningBox:
    """What went wrong, and more about it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Fragment:
    """HTML of a file of ours: places that the page's own scripts fill."""

    path: Path


Block = (
    Table | ShownTable | Plot | Remark | PageGroup | Lines | Verbatim | Stamps | Facts | Fold | WarningBox | Fragment
)


@dataclass(frozen=True, slots=True)
class PageSection:
    """One result, one comparison, many results together, or whatever else has a link at the page's top."""

    anchor: str
    title: str
    lead: str = ""
    blocks: tuple[Block, ...] = ()
    foremost: str = ""
    """What decides how every figure of the section is read."""
    badges: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnScripts:
    """By them a reader chooses what is drawn: files in ``folder``. ``data`` they find as JSON in that element."""

    folder: Path
    scripts: tuple[str, ...]
    styles: tuple[str, ...]
    data: Any
    has_plots: bool
    """Whether they draw something."""


@dataclass(frozen=True, slots=True)
class Page:
    """All of it."""

    title: str
    lead: str
    sections: tuple[PageSection, ...] = ()
    badges: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    overview: Table | None = None
    contents: Block | None = None
    """What the sections are about, before the first of them."""
    footer: str = ""
    """How its figures are to be read."""
    without_scripts: str = "The plots need JavaScript; every figure also stands in the tables."
    own: OwnScripts | None = None
