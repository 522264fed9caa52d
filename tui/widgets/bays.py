"""A bay of the rack, and how it is painted: as a card, or as one line if there is less room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from rich.style import Style

from lab.units import human_bytes
from tui.glyphs import Glyphs
from tui.quantities import Unit, format_value
from tui.widgets.lines import Line, shorten

CARD_ROWS = 5
CARD_LEAST_CELLS = 22
LIST_LEAST_CELLS = 38
_RATES_CELLS = 18


class BayState(StrEnum):
    """The state of the disk in a bay."""

    FREE = "free"
    MEMBER = "member"
    SPARE = "spare"
    JOURNAL = "journal"
    FAULTY = "faulty"
    REBUILDING = "rebuilding"
    VANISHED = "vanished"
    """The disk was present and no longer responds."""
    REFUSED = "refused"
    """Not a disk of the lab, or one that must not be written now."""

    def glyph(self, glyphs: Glyphs) -> str:
        """The character of the state."""
        sign: str = getattr(glyphs, self.value)
        return sign


@dataclass(frozen=True, slots=True)
class Bay:
    """A disk as the rack shows it."""

    name: str
    node: str = ""
    serial: str = ""
    size_bytes: int = 0
    model: str = ""
    """The model or kind of the drive: ``hdd-7200``, ``ssd``, ``file``."""
    state: BayState = BayState.FREE
    array: str = ""
    slot: int | None = None
    reads_per_second: float = 0.0
    writes_per_second: float = 0.0
    busy_fraction: float = 0.0
    progress: float | None = None
    """Progress of its rebuild, 0 to 1; None if it is not being rebuilt."""
    note: str = ""
    """Shown in place of the words for the state."""

    def words(self, glyphs: Glyphs, cells: int = 80) -> str:
        """The state in words, shortened to ``cells``."""
        if self.note:
            return shorten(self.note, cells, glyphs.ellipsis)
        if self.state is BayState.VANISHED:
            return shorten("vanished", cells, glyphs.ellipsis)
        role: str = self.state.value
        if self.state is BayState.MEMBER and self.slot is not None:
            role = f"slot {self.slot}"
        elif self.state is BayState.REBUILDING and self.progress is not None:
            role = f"{self.progress * 100:.0f} %"
        text = f"{self.array} {glyphs.separator} {role}" if self.array else role
        full = f"{text} rebuilt" if role.endswith("%") else text
        return full if len(full) <= cells else shorten(text, cells, glyphs.ellipsis)

    @property
    def node_words(self) -> str:
        """The device node without ``/dev/``, such as ``ubda``."""
        return self.node.removeprefix("/dev/")

    @property
    def size_words(self) -> str:
        return human_bytes(self.size_bytes) if self.size_bytes else ""

    @property
    def kind_words(self) -> str:
        """The size and the model of the drive."""
        return f"{self.size_words} {self.model}".strip()


@dataclass(frozen=True, slots=True)
class BayLook:
    """How a bay is highlighted."""

    at_cursor: bool = False
    has_focus: bool = False
    chosen: bool | None = None
    """None: the rack has no choice of disks."""


class Brush(Protocol):
    """The part of the rack's widget with which a bay is painted."""

    @property
    def glyphs(self) -> Glyphs: ...
    def bay_style(self, name: str, look: BayLook) -> Style: ...
    def line(self, width: int) -> Line: ...


def activity_sign(bay: Bay, glyphs: Glyphs) -> str:
    """The activity light of a drive: off when idle, else a character whose height shows its busy fraction."""
    if not (bay.reads_per_second or bay.writes_per_second or bay.busy_fraction):
        return glyphs.light_off
    top = len(glyphs.levels) - 1
    return glyphs.levels[max(1, min(top, round(bay.busy_fraction * top)))]


def rates_text(bay: Bay) -> str:
    """Reads and writes per second, such as ``r 1.2k  w 340``; empty for an idle disk."""
    if not (bay.reads_per_second or bay.writes_per_second):
        return ""
    reads, writes = (format_value(rate, Unit.IOPS) for rate in (bay.reads_per_second, bay.writes_per_second))
    return f"r {reads}  w {writes}"


