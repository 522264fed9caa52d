"""The look of the app, which consists of characters and their ASCII replacements, tones, and colour themes."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import lru_cache
from typing import IO, Any

from rich.cells import cell_len
from rich.segment import Segment
from rich.terminal_theme import TerminalTheme
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme
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
    """A set of characters, each one cell wide. The defaults are Unicode."""

    canvas: Canvas = Canvas.BRAILLE
    box: Box = Box("╭", "─", "╮", "│", "╯", "─", "╰", "│")
    heavy_box: Box = Box("┏", "━", "┓", "┃", "┛", "━", "┗", "┃")
    dashed_box: Box = Box("┌", "┄", "┐", "┊", "┘", "┄", "└", "┊")
    bar_full: str = "█"
    bar_empty: str = "░"
    bar_parts: str = "▏▎▍▌▋▊▉"
    """The last cell of a bar, from nearly empty to nearly full; empty if bars have whole cells only."""
    levels: str = " ▁▂▃▄▅▆▇█"
    horizontal: str = "─"
    vertical: str = "│"
    guide: str = "┈"
    """The character of a faint line behind a chart."""
    mark_line: str = "┊"
    axis_left: str = "┤"
    axis_corner: str = "└"
    legend: str = "━"
    good: str = "✔"
    bad: str = "✘"
    notice: str = "▲"
    busy: str = "◐"
    quiet: str = "·"
    free: str = "○"
    member: str = "●"
    spare: str = "◇"
    journal: str = "◈"
    faulty: str = "✘"
    rebuilding: str = "◐"
    vanished: str = "◌"
    refused: str = "⊘"
    chosen: str = "▣"
    not_chosen: str = "□"
    cursor: str = "▸"
    light_on: str = "●"
    light_off: str = "∙"
    crossed: str = "╳"
    pending: str = "○"
    separator: str = "·"
    ellipsis: str = "…"
    arrow: str = "→"
    before: str = "◂"
    after: str = "▸"
    bar_loose: str = "▒"
    """The uncertain end of a bar."""
    expected: str = "◆"
    """The end of a bar, as predicted by theory."""


UNICODE = Glyphs()

_SIGNS = {
    "│": "|", "┃": "|", "┊": ":", "║": "|", "▏": "|", "▎": "|", "▍": "|", "▌": "|", "▐": "|", "▕": "|", "▊": "|",
    "─": "-", "━": "-", "═": "=", "▔": "-", "▁": "_", "▂": "_", "▄": "=", "▀": "=", "█": "#", "▉": "#", "▋": "#",
    "░": ".", "▒": ":", "▓": "#", "•": "*", "●": "*", "○": "o", "▶": ">", "▼": "v", "▲": "^", "◀": "<", "✓": "v",
    "✔": "v", "✘": "x", "…": "~", "–": "-", "—": "-", "×": "x", "·": ".", "→": ">", "←": "<", "↑": "^", "↓": "v",
    "“": '"', "”": '"', "‘": "'", "’": "'", "⏎": "J", "␣": "_", "µ": "u", "◐": "~",
    "◇": "s", "◈": "j", "◌": "?", "⊘": "/", "▣": "x", "□": "-", "▸": ">", "◂": "<", "∙": ".", "╳": "X", "◆": "T",
    "¼": " ", "½": " ",
}  # fmt: skip


@lru_cache(4096)
def to_ascii(text: str) -> str:
    """Replace each character with its nearest ASCII equivalent, without changing the width in cells."""
    if text.isascii():
        return text
    return "".join(character if character.isascii() else _nearest(character) for character in text)


def _nearest(character: str) -> str:
    if character in _SIGNS:
        return _SIGNS[character]
    if "\u2500" <= character <= "\u257f":  # corners and crossings of boxes
        return "+"
    plain = unicodedata.normalize("NFKD", character)[:1]
    width = cell_len(character)
    return (plain if plain.isascii() and plain.isprintable() else "?") + " " * (width - 1) if width else ""


def _in_ascii(glyphs: Glyphs, **own: Any) -> Glyphs:
    """Return the set with each character replaced by its nearest ASCII equivalent, except for those in ``own``."""
    signs = {each.name: getattr(glyphs, each.name) for each in fields(Glyphs)}
    return Glyphs(**({name: to_ascii(sign) for name, sign in signs.items() if name not in own} | own))


ASCII = _in_ascii(
    UNICODE,
    canvas=Canvas.ASCII,
    box=Box("+", "-", "+", "|", "+", "-", "+", "|"),
    heavy_box=Box("#", "=", "#", "#", "#", "=", "#", "#"),
    dashed_box=Box(".", ".", ".", ":", ".", ".", ".", ":"),
    bar_parts="",
    bar_loose="=",
    levels=" .:-=+*#",
    guide=".",
    legend="=",
    bad="X",
    faulty="X",
    notice="!",
    separator="-",
)


def glyphs_of(widget: Widget) -> Glyphs:
    """Return the character set of the widget's app."""
    glyphs: Glyphs = getattr(widget.app, "glyphs", UNICODE)
    return glyphs


