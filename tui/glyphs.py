"""The characters that the app draws with: one set for terminals with Unicode, one of ASCII for the others.

Every state that is shown by a colour is also shown by one of these characters.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from textual.widget import Widget


class Canvas(StrEnum):
    """The characters that charts are drawn with."""

    BRAILLE = "braille"
    ASCII = "ascii"


@dataclass(frozen=True, slots=True)
class Box:
    """The characters of a box, clockwise from the top left corner."""

    top_left: str
    top: str
    top_right: str
    right: str
    bottom_right: str
    bottom: str
    bottom_left: str
    left: str


@dataclass(frozen=True, slots=True)
class Glyphs:
    """A set of characters, each one cell wide."""

    canvas: Canvas
    box: Box
    heavy_box: Box
    dashed_box: Box
    bar_full: str
    bar_empty: str
    bar_parts: str
    """The last cell of a bar, from nearly empty to nearly full; empty: bars have whole cells only."""
    levels: str
    """Characters of increasing height for sparklines."""
    horizontal: str
    vertical: str
    guide: str
    """The character of a faint line behind a chart."""
    mark_line: str
    axis_left: str
    axis_tick: str
    axis_corner: str
    legend: str
    good: str
    bad: str
    notice: str
    busy: str
    quiet: str
    free: str
    member: str
    spare: str
    journal: str
    faulty: str
    rebuilding: str
    vanished: str
    refused: str
    chosen: str
    not_chosen: str
    cursor: str
    light_on: str
    light_off: str
    crossed: str
    danger: str
    pending: str
    times: str
    separator: str
    ellipsis: str
    arrow: str
    up: str
    down: str
    before: str
    after: str
    bar_loose: str
    """The uncertain end of a bar."""
    expected: str
    """The end of a bar that theory predicts."""


UNICODE = Glyphs(
    canvas=Canvas.BRAILLE,
    box=Box("╭", "─", "╮", "│", "╯", "─", "╰", "│"),
    heavy_box=Box("┏", "━", "┓", "┃", "┛", "━", "┗", "┃"),
    dashed_box=Box("┌", "┄", "┐", "┊", "┘", "┄", "└", "┊"),
    bar_full="█",
    bar_empty="░",
    bar_parts="▏▎▍▌▋▊▉",
    levels=" ▁▂▃▄▅▆▇█",
    horizontal="─",
    vertical="│",
    guide="┈",
    mark_line="┊",
    axis_left="┤",
    axis_tick="┬",
    axis_corner="└",
    legend="━",
    good="✔",
    bad="✘",
    notice="▲",
    busy="◐",
    quiet="·",
    free="○",
    member="●",
    spare="◇",
    journal="◈",
    faulty="✘",
    rebuilding="◐",
    vanished="◌",
    refused="⊘",
    chosen="▣",
    not_chosen="□",
    cursor="▸",
    light_on="●",
    light_off="∙",
    crossed="╳",
    danger="▲",
    pending="○",
    times="×",
    separator="·",
    ellipsis="…",
    arrow="→",
    up="↑",
    down="↓",
    before="◂",
    after="▸",
    bar_loose="▒",
    expected="◆",
)

ASCII = Glyphs(
    canvas=Canvas.ASCII,
    box=Box("+", "-", "+", "|", "+", "-", "+", "|"),
    heavy_box=Box("#", "=", "#", "#", "#", "=", "#", "#"),
    dashed_box=Box(".", ".", ".", ":", ".", ".", ".", ":"),
    bar_full="#",
    bar_empty=".",
    bar_parts="",
    levels=" .:-=+*#",
    horizontal="-",
    vertical="|",
    guide=".",
    mark_line=":",
    axis_left="+",
    axis_tick="+",
    axis_corner="+",
    legend="=",
    good="v",
    bad="X",
    notice="!",
    busy="~",
    quiet=".",
    free="o",
    member="*",
    spare="s",
    journal="j",
    faulty="X",
    rebuilding="~",
    vanished="?",
    refused="/",
    chosen="x",
    not_chosen="-",
    cursor=">",
    light_on="*",
    light_off=".",
    crossed="X",
    danger="!",
    pending="o",
    times="x",
    separator="-",
    ellipsis="~",
    arrow=">",
    up="^",
    down="v",
    before="<",
    after=">",
    bar_loose="=",
    expected="T",
)


def glyphs_of(widget: Widget) -> Glyphs:
    """The character set of the widget's app; Unicode for an app without one."""
    found = getattr(widget.app, "glyphs", UNICODE)
    return found if isinstance(found, Glyphs) else UNICODE