def paint_card(brush: Brush, bay: Bay, look: BayLook, width: int) -> list[Line]:
    """A box of ``CARD_ROWS`` lines: name, kind, node and serial, state, activity."""
    glyphs = brush.glyphs
    is_absent = bay.state in (BayState.VANISHED, BayState.REFUSED)
    box = glyphs.heavy_box if look.at_cursor and look.has_focus else glyphs.dashed_box if is_absent else glyphs.box
    edge = brush.bay_style(bay.state.value, look)
    text, faint = brush.bay_style("text", look), brush.bay_style("faint", look)

    def field(content: str, style: Style, sign: str = "") -> Line:
        line = brush.line(width).add(box.left, edge)
        inner = width - 4 - 2 * bool(sign)
        line.add(" ", text).add(f"{sign} " if sign else "", edge)
        line.add(shorten(content, inner, glyphs.ellipsis).ljust(inner), style)
        return line.add(" ", text).add(box.right, edge)

    top = brush.line(width).add(box.top_left, edge)
    if look.chosen is not None:
        top.add(f" {glyphs.chosen if look.chosen else glyphs.not_chosen}", edge)
    top.add(f" {shorten(bay.name, width - 8, glyphs.ellipsis)} ", brush.bay_style("name", look))
    top.add(box.top * (top.room - 1), edge).add(box.top_right, edge)
    light = activity_sign(bay, glyphs)
    bottom = brush.line(width).add(box.bottom_left, edge)
    rates = shorten(rates_text(bay), width - 7, glyphs.ellipsis)
    bottom.add(f" {light} ", edge).add(f"{rates} " if rates else "", text)
    bottom.add(box.bottom * (bottom.room - 1), edge).add(box.bottom_right, edge)
    kind, names = bay.kind_words, f"{bay.node_words} {glyphs.separator} {bay.serial}" if bay.serial else bay.node_words
    return [
        top,
        field(kind, text),
        field(names, faint),
        field(bay.words(glyphs, width - 6), edge, bay.state.glyph(glyphs)),
        bottom,
    ]


@dataclass(frozen=True, slots=True)
class RowCells:
    """Widths of the columns of a list; they are the same for every bay."""

    name: int
    node: int
    kind: int
    words: int

    @classmethod
    def fitting(cls, bays: Sequence[Bay], width: int, *, toggles: bool, glyphs: Glyphs) -> RowCells:
        """The widths that fit. If there is little room, the kind of drive is omitted first, then the node."""
        name = max(len(bay.name) for bay in bays) + 1
        words = max(min(len(bay.words(glyphs)), 14) for bay in bays) + 1
        room = width - name - words - 5 - 2 * toggles
        node = max(len(bay.node_words) for bay in bays) + 1
        node = node if node <= room else 0
        kinds = (max(len(bay.kind_words) for bay in bays) + 1, max(len(bay.size_words) for bay in bays) + 1)
        kind = next((cells for cells in kinds if cells <= room - node), 0)
        return cls(name, node, kind, words)


def paint_row(brush: Brush, bay: Bay, look: BayLook, width: int, cells: RowCells) -> Line:
    """One line: cursor, choice, state character, name, node, kind, state, rates, light."""
    glyphs = brush.glyphs
    edge, text = brush.bay_style(bay.state.value, look), brush.bay_style("text", look)
    faint = brush.bay_style("faint", look)
    line = brush.line(width).add(glyphs.cursor if look.at_cursor and look.has_focus else " ", edge)
    if look.chosen is not None:
        line.add(f"{glyphs.chosen if look.chosen else glyphs.not_chosen} ", edge)
    line.add(f"{bay.state.glyph(glyphs)} ", edge)
    line.add(bay.name.ljust(cells.name), brush.bay_style("name", look))
    kind = bay.kind_words if len(bay.kind_words) < cells.kind else bay.size_words
    line.add(bay.node_words.ljust(cells.node) if cells.node else "", faint)
    line.add(kind.ljust(cells.kind) if cells.kind else "", faint)
    rates = rates_text(bay)
    if line.room - 3 - cells.words < len(rates):
        rates = ""
    words = bay.words(glyphs, line.room - 2 - (len(rates) + 1 if rates else 0))
    line.add(words, edge).add(" " * (line.room - 2 - len(rates)), text).add(rates, text)
    return line.add(f" {activity_sign(bay, glyphs)}", edge)