class Tone(StrEnum):
    """The tones. The value is also the component class with the colour, and the name of the character in ``Glyphs``."""

    GOOD = "good"
    BAD = "bad"
    NOTICE = "notice"
    BUSY = "busy"
    QUIET = "quiet"

    def glyph(self, glyphs: Glyphs) -> str:
        sign: str = getattr(glyphs, self.value)
        return sign

    @property
    def style(self) -> str:
        """The colour of the tone, as a style for text."""
        return _STYLES[self]


_STYLES = {
    Tone.GOOD: "$text-success",
    Tone.BAD: "$text-error",
    Tone.NOTICE: "$text-warning",
    Tone.BUSY: "$text-primary",
    Tone.QUIET: "$foreground-muted",
}


def _theme(
    name: str,
    *,
    border: tuple[str, str],
    cursor: tuple[str, str, str],
    moved: str,
    track: str,
    selection: str,
    **colours: Any,
) -> Theme:
    """Return a theme with the colours of borders, cursors and scroll bars.

    Args:
        name: its name.
        border: the colour with the focus, which scroll bars use too, and the colour without it.
        cursor: the background and text of the line at the cursor, and its background without the focus.
        moved: the colour of a scroll bar under the mouse and while dragged.
        track: the background of scroll bars.
        selection: the background of selected text in a field.
        colours: further arguments of ``Theme``.
    """
    tracks = ("background", "background-hover", "background-active", "corner-color")
    return Theme(
        name,
        variables={
            "border": border[0],
            "border-blurred": border[1],
            "footer-background": colours["surface"],
            "footer-key-foreground": colours["accent"],
            "block-cursor-background": cursor[0],
            "block-cursor-foreground": cursor[1],
            "block-cursor-blurred-background": cursor[2],
            "block-cursor-text-style": "bold",
            "button-focus-text-style": "bold underline",
            "scrollbar": border[0],
            "scrollbar-hover": moved,
            "scrollbar-active": moved,
            **{f"scrollbar-{part}": track for part in tracks},
            "input-selection-background": selection,
        },
        **colours,
    )


DARK = _theme(
    "raidlab-dark",
    primary="#6cb6ff",
    secondary="#8b9fb8",
    accent="#ffb454",
    success="#7ee787",
    warning="#f2cc60",
    error="#ff7b72",
    foreground="#d6dde6",
    background="#0d1117",
    surface="#131a22",
    panel="#1c2530",
    border=("#3d4c5e", "#2d3947"),
    cursor=("#2c4a6b", "#ffffff", "#1f2f42"),
    moved="#5b7088",
    track="#131a22",
    selection="#2c4a6b",
)
LIGHT = _theme(
    "raidlab-light",
    primary="#0a5bb5",
    secondary="#57667a",
    accent="#a04e00",
    success="#166c2c",
    warning="#7d5500",
    error="#b51f1f",
    foreground="#1d2733",
    background="#fbfcfd",
    surface="#f1f4f8",
    panel="#e4eaf1",
    dark=False,
    border=("#9aa9bb", "#c3cdd9"),
    cursor=("#bcd7f5", "#0b1520", "#dbe8f6"),
    moved="#72859b",
    track="#e4eaf1",
    selection="#bcd7f5",
)
HIGH_CONTRAST = _theme(
    "raidlab-high-contrast",
    primary="#7fd4ff",
    secondary="#ffffff",
    accent="#ffd400",
    success="#5dff5d",
    warning="#ffd400",
    error="#ff9a9a",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#1a1a1a",
    text_alpha=1.0,
    border=("#ffffff", "#c0c0c0"),
    cursor=("#ffd400", "#000000", "#404040"),
    moved="#ffd400",
    track="#1a1a1a",
    selection="#005f87",
)
THEMES = (DARK, LIGHT, HIGH_CONTRAST)


def _sixteen(theme: Theme, black: str, white: str, *others: str) -> TerminalTheme:
    """Return the sixteen colours of a terminal for a theme.

    ``others`` are red, green, yellow, blue, magenta and cyan, then bright black and bright white, then the six bright
    colours.
    """
    plain, (bright_black, bright_white), bright = others[:6], others[6:8], others[8:]

    def triplets(*colours: str) -> list[tuple[int, int, int]]:
        return [(int(each[1:3], 16), int(each[3:5], 16), int(each[5:], 16)) for each in colours]

    foreground, background = triplets(str(theme.foreground), str(theme.background))
    return TerminalTheme(
        background, foreground, triplets(black, *plain, white), triplets(bright_black, *bright, bright_white)
    )


TERMINAL_DARK = _sixteen(
    DARK, "#3d4c5e", "#d6dde6",
    "#ff7b72", "#7ee787", "#f2cc60", "#6cb6ff", "#d2a8ff", "#76e3ea",
    "#8b9fb8", "#ffffff",
    "#ffa198", "#a5f3b0", "#ffe08a", "#9ccfff", "#e2c5ff", "#b3f0f5",
)  # fmt: skip
"""The sixteen colours of programs in the terminal, on a dark background."""
TERMINAL_LIGHT = _sixteen(
    LIGHT, "#1d2733", "#57667a",
    "#b51f1f", "#166c2c", "#7d5500", "#0a5bb5", "#7a2fa0", "#0b6a75",
    "#57667a", "#1d2733",
    "#9c1111", "#0f5a23", "#6b4800", "#084a94", "#662488", "#095761",
)  # fmt: skip
"""The sixteen colours on a light background. All are dark enough to read, even white and yellow."""
DEFAULT = DARK.name


ASCII_VARIABLE = "RAIDLAB_ASCII"
_TERMINALS = ("linux", "dumb", "vt100", "vt220")
KEY_WORDS = {"⏎": "enter", "↑": "up", "↓": "down", "←": "left", "→": "right", "⌫": "backspace"}
"""Words for Textual's key symbols, because the ASCII replacement of the Enter symbol looks like a different key."""


def needs_ascii(environ: Mapping[str, str], output: IO[str] | None) -> bool:
    """Whether to draw with ASCII: ``ASCII_VARIABLE`` is set, or the encoding or the terminal lacks Unicode."""
    if environ.get(ASCII_VARIABLE, "") not in ("", "0"):
        return True
    encoding = (getattr(output, "encoding", None) or "utf-8").lower()
    return not encoding.startswith("utf") or environ.get("TERM", "") in _TERMINALS


class AsciiFilter(LineFilter):
    """Replaces characters in everything that is drawn, so that no widget has to do it."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(to_ascii(text), style, control) for text, style, control in segments]
